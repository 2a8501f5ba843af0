"""What is said otherwise of classes of causes where the host is the device itself: of operators, and of XLA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holotrace.diagnosis.words import classes
from holotrace.diagnosis.words.class_texts import CLASSES, OF_XLA, Class

_CORES = (
    "Look for other processes on its cores, the binding of processes and threads to cores and NUMA nodes (numactl, "
    "OMP_NUM_THREADS), and clocks and power saving (cpupower)"
)
_NETWORK = "Compare the network interfaces that these hosts use (GLOO_SOCKET_IFNAME), and their errors and rates."
_OTHERWISE: Mapping[str, Class] = {
    classes.PAUSE: replace(
        CLASSES[classes.PAUSE],
        sentence="the host of {who} {pauses}, and nothing is computed",
        advice="Look for garbage collection (gc.disable(), gc.freeze()), other processes on the same cores, swapping, "
        "and large tensors whose memory goes back to the system (LD_PRELOAD of jemalloc or tcmalloc).",
    ),
    classes.LAUNCH: replace(
        CLASSES[classes.LAUNCH],
        sentence="{who} {is_} launch-bound{in_what}: Python and PyTorch need much of the time to start operators that "
        "compute little",
        advice="Run fewer and larger operators: torch.compile, larger batches, optimizers with foreach=True or "
        "fused=True. The profiler slows down starting them, too: measure a step without it, and pass its time with "
        "--unprofiled-step-ms.",
        seen="The host is busy between operators that compute, without a long call in between.",
    ),
    classes.RECORDING: replace(
        CLASSES[classes.RECORDING],
        sentence="recording takes at least about {taken}: hosts write down each of their calls, and start operators "
        "later because of that",
        seen="Hosts make many calls for each operator that computes, each of which is recorded; about half of the time "
        "between these operators is the profiler's, and a part of theirs that is not known.",
    ),
    classes.SLOW_DEVICE: replace(
        CLASSES[classes.SLOW_DEVICE],
        sentence="{who} {is_slow}: the same operators take {time_ratio:.2f} times as long as {than}",
        advice=f"{_CORES}, and take the host out of the job if they do not explain it.",
        seen="Operators with the same name and input shapes take longer on this rank than on the others, most kinds of "
        "them by about the same factor.",
    ),
    classes.SLOW_HOST: replace(CLASSES[classes.SLOW_HOST], advice=f"{_CORES}."),
    classes.MORE_WORK: replace(CLASSES[classes.MORE_WORK], if_equal=f"{_CORES}."),
    classes.UNEVEN_WORK: replace(CLASSES[classes.UNEVEN_WORK], if_equal=f"{_CORES}."),
    classes.PIPELINE: replace(
        CLASSES[classes.PIPELINE],
        advice="Move layers from this stage to others; embedding, last layer and loss count as work, too. If it has no "
        f"more than the others: {_CORES[0].lower()}{_CORES[1:]}.",
    ),
    classes.SLOW_LINK: replace(CLASSES[classes.SLOW_LINK], advice=_NETWORK),
}
_IDLE = "the device of {who} has nothing to do"
OF_HOSTS: Mapping[str, Class] = {
    cause: replace(told, sentence=told.sentence.replace(_IDLE, "{who} {computes} nothing"))
    for cause, told in {**CLASSES, **_OTHERWISE}.items()
}
# Of programs compiled by XLA for the CPUs of hosts.
XLA_OF_HOSTS: Mapping[str, Class] = {
    **OF_XLA,
    classes.RECORDING: replace(
        OF_XLA[classes.RECORDING],
        sentence="recording takes at least about {taken}: hosts write down each function in Python and each operation",
        advice="The costs of causes do not include it. Record without Python (jax.profiler.ProfileOptions with "
        "python_tracer_level=0), or time some steps without the profiler and pass the time of one with "
        "--unprofiled-step-ms.",
        seen="Many functions in Python began while nothing was computed, or operations took hardly any time: writing "
        "down a function takes about 0.4 µs, and an operation 0.7 µs.",
    ),
    classes.SLOW_DEVICE: replace(OF_XLA[classes.SLOW_DEVICE], advice=f"{_CORES}."),
    classes.SLOW_LINK: replace(OF_XLA[classes.SLOW_LINK], advice=_NETWORK),
    classes.EXPOSED: replace(
        OF_XLA[classes.EXPOSED],
        advice="Choose a sharding that moves less data, send in fewer and larger collectives, and compare the "
        "implementations of collectives (jax_cpu_collectives_implementation).",
    ),
}
