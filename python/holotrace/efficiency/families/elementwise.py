"""Calculations on each element: one operation an element of the result."""

from __future__ import annotations

from holotrace.efficiency import element_types
from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.families.gemm import broadcast
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_MOVED = "inputs, as far as their elements are distinct, and the result; in place, read and written"
# How many inputs each has, in front of its numbers; a tensor behind them is where the result is to go.
_UNARY = (
    "abs|absolute|acos|acosh|angle|asin|asinh|atan|atanh|bitwise_not|ceil|celu|conj_physical|_conj_physical|cos|cosh|"
    "deg2rad|digamma|elu|erf|erfc|erfinv|exp|exp2|expm1|floor|frac|frexp|gelu|hardshrink|hardsigmoid|hardswish|"
    "hardtanh|i0|isfinite|isinf|isnan|isneginf|isposinf|leaky_relu|lgamma|log|log10|log1p|log2|log_sigmoid|logical_not|"
    "logit|mish|nan_to_num|neg|negative|polygamma|positive|rad2deg|reciprocal|relu|relu6|round|rsqrt|selu|sgn|sigmoid|"
    "sign|signbit|silu|sin|sinc|sinh|softplus|softshrink|sqrt|square|tan|tanh|threshold|trunc|fix|"
    "special_\\w+|rrelu|clamp|clip|clamp_min|clamp_max|pow|float_power|add|sub|subtract|mul|multiply|div|divide|"
    "true_divide|floor_divide|remainder|fmod|rsub|eq|ne|lt|le|gt|ge|greater|greater_equal|less|less_equal|not_equal|"
    "bitwise_and|bitwise_or|bitwise_xor|bitwise_left_shift|bitwise_right_shift|__and__|__or__|__xor__|__lshift__|"
    "__rshift__|__iand__|__ior__|__ixor__|logical_and|logical_or|logical_xor|atan2|arctan2|hypot|copysign|"
    "maximum|minimum|fmax|fmin|heaviside|logaddexp|logaddexp2|nextafter|xlogy|gcd|lcm|ldexp|prelu|_prelu_kernel|dist|"
    "isclose|threshold_backward|sigmoid_backward|tanh_backward|silu_backward|gelu_backward|hardtanh_backward|"
    "leaky_relu_backward|hardswish_backward|hardsigmoid_backward|softplus_backward|logit_backward|mish_backward|"
    "hardshrink_backward|softshrink_backward|rrelu_with_noise_backward|"
    "addcmul|addcdiv|lerp|where|masked_fill|native_dropout_backward|cumulative_trapezoid|_to_fp8"
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# How many of the first arguments are inputs, where it is not two.
_THREE = frozenset({"addcmul", "addcdiv", "lerp", "where", "clamp", "clip"})
_ONE_IN = frozenset({"masked_fill", "gelu", "log_sigmoid"})
_ALWAYS_BOOL = _words(
    "eq ne lt le gt ge greater greater_equal less less_equal not_equal logical_and logical_or logical_xor "
    "logical_not isfinite isinf isnan isneginf isposinf signbit isclose "
)
# Of whole numbers these give the default floating-point type.
_ALWAYS_FLOAT = _words(
    "div divide true_divide sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin acos "
    "atan asinh acosh atanh sigmoid erf erfc erfinv reciprocal atan2 arctan2 logit digamma lgamma sinc deg2rad "
    "rad2deg float_power xlogy logaddexp logaddexp2 i0 "
)
_NO_ARITHMETIC = frozenset({"masked_fill"})


def _base(name: str) -> tuple[str, bool]:
    """Name without namespace and trailing underscore, and whether it works in place."""
    base = name.split("::", 1)[1]
    if base.startswith("__i") and base.endswith("__"):
        return base, True
    in_place = base.endswith("_") and not base.endswith("__")
    return (base[:-1] if in_place else base), in_place


@model("elementwise", "elementwise", rf"aten::({_UNARY})_?", flops="1 an element of the result", moved=_MOVED)
def elementwise(a: Arguments) -> Figures:
    base, in_place = _base(a.name)
    first = a.tensor(0)
    count = 3 if base in _THREE else 2
    if base in _ONE_IN:
        count = 2 if base == "masked_fill" else 1
    single = count == 2 and a.is_tensor(1) and _is_unary(base)
    inputs = [first, *(a.tensor(place) for place in range(1, 1 if single else count) if a.is_tensor(place))]
    dims = broadcast(*(tensor.dims for tensor in inputs))
    given = _result_place(a, 1 if single else count)
    if in_place:
        if dims != first.dims:
            raise Unknown("the inputs do not fit what is written to")
        out = first
    else:
        out = a.out(given) or Tensor(dims, _type(base, inputs))
    if a.is_tensor(given) and out.dims != dims:
        raise Unknown("the inputs do not fit what is written to")
    flops = 0 if base in _NO_ARITHMETIC else out.count
    return Figures(flops, total_bytes(*inputs, out))


def _is_unary(base: str) -> bool:
    """Whether a tensor behind the first is where the result goes."""
    return base in _SINGLE


_SINGLE = _words(
    "abs absolute acos acosh angle asin asinh atan atanh bitwise_not ceil celu conj_physical _conj_physical cos "
    "cosh deg2rad digamma elu erf erfc erfinv exp exp2 expm1 floor frac hardshrink hardsigmoid hardswish hardtanh "
    "i0 isfinite isinf isnan isneginf isposinf leaky_relu lgamma log log10 log1p log2 logical_not logit mish "
    "nan_to_num neg negative positive rad2deg reciprocal relu relu6 round rsqrt selu sgn sigmoid sign signbit "
    "silu sin sinc sinh softplus softshrink sqrt square tan tanh threshold trunc fix "
)


def _result_place(a: Arguments, behind: int) -> int:
    """Where a tensor for the result is; -1 without one."""
    return next((place for place in range(behind, len(a)) if a.is_tensor(place)), -1)


def _type(base: str, inputs: list[Tensor]) -> str:
    if base in _ALWAYS_BOOL:
        return "bool"
    taken = inputs[1:] if base == "where" else inputs[:1] if base == "masked_fill" else inputs
    kind = element_types.promoted([(tensor.type, len(tensor.dims)) for tensor in taken])
    if kind.startswith("c10::complex") and base in ("abs", "angle", "absolute"):
        return "float" if kind == "c10::complex<float>" else "double"
    return "float" if base in _ALWAYS_FLOAT and not element_types.is_floating(kind) else kind


@model(
    "dropout",
    "elementwise",
    r"aten::(native_dropout|_fused_dropout|fused_dropout)",
    flops="1 an element",
    moved="input, result and mask",
)
def dropout(a: Arguments) -> Figures:
    x = a.tensor(0)
    mask = x.like(type="bool" if a.name.endswith("native_dropout") else "unsigned char")
    return Figures(x.count, total_bytes(x, x.like(), mask))


@model("masked scale", "elementwise", r"aten::_masked_scale", flops="1 an element", moved="input, mask and result")
def masked_scale(a: Arguments) -> Figures:
    x = a.tensor(0)
    return Figures(x.count, total_bytes(x, a.tensor(1), x.like()))


@model("gated linear unit", "elementwise", r"aten::glu", flops="2 an element of the result", moved="input and result")
def gated(a: Arguments) -> Figures:
    x = a.tensor(0)
    return Figures(x.count, x.bytes + x.count // 2 * x.element_bytes)


@model(
    "activation with result, backward",
    "elementwise",
    r"aten::(elu_backward|glu_backward|log_sigmoid_backward)_?",
    flops="1 an element",
    moved="all its tensors and the gradient",
)
def backward(a: Arguments) -> Figures:
    given = [tensor for _, tensor in a.all_tensors()]
    if not given:
        raise Unknown("argument 0 is no tensor")
    widest = max(given, key=lambda tensor: tensor.count)
    return Figures(widest.count, total_bytes(*given, widest.like()))


@model("log-sigmoid", "elementwise", r"aten::log_sigmoid_forward", flops="1 an element", moved="input and result")
def log_sigmoid(a: Arguments) -> Figures:
    x = a.tensor(0)
    return Figures(x.count, total_bytes(x, x.like()))


@model(
    "bias, scale and heads of attention",
    "elementwise",
    r"aten::_transform_bias_rescale_qkv",
    flops="1 an element",
    moved="input, bias and result",
)
def transform_bias(a: Arguments) -> Figures:
    x, bias = a.tensor(0), a.tensor(1)
    return Figures(x.count, total_bytes(x, bias, x.like()))


@model(
    "scaling of gradients",
    "elementwise",
    r"aten::_amp_foreach_non_finite_check_and_unscale_",
    flops="1 an element",
    moved="gradients, read and written",
)
def unscale(a: Arguments) -> Figures:
    grads = a.tensors(0, "float")
    return Figures(sum(t.count for t in grads), 2 * total_bytes(*grads), "the elements of lists are floats")


@model("scale of losses", "elementwise", r"aten::_amp_update_scale_", flops="1", moved="its numbers")
def update_scale(a: Arguments) -> Figures:
    given = [tensor for _, tensor in a.all_tensors()]
    return Figures(1, total_bytes(*given))
