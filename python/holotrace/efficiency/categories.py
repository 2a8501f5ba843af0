"""What kind of work an operator or a kernel does: gemm, attention, norm and so on, by its name."""

from __future__ import annotations

import re
from functools import lru_cache

from holotrace.core.patterns import compiled

GEMM, ATTENTION, CONVOLUTION, NORM, ELEMENTWISE = "gemm", "attention", "convolution", "norm", "elementwise"
REDUCTION, COPY, EMBEDDING, MOE, OPTIMIZER = "reduction", "copy", "embedding", "moe", "optimizer"
COMMUNICATION, RNG, SORT, FFT, LINALG, OTHER = "communication", "rng", "sort", "fft", "linalg", "other"
CATEGORIES = (
    GEMM,
    ATTENTION,
    CONVOLUTION,
    NORM,
    ELEMENTWISE,
    REDUCTION,
    COPY,
    EMBEDDING,
    MOE,
    OPTIMIZER,
    COMMUNICATION,
    RNG,
    SORT,
    FFT,
    LINALG,
    OTHER,
)  # fmt: skip
# What models call families that have no category of their own.
_OF_FAMILY = {"pooling": REDUCTION, "index": EMBEDDING, "rope": ELEMENTWISE, "loss": REDUCTION}
# Rules are tried in order, on names in lower case; the first that fits decides.
_KERNELS = (
    (
        COPY,
        r"^(gpu_)?mem(cpy|set)|__amd_rocclr_(copy|fill)|^dma(_|$)|_and_cache|kv_(buffer|indices)|req_to_token|_repack|"
        r"transfer_kernel",
    ),
    (
        COMMUNICATION,
        # Those with a product in them are more than communication, and PyTorch's own run on one device.
        r"^(?!.*(gemm|matmul|at::native::)).*(nccl|rccl|msccl|all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter"
        r"|all[_-]?to[_-]?all|multimem_|nvshmem|deep_?ep|cross_device_reduce|(?<![a-z])(moe)?a2a(_|dispatch|combine)"
        r"|userbuffers_|(?<![a-z])nvls|hybrid_ep|rocshmem|symm_mem|(?<![a-z_])(put_signal|wait_signal|barrier)_kernel"
        r"|barrier_all|(?<![a-z])ep(dispatch|combine)|notify_dispatch|(inter|intra)_?node)",
    ),
    (
        RNG,
        r"distribution_elementwise|philox|curand|rocrand|random_|bernoulli|exponential_kernel|normal_and_transform|"
        r"seeded_dropout|gumbel",
    ),
    # Its backward pass may be the step of the optimizer, too.
    (EMBEDDING, r"split_embedding|(?<![a-z])tbe_|pooled_emb"),
    (
        OPTIMIZER,
        r"(?<!h)adam|multi_tensor_apply|multitensor|lamb(?!da)|\bsgd|adagrad|optimi[sz]er|foreach|muon|shampoo|"
        r"(?<![a-z])lion(?![a-z])|clip_grad|newton_?schulz",
    ),
    (
        MOE,
        r"moe|topk_?gating|expert|grouped_topk|permute_tokens|matmul_ogs|topk_softmax|routing|bitmatrix|"
        r"expandinputrows|row_id_map|with_mask_map|sort_chunks|shuffle_(mul_sum|rows)|(pre|post)_reorder|src2dst|"
        r"seg_indptr|fill_gateup|(?<![a-z])ep_(scatter|gather)|deepseek_v3_topk",
    ),
    (
        ATTENTION,
        r"flash_?(fwd|bwd|attn|attention|mla|decode|splitkv)|fmha|flash::|attention|attn|sdpa|mha_|pytorch_flash|"
        r"fused_attention|paged_|^rpa-|merge_?state|^_(fwd|bwd)(_grouped)?_kernel(_|$)|mqa_logits|qk_int\d|"
        r"fwd_(none_)?diag|fwd_kv_(parallel|reduce)|kkt_(fwd|bwd)|recompute_w_u|wy_repr|solve_tril|merge_\d+x\d+_to|"
        r"chunk_(local_)?cumsum|gdn_gating|(?<![a-z])wkv|(?<![a-z])mla_|flashinfer.*(prefill|decode)|sage_(fwd|bwd)|"
        r"unified_attn|(?<![a-z])pa_(fwd|bf16|fp16|fp8|decode|mqa|ragged)|delta_rule|gla_(fwd|bwd)|retention|"
        r"selective_(scan|state)|fused_recurrent|(?<![a-z])ssd_|chunk_(fwd|bwd|scan|state)|state_passing|"
        r"(?<![a-z])(kda|hstu)_|::fna::|natten|deform_attn|ms_deformable",
    ),
    (
        CONVOLUTION,
        r"conv(?!ert)|winograd|wgrad|dgrad(?!.*gemm)|fprop|implicit_gemm|implicitgemm|im\d?d?2\d?col|col2im|"
        r"nchwtonhwc|nhwctonchw|igemm|miopen.*(naive|sp3|asm)|cudnn_?infer|batched_transpose|subtensorop|scudnn|"
        r"(folded)?nhwctofolded|foldednhwc|fft[12]d_|flip_filter|cask\w*_cudnn|cudnn::cnn::",
    ),
    (FFT, r"(?<![a-z])fft|cufft|rocfft|vkfft|[sd]p(radix|vector)\d|(?<![a-z])stft"),
    (
        LINALG,
        r"lapack|cusolver|hipsolver|rocsolver|magma_(?!\w*gem)|cholesky|triangular_?solve|householder|"
        r"(lu|qr)_?decomposition|"
        r"(?<![a-z])(eigh?|svd|lu_(factor|solve|unpack|pivot))(?![a-z])|"
        r"(?<![a-z])[sdcz]?(potr[fsi]|getr[fsi]|geqrf|gesvd|gesdd|syev|heev|geev|gebrd|bdsqr|sytr[df]|hetr[df]|org(qr|br|tr)"
        r"|orm(qr|br|tr)|ung(qr|br|tr)|larf[bgt]|trsm|trtri)",
    ),
    # What is done to what a product gave, or is given.
    (ELEMENTWISE, r"silu_mul_\w*quant|kdequant"),
    (
        GEMM,
        r"gemm|gemv|cijk_|nvjet|cublas|cutlass.*(tensorop|universal)|xmma|matmul|(?<![a-z])(add|b|badd)?mm(_|$)|wgmma|deep_?gemm|"
        r"hmma|imma|dot_kernel|splitk|split_k|wvspl|_dot_|linear_(kernel|fwd|bwd)|mul_mat_|marlin|_scaled_mm|triton_tem_|"
        r"spmm|xxt_kernel|^bmm_|cublaslt_?epilogue|epilogue::impl|ba_plus_caa|kernel_mha_gemm|cusparse|streamk|"
        r"(lstm|gru|rnn)\w*persist|rnn_\w*(lstm|gru)|lora_(shrink|expand|[ab](?![a-z]))|(?<![a-z])[bs]gmv_",
    ),
    (
        NORM,
        r"layer_?norm|rms_?norm|batch_?norm|group_?norm|instance_?norm|(?<!vector)_norm(alize|alization)?(_|$|\b)|"
        r"l2norm|welford|(?<![a-z])ln_(fwd|bwd|parallel)|bn_(fw|bw)|rowwisemoments|gammabeta|cucompute(part)?grad|computeinternalgradients|"
        r"computefusedparams|backwardfusedparams|batchnorm|normrope",
    ),
    (ELEMENTWISE, r"rotary|(?<![a-z])m?rope(?![a-z])|mlarope|qkrope|kn_entry_\dc_"),
    (SORT, r"topk|top_k"),
    (
        EMBEDDING,
        r"embedding|index_?select|gather|scatter|index_?(put|add|copy|fill|elementwise|kernel)|indexing_backward|"
        r"bounds_check|write_indices|compute_grad_weight|krn_partial|num_of_partial_segments",
    ),
    (SORT, r"(?<!ten)sort|bitonic|radix|nms|unique|searchsorted|sampling|top_?p_?renorm|rejection_|recovered_tokens"),
    (
        REDUCTION,
        r"softmax|reduce_kernel|reduction|(?<![a-z])reduce|(?<![a-z])cumsum|scan|argmax|argmin|loss|pool|"
        r"upsample|histogram|logsumexp|entropy|devicereduce|criterion|deviceselect|partition_(config|kernel)|grid_sampler|"
        r"roi_align|(?<![a-z])(amax|jsd|kl_?div)",
    ),
    (
        COPY,
        r"copy|cat_?array|catarray|transpose|fill|memset|memcpy|slice|pad(\dd)?_|permute|tensor_?transform|reorder|pack|"
        r"kv_?cache|reshape_and_cache|_and_cache|convert_|converttensor|cast_kernel|to_copy|unroll_cat|chunk_cat|"
        r"split_with_sizes",
    ),
    (
        ELEMENTWISE,
        r"elementwise|pointwise|act_and_mul|activation|active(fwd|bwd)|neuron|gelu|silu|relu|glu(_|$|\b)|quant|"
        r"dropout|(?<![a-z])(add|mul|div|sub|exp|where|mask)(_|$)|^triton_$|tril|triu|arange|unrolled|triton__|"
        r"rescale|gated_|(lstm|gru)_cell|softplus|tanh|sigmoid|penalt|temperature|cvt_|hfp8|fp8rowwise|qparam|(?<![a-z])range(_|$)|"
        r"hadamard|softcap|bitmask|mxfp\d|scale_swizzle|amp_update",
    ),
    (COPY, r"(?<![a-z])cast"),
)
# Kernels that Inductor makes are named after the operators whose results they need or give; products, convolutions and
# attention are in those only that are made of templates. Those called "poi" sum nothing up.
_FUSED = re.compile(r"^triton_(?P<kind>poi|red|per|for|mix|spl)_fused_(?P<operators>\w*)")
_IN_FUSED = (
    (RNG, r"inductor_random|bernoulli|philox"),
    (OPTIMIZER, r"(?<!h)adam|foreach"),
    (NORM, r"(layer|rms|batch|group|instance)_norm|native_(batch|layer|group)_norm|(?<![a-z])rsqrt"),
    (EMBEDDING, r"embedding|(?<![a-z])(index|gather|scatter)(?!_like)"),
    (SORT, r"(?<![a-z])(sort|topk)"),
)
# What moves elements or only looks at them otherwise.
_MOVES = re.compile(
    r"(?<![a-z])(_?to_copy|clone|copy|cat|stack|_?unsafe_view|view|reshape|transpose|permute|t|slice|select|expand|"
    r"unsqueeze|squeeze|split|with_sizes|unbind|constant_pad_nd|backward|full|zeros|ones|like|empty|fill|new|"
    r"lift_fresh|as_strided|unfold|flip|repeat|detach|alias)(?![a-z])"
)
# Names of instructions of XLA's programs.
_INSTRUCTION = re.compile(r"[a-z]+([_-][a-z]+)*(\.\d+)+|[a-z]+(_[a-z]+)*_fusion")
_OPERATORS = (
    (
        COMMUNICATION,
        r"^(c10d|_c10d|nccl|gloo|symm_mem|record_param_comms)|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all",
    ),
    (EMBEDDING, r"split_?(embedding|lookup)|pooled_?emb"),
    (COPY, r"cache_ops::|_and_cache|transfer_kv"),
    (OPTIMIZER, r"optimizer|(?<!h)adam|_foreach_|sgd"),
    (MOE, r"moe|experts"),
    (ATTENTION, r"attention|attn|fmha"),
    (CONVOLUTION, r"conv(?!ert)"),
    (GEMM, r"gemm|matmul|linear(?!i[sz]e)|(^|::|_)(mm|bmm)($|_)|addmm"),
    (NORM, r"norm(?!al)"),
    (FFT, r"(^|::|_)fft_|stft"),
    (LINALG, r"linalg_(?!cross|diagonal)|cholesky|(^|::|_)(lu|qr|svd|eigh?|lstsq|pinverse|logdet|slogdet)($|_)"),
    (EMBEDDING, r"embedding|index|gather|scatter"),
    (SORT, r"sort|topk|unique|nonzero|nms"),
)
# Words of opcodes, of kinds on TPUs and of the names of fusions, which are made of the instructions in them. Of several
# the first in this order decides: it takes longest.
_WORDS = (
    (GEMM, "dot gemm matmul einsum"),
    (CONVOLUTION, "convolution conv"),
    (FFT, "fft"),
    (LINALG, "cholesky triangular solve eigh svd lu qr geqrf householder"),
    (SORT, "sort topk"),
    (RNG, "rng threefry philox"),
    (EMBEDDING, "gather scatter"),
    (REDUCTION, "reduce reduction"),
    (
        ELEMENTWISE,
        "add subtract multiply divide maximum minimum exponential log logistic tanh power rsqrt sqrt negate abs sign "
        "compare select and or not xor clamp floor ceil round cosine sine erf remainder atan cbrt elementwise",
    ),
    (
        COPY,
        "copy transpose reshape broadcast concatenate slice pad reverse bitcast convert iota formatting infeed outfeed",
    ),
)
# What the scopes of other instructions than products tell of them.
_SCOPES = (
    (OPTIMIZER, r"optimi[sz]er|(?<!h)adam|sgd"),
    (NORM, r"(layer|rms|batch|group|instance)_?norm"),
    (RNG, r"threefry|random_bits|jit\(_(uniform|normal|normal_real|bernoulli|gumbel|truncated_normal|randint)\)"),
)
_PROGRAM = re.compile(r"^p?jit\([^/]*\)/")
_KNOWN_WORDS = tuple((category, frozenset(words.split())) for category, words in _WORDS)
_SEPARATORS = re.compile(r"[^a-z]+")
# The digits and letters behind are of the kernel's arguments.
_TRITON = "triton"  # what the model of its kernels is called
_UNNAMED = re.compile(r"triton_+(\d+[a-z]+)*\d*")
_ARGUMENTS = re.compile(r"\(.*$", re.DOTALL)
# The name of a library of embeddings has that of a product in it.
_LIBRARY = re.compile(r"fbgemm(_gpu)?(?=::)")


@lru_cache(maxsize=1 << 16)
def of_kernel(name: str) -> str:
    """The category of a kernel."""
    # Parameters repeat names of types; template arguments say what a general kernel does.
    whole = _LIBRARY.sub("", name.replace("(anonymous namespace)", "").lower())
    if fused := _FUSED.match(whole):
        return _of_fused(fused["kind"], fused["operators"])
    category = _first(_KERNELS, _ARGUMENTS.sub("", whole))
    if category == OTHER:
        category = _first(_KERNELS, whole)
    return _of_words(whole) if category == OTHER and _INSTRUCTION.fullmatch(whole) else category


def _of_fused(kind: str, operators: str) -> str:
    """The category of a kernel that Inductor made of these operators."""
    category = _first(_IN_FUSED, operators)
    if category != OTHER:
        return category
    if kind in ("red", "per"):
        return REDUCTION
    left = _SEPARATORS.sub("", _MOVES.sub("", operators))
    return ELEMENTWISE if left or not _SEPARATORS.sub("", operators) else COPY


@lru_cache(maxsize=1 << 16)
def of_operator(name: str, of_model: str | None, kernel: str | None) -> str:
    """The category of an operator: by its model, else by its name, else by the kernel that takes most of its time."""
    category = _by_operator(name, of_model)
    if category in (OTHER, _TRITON):
        category = of_kernel(kernel or name)
        # Kernels that a compiler makes may all have one name, and their operators one each.
        if kernel is not None and _UNNAMED.fullmatch(kernel):
            named = of_kernel(name)
            category = category if named == OTHER else named
    return category


def is_of_kernels(name: str, of_model: str | None) -> bool:
    """Whether an operator is nothing by itself, as a compiled region is, but each of its kernels something."""
    return _by_operator(name, of_model) == OTHER


@lru_cache(maxsize=1 << 16)
def _by_operator(name: str, of_model: str | None) -> str:
    if of_model is not None:
        return _OF_FAMILY.get(of_model, of_model)
    return _first(_OPERATORS, _LIBRARY.sub("", name.lower()))


@lru_cache(maxsize=1 << 16)
def of_instruction(name: str, kind: str, scope: str, target: str, inside: str = "", *, has_product: bool) -> str:
    """The category of an instruction of an XLA program.

    Args:
        kind: Its opcode, or what TPUs call its kind.
        scope: The name scopes and the operator that it was made from, one in the other.
        target: What a custom call calls.
        inside: Opcodes of what a fusion is made of.
        has_product: Whether its shapes tell of a product in it.
    """
    operator = scope.rpartition("/")[2]
    if target:
        called = of_kernel(target)
        return called if called != OTHER else of_kernel(operator or name)
    said, of_scope_end = _of_words(kind), _of_words(operator)
    if has_product or said in (GEMM, CONVOLUTION):
        if of_scope_end in (GEMM, CONVOLUTION):
            return of_scope_end
        # TPUs compute products of matrices as convolutions, too; of theirs no product is known.
        is_convolution = said == CONVOLUTION or _of_words(inside) == CONVOLUTION
        return CONVOLUTION if is_convolution and has_product else GEMM
    # What a whole program is called tells nothing of its parts.
    of_scope = _first(_SCOPES, _PROGRAM.sub("", scope).lower())
    if of_scope != OTHER:
        return of_scope
    of_inside = _of_words(inside)
    told = (said, _of_words(name), of_kernel(name), of_scope_end, of_kernel(operator), of_inside)
    found = next((one for one in told if one != OTHER), OTHER)
    if found == COPY and of_inside != OTHER:
        # A fusion has the scope, and often the name, of what it does last: a softmax in bf16 ends in a conversion.
        return of_inside
    return ELEMENTWISE if found == OTHER and kind == "loop fusion" else found


def _of_words(text: str) -> str:
    words = set(_SEPARATORS.split(text.lower()))
    return next((category for category, known in _KNOWN_WORDS if words & known), OTHER)


def _first(rules: tuple[tuple[str, str], ...], name: str) -> str:
    return next((category for category, pattern in compiled(rules) if pattern.search(name)), OTHER)
