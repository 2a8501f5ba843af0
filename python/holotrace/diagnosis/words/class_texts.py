"""What is said of each class of causes: the sentence, what to do, what decides for it, what it is confused with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from holotrace.diagnosis.words import classes


@dataclass(frozen=True)
class Class:
    """How a class of causes is put into words; ``{who}`` and ``{what}`` are filled in."""

    sentence: str
    advice: str
    to_know_more: str = ""
    seen: str = ""
    """What in the trace decides for it."""
    confused: str = ""
    """What else looks like it, and what tells them apart."""
    if_equal: str = ""
    """What to change where calls of equal shapes take unequally long."""


_CLOCKS = "clocks, temperature, power limit and ECC errors with those of the others (nvidia-smi -q, rocm-smi)"
_OF_DATA = "Find out whether these calls depend on the data (lengths, indices, experts), and balance these"
ALL_RANKS = "Record every rank, so that the trace shows which of them came late."
_STACKS = "Record with with_stack=True, so that the trace has the names of the Python functions of the host."
_SHAPES = "Record with record_shapes=True, so that the trace shows how much work each operator had."
CLASSES: Mapping[str, Class] = {
    classes.INPUT: Class(
        "the device of {who} has nothing to do while the host waits for input in {what}",
        "Give the data loader more workers (num_workers), let it prefetch (prefetch_factor, persistent_workers=True), "
        "and move decoding and tokenising out of the training process.",
        seen="While the device has nothing to do, the host is in a call whose name contains data loader or next batch.",
        confused=("A host pause, if no call names the loader; a slow host, if all calls of the rank take longer."),
    ),
    classes.COMPILATION: Class(
        "the work of {who} stands still while the host compiles in {what}",
        "Keep shapes from changing (pad to a few sizes, mark_dynamic), compile before the measured steps, and keep the "
        "caches of the compiler between runs (TORCHINDUCTOR_FX_GRAPH_CACHE=1). TORCH_LOGS=recompiles says why.",
        seen=(
            "Compiling ranges or functions of Dynamo, Inductor or Triton, the driver loading modules or making "
            "captured graphs ready, or kernels that are run to find the fastest."
        ),
        confused="Running compiled code: the functions that wrap it are not counted.",
    ),
    classes.CHECKPOINT: Class(
        "the device of {who} has nothing to do while the host saves a checkpoint in {what}",
        "Save asynchronously (torch.distributed.checkpoint.async_save), less often, or sharded over all ranks.",
        seen=(
            "A function or range whose name contains checkpoint, state dict or serialization; copies that it starts "
            "belong to it."
        ),
        confused="Activation checkpointing, which recomputes activations and is not counted.",
    ),
    classes.EVALUATION: Class(
        "training stands still while {who} {evaluates} in {what}",
        "Evaluate less often, or on other devices.",
        seen=(
            "A function, a range or a program of XLA whose name says that the model is evaluated or validated, if the "
            "job does something else, too."
        ),
        confused="A Python function, if its name does not contain these words.",
    ),
    classes.LOGGING: Class(
        "the device of {who} has nothing to do while the host logs in {what}",
        "Log every n-th step, from another thread, and on values that were copied to the host asynchronously.",
        seen=(
            "A function or range whose name says that metrics are logged, printed or written, or that belongs to a "
            "known logging library."
        ),
        confused=(
            "A Python function, if its name does not say so; a synchronization, if waiting for the logged value "
            "takes the time."
        ),
    ),
    classes.COLLECTION: Class(
        "the device of {who} has nothing to do while Python collects garbage",
        "Call gc.disable() after warming up and gc.collect() at the same step on every rank, or gc.freeze().",
        seen="A function or range whose name says that garbage is collected.",
        confused="A host pause: without such a name the trace does not show that it was the collector.",
    ),
    classes.ALLOCATOR: Class(
        "the device of {who} has nothing to do while the allocator gets and frees device memory in {what}",
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, keep sizes the same in every step, leave more memory "
        "free, and do not call torch.cuda.empty_cache() within steps.",
        "Record with profile_memory=True, so that the trace shows how much memory was requested.",
        seen="Calls that allocate or free device memory, such as cudaMalloc and cudaFree, within a step.",
        confused="A synchronization: freeing memory waits for the device, too, but its call shows that it is a free.",
    ),
    classes.COPY: Class(
        "{copying} ({what})",
        "Copy from pinned memory (pin_memory=True) with non_blocking=True on a stream of its own, before it is needed.",
        _STACKS,
        seen="A copy between host and device while nothing else runs.",
        confused="A checkpoint or input: copies within those belong to them. Copies within a device are work. Waits in "
        "copies to the host belong to these, and so do pauses between them that are shorter than they are.",
    ),
    classes.SYNCHRONIZATION: Class(
        "the host of {who} synchronizes with the device in {what}, so that it cannot launch ahead and the device waits",
        "Do not read values of the device in a step: keep sums on the device, read them every n-th step, and replace "
        ".item(), .nonzero(), .cpu() and boolean masks by operations of fixed shape. "
        "torch.cuda.set_sync_debug_mode('warn') shows the lines.",
        _STACKS,
        seen="The host waits for the device; afterwards it launches work while the device has nothing to do.",
        confused="Launch-bound: a host that cannot keep up with its device loses nothing by waiting for it.",
    ),
    classes.UPLOAD: Class(
        "the device of {who} has nothing to do while the host sends data to it in {what}",
        "Send batches before they are used (pl.MpDeviceLoader with device_prefetch_size, or jax.device_put of the next "
        "batch while the step runs), send fewer and larger ones, and keep data on the device that is needed again.",
        seen="XLA: the host sends data to a device that has nothing else to do.",
        confused="Input, if the batch was not ready yet; a copy that the device itself runs.",
    ),
    classes.FUNCTION: Class(
        "the device of {who} has nothing to do while the host is in {what}",
        "Move this work out of the step: to another thread or process, or to every n-th step.",
        seen="A Python function or range that launches nothing holds the host for more than 1 ms, in one call or in "
        "several while the device has nothing to do; on hosts that compute also in short calls between operators, if "
        "these are a quarter of what launching takes.",
        confused="A host pause, if the function was not recorded.",
    ),
    classes.PAUSE: Class(
        "the host of {who} {pauses}, and its device has nothing to do",
        "Look for garbage collection (gc.disable(), gc.freeze()), other processes on the same cores, and swapping. The "
        "first launch of a kernel takes long, because its code is loaded: warm up before the recorded steps, or set "
        "CUDA_MODULE_LOADING=EAGER.",
        _STACKS,
        seen="The host is between two calls for more than 1 ms, within a function or range that launches work at other "
        "times, or in a single launch, and the device has nothing to do for the last of it.",
        confused="A function that was not recorded: record stacks.",
    ),
    classes.LAUNCH: Class(
        "{who} {is_} launch-bound{in_what}: the host launches kernels slower than the device runs them",
        "Launch fewer and longer kernels: one call for all that a loop goes over, "
        "torch.compile(mode='reduce-overhead') or CUDA graphs, larger batches, fused optimizers (fused=True). The "
        "profiler slows down launching, too: measure a step without it, and pass its time with --unprofiled-step-ms.",
        seen="The host is busy launching, without a long call in between, and the device waits for it; or it launches "
        "many kernels in a row, each of which is done long before the next one is launched. If these are one kernel of "
        "a few microseconds over and over, the cost is all of their time, also where the device never waits for them.",
        confused="A slow host, if all calls of only one rank take longer.",
    ),
    classes.PROFILER: Class(
        "the device of {who} has nothing to do while the profiler works ({what})",
        "Leave warm-up steps before the recorded ones (torch.profiler.schedule(warmup=2)), and record without stacks.",
        seen="The host is in functions of the profiler: its start, stop and step.",
        confused="A host pause, if these functions were not recorded.",
    ),
    classes.RECORDING: Class(
        "recording takes about {taken}: hosts write down each of their calls, and launch kernels later because of that",
        "The costs of causes do not include it. To measure it, time some steps without the profiler, and pass the time "
        "of one with --unprofiled-step-ms; holotrace.capture does both.",
        seen="Hosts make many calls for each kernel that they launch, each of which is recorded, and launch late; "
        "about half of the time of such hosts is the profiler's.",
        confused="Launch-bound, which is told of what hosts are late beyond that.",
    ),
    classes.EARLIER: Class(
        "for {lasted} the device of {who} did what had been launched before {earlier}, or waited for it",
        "Call torch.cuda.synchronize() before the profiler starts, or start it some steps earlier, so that all that "
        "runs is on record. If the recording was cut from a longer one, cut it where the device has nothing to do.",
        seen="The first work of a queue was launched early in the recording, but did not begin for long, and nothing "
        "that was recorded ran meanwhile.",
        confused="Queued work, where what it waited for was recorded.",
    ),
    classes.UNRECORDED: Class(
        "the device of {who} has nothing to do, and the trace does not show what the host did during that "
        "time{meanwhile}",
        "Look at what the training loop does between steps.",
        _STACKS,
        seen="The trace has no call of the host at that time, for more than 1 ms.",
        confused="Any other cause on the host.",
    ),
    classes.UNRECORDED_RANK: Class(
        "{awaited}",
        "Record the same steps on every rank, or put the files of the others into one folder with this one: what made "
        "another rank late is seen in its recording only.",
        seen="Of the ranks that meet, some were not recorded, or not in the same steps. A collective takes half as "
        "long again as others of the same ranks with as much data, or three times as long where others move data at "
        "the same time.",
        confused="A link that is slow from time to time. Where all take equally long, nothing tells waiting from "
        "moving data, and they are exposed transfers.",
    ),
    classes.QUEUED: Class(
        "work of {who} was launched in time and waited for other work on the device",
        "Remove events and streams that make kernels wait for work whose results they do not need.",
        "Record with enable_cuda_sync_events=True, so that the trace shows what waited for what.",
        seen="The work was launched in time and waited for other work on the device.",
        confused="Communication with ranks that were not recorded.",
    ),
    classes.SLOW_DEVICE: Class(
        "{who} {is_slow}: the same kernels take {time_ratio:.2f} times as long as {than}",
        f"Compare {_CLOCKS}, and take the device out of the job if they differ.",
        seen=(
            "Kernels with the same name, grid, block and input shapes take longer on this rank than on the others. "
            "Most kinds of kernels do, by about the same factor, and that explains all of the rank's extra time. "
            "Devices of one host are compared with each other in the same way; where all become slow, steps are, or "
            "where nothing marks them eight stretches of the recording."
        ),
        confused=(
            "More work, if shapes were not recorded. Kernels that share their device with a collective that waits for "
            "late ranks take longer, too: that is told apart by those that run alone."
        ),
    ),
    classes.MORE_WORK: Class(
        "{who} {how}, most of it in {what}: computing takes {time_ratio:.2f} times as long",
        "Give every rank the same amount of work: balance the lengths of sequences, batches or shards over ranks.",
        _SHAPES,
        seen=(
            "The same rank always computes longer than the others that run the same kernels, with other shapes or more "
            "calls. Devices of one host are compared with each other in the same way."
        ),
        confused="A slow device, on which equal kernels take longer.",
        if_equal=f"{_OF_DATA}; if they do not, compare {_CLOCKS}.",
    ),
    classes.UNEVEN_WORK: Class(
        "{those} {uneven}, most of it in {what}: the {one} that {longest} changes, and the others wait for it",
        "Balance each step: pack sequences to equal numbers of tokens, and balance experts or shards.",
        _SHAPES,
        seen="A different rank computes longest at different times; by recorded shapes it has more work, or not. "
        "Devices of one host are compared with each other in the same way.",
        confused="More work, if it is mostly the same rank.",
        if_equal=f"{_OF_DATA} in each step; if they do not, compare {_CLOCKS}.",
    ),
    classes.EXPERTS: Class(
        "{tokens}, most of the work in {what}: experts are imbalanced, and the others wait in the all-to-all",
        "Balance the experts: an auxiliary or bias-based balancing loss, a capacity factor, or more than one copy of "
        "experts that many tokens go to.",
        _SHAPES,
        seen="A rank computes longer, and receives more elements than others in an all-to-all. The cost is what it "
        "computes beyond an even share, and what exchanges take longer since they end when it has all its tokens.",
        confused="More work, if there is no all-to-all.",
    ),
    classes.PIPELINE: Class(
        "{who} {is_} a slow stage of the pipeline: computing takes {time_ratio:.2f} times as long as in the other "
        "stages, most of it in {what}, and they wait for it (pipeline bubble)",
        "Move layers from this stage to others; embedding, last layer and loss count as work, too. If it has no more "
        "than the others, compare clocks, temperature and power limit of its device with theirs (nvidia-smi -q, "
        "rocm-smi).",
        _SHAPES,
        seen="A rank that sends to others and receives from them computes longer than the other stages. The cost is "
        "what it computes beyond them. Layers that are moved to other stages take time there: of two stages half of "
        "the cost can be saved that way, of eight seven eighths.",
        confused="A slow device, if equal kernels take longer. A file that tells of passes only, as MegaScan's, does "
        "not show which of the two it is.",
    ),
    classes.WRONG_TYPE: Class(
        "{who} {computes} matrix products in fp32 without TF32 (most of that time in {what}), while the device has "
        "units for narrower types that are many times faster",
        "If the accuracy allows, put the layer under autocast, cast its weights and inputs, or allow TF32: "
        'torch.set_float32_matmul_precision("high").',
        seen="Matrix products with fp32 inputs, on a device whose fp32 units reach a third or less of the rate of its "
        "16-bit units, or a fifth of that of its TF32 units. If the job also has products in 16 bits, the cost is "
        "computed from their rate. Otherwise the cause is reported if the names and the speed of the kernels show that "
        "the fp32 units limit them, and the cost is computed from 0.6 of the TF32 peak.",
        confused="Inefficient kernels, if their type is the same as that of the others.",
    ),
    classes.INEFFICIENT: Class(
        "kernels of {who} reach less than a fifth of what the device allows for their shapes, while others of their "
        "kind come close to it, most of that time in {what}",
        "Pad or batch these shapes, change their layout, or let the compiler choose the kernel "
        "(torch.compile(mode='max-autotune'), TunableOp on AMD); operator-efficiency lists them.",
        _SHAPES,
        seen="Kernels of 20 µs and more that are far from the limits that their shapes and the device set, while "
        "others of their kind are not.",
        confused="A slow device, if the same kernels are faster on other ranks.",
    ),
    classes.UNFUSED_ATTENTION: Class(
        "attention of {who} is computed by one operator after another around {what}, each of which reads or writes "
        "the scores of all pairs of tokens",
        "Call torch.nn.functional.scaled_dot_product_attention (nn.MultiheadAttention with need_weights=False), with "
        "is_causal=True in place of a mask, or flex_attention for other masks and biases.",
        seen="A softmax between two batched matrix products, forward and backward. The cost is the time of all "
        "operators on tensors of that shape, minus the time of a fused kernel at 0.4 of the peak.",
        confused="Inefficient kernels, if a fused kernel is far from the limits.",
    ),
    classes.UNFUSED_OPTIMIZER: Class(
        "the optimizer of {who} runs one operator after another over parameters and moments in {what}, where a fused "
        "one reads and writes each of them once",
        "Pass fused=True to the optimizer, or foreach=True where there is no fused one.",
        seen="Operators in the range of an optimizer's step (Adam, AdamW, SGD), none of them fused. The cost is "
        "their time minus the time that the bytes of parameters, gradients and moments take at 0.78 of the memory's "
        "bandwidth; for operators on lists of tensors, it is the share of reads and writes that a fused one avoids.",
        confused="Launch-bound: the many launches of such an optimizer cost time of the host, too.",
    ),
    classes.SLICE_GRADIENTS: Class(
        "the backward pass of {who} writes and adds up a gradient of the whole tensor for each of its slices, most of "
        "that time in {what}",
        "Split the tensor once (torch.unbind, torch.split), so that the slices have one gradient, or compute on all of "
        "it at once (torch.bmm, torch.vmap, torch._grouped_mm).",
        seen="Nodes of the backward pass that fill a tensor as large as the one that was sliced, and additions of such "
        "tensors. The cost is their time minus the time to write each gradient once.",
        confused="Inefficient kernels; but these kernels run as fast as the memory allows.",
    ),
    classes.CHANNELS_FIRST: Class(
        "convolutions of {who} have channels first, so that layouts are converted or batch norms are slow, most of "
        "that time in {what}",
        "Store model and inputs with channels last: .to(memory_format=torch.channels_last), with "
        "torch.backends.cudnn.benchmark = True where shapes stay the same.",
        seen="Kernels that convert layouts within convolutions. The cost is their time, plus the time that batch norms "
        "below a fifth of the memory's limit take beyond the time at 0.35 of this limit.",
        confused="Inefficient kernels, if no layout is converted.",
    ),
    classes.SLOW_HOST: Class(
        "{who} {has} a slow host: calls take {host_ratio:.2f} times as long as on the others",
        "Look for other processes on its cores, the binding to a NUMA node (numactl), and power saving.",
        seen="The calls of a host take longer than those of others, all common calls by a similar factor, and its "
        "device waits.",
        confused="Launch-bound, if all hosts are alike.",
    ),
    classes.SLOW_LINK: Class(
        "{who} {has} a slow link: {what} takes {time_ratio:.2f} times as long as {than}",
        "Compare link widths and error counters of these nodes (nvidia-smi nvlink, ibstat), and check with "
        "NCCL_DEBUG=INFO which transport they use.",
        seen="Transfers of a group take longer than those of equal size in other groups over as many nodes: by two "
        "fifths, or by a fifth if hardly one is as short. Exchanges whose sizes follow from data are compared by rate.",
        confused="A late rank: the time before the last rank arrives is not transfer. Only jobs with several groups "
        "can have this cause, or ones in which some steps are slow.",
    ),
    classes.EXPOSED: Class(
        "{exposed}",
        "Start it earlier: prefetch the parameters of the next layer (FSDP forward_prefetch, backward_prefetch), "
        "reduce gradients in smaller buckets, or overlap it with another micro-batch.",
        seen=(
            "No rank computes during a transfer. For parameters that are gathered several times a step, most of the "
            "gathers must be exposed."
        ),
        confused="A late rank: waiting for it is not transfer, but has its own cause.",
    ),
}

# What to do against an exposed transfer, by what the collective or kernel is called; the first that fits.
KEEP_SHAPES = "Keep shapes and types from changing (pad to a few sizes), "
# What is said otherwise of programs compiled by XLA.
OF_XLA: Mapping[str, Class] = {
    **CLASSES,
    classes.INPUT: replace(
        CLASSES[classes.INPUT],
        advice="Load and transform data in other processes (num_workers, grain, tf.data) and keep several batches "
        "ready, so that the step only has to take one.",
    ),
    classes.COMPILATION: replace(
        CLASSES[classes.COMPILATION],
        advice=f"{KEEP_SHAPES}compile before the measured steps, and keep programs between runs "
        "(jax_compilation_cache_dir; torch_xla.runtime.initialize_cache).",
        to_know_more="Run with jax_explain_cache_misses=True (JAX) or PT_XLA_DEBUG_LEVEL=2 (PyTorch/XLA), so that the "
        "log says which argument or line made another program.",
    ),
    classes.EARLIER: replace(
        CLASSES[classes.EARLIER],
        advice="Call jax.block_until_ready on the last results before the profiler starts, or start it some steps "
        "earlier, so that all that runs is on record.",
    ),
    classes.CHECKPOINT: replace(
        CLASSES[classes.CHECKPOINT],
        advice="Save asynchronously (orbax.checkpoint.AsyncCheckpointer; save_async of the CheckpointManager of "
        "torch_xla.experimental.distributed_checkpoint), less often, or sharded over all hosts.",
    ),
    classes.FUNCTION: replace(
        CLASSES[classes.FUNCTION],
        advice="Move this work out of the step: to another thread or process, or to every n-th step. Where the program "
        "calls a function in Python (jax.pure_callback, io_callback), write it with operations of XLA, or return what "
        "it needs and call it outside.",
        seen="A Python function that launches nothing holds the host for more than 1 ms, or a program calls one.",
    ),
    classes.SYNCHRONIZATION: replace(
        CLASSES[classes.SYNCHRONIZATION],
        sentence="the host of {who} waits for results in {what}, so that it prepares nothing and the device waits",
        advice="Read results one step later or every hundredth step, keep running sums on the device, and log from a "
        "callback (xm.add_step_closure, jax.debug.callback). Call block_until_ready only to measure times. What "
        "PyTorch/XLA reads before the end of a step it computes twice: by itself, and with all of the step.",
        to_know_more="",
    ),
    classes.LAUNCH: replace(
        CLASSES[classes.LAUNCH],
        sentence="{who} {is_} launch-bound: {its} devices have nothing to do while the host prepares and starts "
        "programs",
        advice="Give the device more to do at once: larger batches, several steps in one program (lax.scan, "
        "torch_xla.compile), and no Python work between steps.",
    ),
    classes.COPY: replace(
        CLASSES[classes.COPY],
        advice="Keep data on the device that is needed again, offload less, and start copies so early that computing "
        "hides them.",
        to_know_more="",
    ),
    classes.UNRECORDED: replace(
        CLASSES[classes.UNRECORDED],
        advice="Look at what the training loop does at that time. With PyTorch/XLA it may be Python that records the "
        "operations of the step, which torch.compile(backend='openxla') does once.",
        to_know_more="Record with host_tracer_level=3 and python_tracer_level=1 (JAX), or put xp.Trace around parts of "
        "the step (PyTorch/XLA), so that the trace shows what the host did.",
    ),
    classes.QUEUED: replace(
        CLASSES[classes.QUEUED],
        sentence="programs of {who} were launched in time and began late, when nothing else ran on the device",
        advice="Look at what programs need before they can begin: inputs that are still being sent, other cores or "
        "hosts that come late, and, where devices are threads of the host, cores that are busy with other things.",
        seen="The program was launched before the device had nothing to do.",
        to_know_more="",
    ),
    classes.SLOW_DEVICE: replace(
        CLASSES[classes.SLOW_DEVICE],
        advice="Run the job without this device, or on another host, and check whether it is as slow.",
    ),
    classes.MORE_WORK: replace(
        CLASSES[classes.MORE_WORK],
        advice="Give every host, and every device of it, the same amount of work: balance shards and batches, and look "
        "for loops and branches whose length depends on the data.",
        to_know_more="",
    ),
    classes.WRONG_TYPE: replace(
        CLASSES[classes.WRONG_TYPE],
        sentence="{who} {computes} matrix products of f32 at highest precision (most of that time in {what}), while "
        "the device has units for TF32 and narrower types that are many times faster",
        advice="If the accuracy allows, multiply bf16, or lower the precision of products of f32: without "
        'precision=HIGHEST and jax_default_matmul_precision="highest" (JAX), or with '
        'torch_xla.backends.set_mat_mul_precision("default") (PyTorch/XLA).',
        seen="Products of a GPU whose precision is HIGHEST, if they take as long as on its units for fp32. The cost is "
        "computed from 0.6 of the TF32 peak.",
    ),
    classes.INEFFICIENT: replace(
        CLASSES[classes.INEFFICIENT],
        sentence="operations of {who} reach less than a fifth of what the device allows, while others of their kind "
        "come close to it, most of that time in {what}",
        advice="Look at the shapes and layouts of its operands: transposes, dimensions that are no multiples of 8 and "
        "128 (TPU), and types that are wider than needed; hlo-ops lists it with shape, layout and source line.",
        to_know_more="",
        seen="Operations of 20 µs and more that are far from the limits by the operations and bytes that the compiler "
        "counts, while others of their category are not.",
    ),
    classes.SLOW_LINK: replace(
        CLASSES[classes.SLOW_LINK],
        sentence="{who} {has} a slow link: {what} takes at least {time_ratio:.2f} times as long as {than}",
        advice="Compare the links of these hosts and chips (ICI, DCN or the network of the host) with those of others, "
        "and run the job without them.",
        seen="Devices of a group stand still in transfers when those of other groups do not in equal ones.",
    ),
    classes.EXPOSED: replace(
        CLASSES[classes.EXPOSED],
        advice="Let the compiler overlap it (xla_gpu_enable_latency_hiding_scheduler, "
        "xla_tpu_enable_async_collective_fusion), and choose a sharding that moves less data.",
    ),
}
