"""Calculations on each element: one operation an element of the result."""

from __future__ import annotations

import re
from collections.abc import Sequence

from holotrace.efficiency import element_types
from holotrace.efficiency.arguments import Arguments, Tensor, alike, of_size
from holotrace.efficiency.families.gemm import broadcast
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_MOVED = "inputs, as far as their elements are distinct, and the result; in place, read and written"
# How many inputs each has, in front of its numbers; a tensor behind them is where the result is to go.
_UNARY = (
    "abs|absolute|acos|acosh|angle|asin|asinh|atan|atanh|bitwise_not|ceil|celu|conj_physical|_conj_physical|cos|cosh|"
    "deg2rad|digamma|elu|erf|erfc|erfinv|exp|exp2|expm1|floor|frac|gelu|hardshrink|hardsigmoid|hardswish|"
    "hardtanh|i0|isfinite|isinf|isnan|isneginf|isposinf|leaky_relu|lgamma|log|log10|log1p|log2|log_sigmoid|logical_not|"
    "logit|mish|nan_to_num|neg|negative|polygamma|positive|rad2deg|reciprocal|relu|relu6|round|rsqrt|selu|sgn|sigmoid|"
    "sign|signbit|silu|sin|sinc|sinh|softplus|softshrink|sqrt|square|tan|tanh|threshold|trunc|fix|"
    "special_(?!logsumexp)\\w+|rrelu|clamp|clip|clamp_min|clamp_max|pow|add|sub|subtract|mul|multiply|div|divide|"
    "true_divide|floor_divide|remainder|fmod|rsub|eq|ne|lt|le|gt|ge|greater|greater_equal|less|less_equal|not_equal|"
    "bitwise_and|bitwise_or|bitwise_xor|bitwise_left_shift|bitwise_right_shift|__and__|__or__|__xor__|__lshift__|"
    "__rshift__|__iand__|__ior__|__ixor__|__ilshift__|__irshift__|logical_and|logical_or|logical_xor|atan2|arctan2|hypot|copysign|"
    "maximum|minimum|fmax|fmin|heaviside|logaddexp|logaddexp2|nextafter|xlogy|gcd|lcm|ldexp|prelu|_prelu_kernel|igamma|igammac|"
    "isclose|threshold_backward|sigmoid_backward|tanh_backward|silu_backward|gelu_backward|hardtanh_backward|"
    "leaky_relu_backward|hardswish_backward|hardsigmoid_backward|softplus_backward|logit_backward|mish_backward|"
    "hardshrink_backward|softshrink_backward|rrelu_with_noise_backward|"
    "addcmul|addcdiv|lerp|where|_s_where|masked_fill|native_dropout_backward|mvlgamma|_to_fp8"
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# How many of the first arguments are inputs, where it is not two.
_THREE = _words("addcmul addcdiv lerp where clamp clip masked_fill rrelu_with_noise_backward")
_ONE_IN = _words("gelu log_sigmoid")
# Either bound may be left out; other inputs that are not recorded are there, e.g. nested tensors.
_BOUNDED = _words("clamp clip")
# Numbers among whose inputs count for the type of the result.
_OF_NUMBERS = _words(
    "add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow rsub clamp clip clamp_min "
    "clamp_max bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__ where "
)
_ALWAYS_BOOL = _words(
    "eq ne lt le gt ge greater greater_equal less less_equal not_equal logical_and logical_or logical_xor "
    "logical_not isfinite isinf isnan isneginf isposinf signbit isclose "
)
# Of whole numbers these give the default floating-point type.
_ALWAYS_FLOAT = _words(
    "div divide true_divide sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin acos "
    "atan asinh acosh atanh sigmoid erf erfc erfinv reciprocal atan2 arctan2 logit digamma lgamma sinc deg2rad "
    "rad2deg xlogy logaddexp logaddexp2 i0 angle copysign ldexp polygamma mvlgamma igamma igammac "
    "native_dropout_backward "
)
_NO_ARITHMETIC = frozenset({"masked_fill"})


def _base(name: str) -> tuple[str, bool]:
    """Name without namespace and trailing underscore, and whether it works in place."""
    base = name.split("::", 1)[1].removeprefix("_s_")
    if base.startswith("__i") and base.endswith("__"):
        return base, True
    in_place = base.endswith("_") and not base.endswith("__")
    return (base[:-1] if in_place else base), in_place


@model("elementwise", "elementwise", rf"aten::({_UNARY})_?", flops="1 an element of the result", moved=_MOVED)
def elementwise(a: Arguments) -> Figures:
    base, in_place = _base(a.name)
    count = 3 if base in _THREE else 1 if base in _ONE_IN else 2
    single = count == 2 and a.is_tensor(1) and a.is_tensor(0) and _is_unary(base)
    behind = 1 if single else count
    if count > 1 and base not in _BOUNDED and not _is_unary(base):
        _are_recorded(a, count)
    # A number may come first: a power of it.
    inputs = [a.tensor(place) for place in range(behind) if a.is_tensor(place)]
    if in_place or not inputs:
        inputs = [a.tensor(0), *inputs[1:]]
    dims = broadcast(*(tensor.dims for tensor in inputs))
    given = _result_place(a, behind)
    if in_place:
        if dims != inputs[0].dims:
            raise Unknown("the inputs do not fit what is written to")
        out = inputs[0]
    else:
        if base in _OF_NUMBERS:
            places = range(min(behind, len(a)))
            a.supposed.update(place for place in places if a.types[place] == "Scalar" and not a.text(place))
        numbers = [
            text for place in range(behind) if not a.is_tensor(place) and (text := a.text(place)) not in ("", "None")
        ]
        out = a.out(given) or Tensor(dims, _type(base, inputs, numbers, _is_rounded(a, base, inputs)))
    if a.is_tensor(given) and out.dims != dims:
        raise Unknown("the inputs do not fit what is written to")
    flops = 0 if base in _NO_ARITHMETIC else out.count
    return Figures(flops, total_bytes(*inputs, out))


def _are_recorded(a: Arguments, count: int) -> None:
    if any(not a.types[place] and not a.given(place) for place in range(min(count, len(a)))):
        raise Unknown("an input is not recorded")


def _is_unary(base: str) -> bool:
    """Whether a tensor behind the first is where the result goes."""
    return base in _SINGLE or (base.startswith("special_") and not _SPECIAL_OF_TWO.search(base))


_SPECIAL_OF_TWO = re.compile(r"polynomial|gammaincc?$|xlog|zeta|polygamma")
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


def _is_rounded(a: Arguments, base: str, inputs: list[Tensor]) -> bool:
    """Whether a quotient of whole numbers stays one: if a way to round it is given."""
    if base not in ("div", "divide") or len(a) < 3 or any(element_types.is_floating(x.type) for x in inputs):
        return False
    if a.text(2) not in ("floor", "trunc"):
        # A trace may leave it out.
        a.supposed.add(2)
    return True


def _type(base: str, inputs: list[Tensor], numbers: Sequence[str], is_rounded: bool) -> str:
    if base in _ALWAYS_BOOL:
        return "bool"
    taken = inputs[1:] if base == "where" else inputs[:1] if base == "masked_fill" else inputs
    if not taken:
        raise Unknown("the type of the result is not recorded")
    kind = element_types.promoted([(tensor.type, len(tensor.dims)) for tensor in taken])
    if base in _OF_NUMBERS:
        for text in numbers:
            kind = element_types.with_number(kind, text)
    if base in ("abs", "angle", "absolute"):
        kind = element_types.real(kind)
    is_float = not is_rounded and (base in _ALWAYS_FLOAT or base.startswith("special_"))
    return "float" if is_float and not element_types.is_floating(kind) else kind


@model(
    "fraction and exponent",
    "elementwise",
    r"aten::frexp",
    flops="1 an element",
    moved="input, fractions, and exponents of 4 bytes",
)
def fraction(a: Arguments) -> Figures:
    x = a.tensor(0)
    return Figures(x.count, total_bytes(x, x.like(), x.like(type="int")))


@model(
    "complex numbers of two parts",
    "elementwise",
    r"aten::(complex|polar)",
    flops="1 an element",
    moved="both parts and the result",
)
def of_parts(a: Arguments) -> Figures:
    x, other = a.tensor(0), a.tensor(1)
    dims = broadcast(x.dims, other.dims)
    return Figures(x.like(dims).count, total_bytes(x, other) + 2 * x.like(dims).bytes)


@model(
    "cross product", "elementwise", r"aten::(linalg_)?cross", flops="3 an element", moved="both inputs and the result"
)
def cross(a: Arguments) -> Figures:
    x, other = a.tensor(0), a.tensor(1)
    out = a.out(3) or x.like(broadcast(x.dims, other.dims))
    return Figures(3 * out.count, total_bytes(x, other, out))


@model(
    "leaky activation with noise",
    "elementwise",
    r"aten::rrelu_with_noise_?",
    flops="1 an element",
    moved="input, result, and noise that is written",
)
def noisy(a: Arguments) -> Figures:
    x, noise = a.tensor(0), a.tensor(1)
    return Figures(x.count, total_bytes(x, noise, x.like()))


@model(
    "activation with weights, backward",
    "elementwise",
    r"aten::_prelu_kernel_backward",
    flops="2 an element",
    moved="gradient, input, weights, and gradients of both before they are summed",
)
def weighted_backward(a: Arguments) -> Figures:
    grad, x, weight = a.tensor(0), a.tensor(1), a.tensor(2)
    alike(x, grad, x.like(broadcast(x.dims, weight.dims)))
    return Figures(2 * x.count, total_bytes(grad, x, weight, x.like(), x.like()))


@model(
    "cell of a recurrent layer",
    "elementwise",
    r"aten::_thnn_fused_lstm_cell",
    flops="10 an element of the state",
    moved="gates, state and biases; new states and the gates that are kept",
)
def cell(a: Arguments) -> Figures:
    """Gates of the input and of the state, [B, 4·H], and the state [B, H]."""
    gates, hidden, state = a.tensor(0), a.tensor(1), a.tensor(2)
    if gates.dims != hidden.dims or gates.count != 4 * state.count:
        raise Unknown("the dims are not those of gates and a state")
    biases = (a.optional(3), a.optional(4))
    of_size(gates.dims[-1], *biases)
    return Figures(
        10 * state.count, total_bytes(gates, hidden, state, *biases, state.like(), state.like(), gates.like())
    )


@model(
    "cell of a recurrent layer with gates",
    "elementwise",
    r"aten::_thnn_fused_gru_cell",
    flops="10 an element of the state",
    moved="gates, state and biases; the new state and what is kept, five times as large",
)
def gated_cell(a: Arguments) -> Figures:
    """Gates of the input and of the state, [B, 3·H], and the state [B, H]."""
    gates, hidden, state = a.tensor(0), a.tensor(1), a.tensor(2)
    if gates.dims != hidden.dims or gates.count != 3 * state.count:
        raise Unknown("the dims are not those of gates and a state")
    of_size(gates.dims[-1], a.optional(3), a.optional(4))
    moved = total_bytes(gates, hidden, state, a.optional(3), a.optional(4))
    return Figures(10 * state.count, moved + 6 * state.like().bytes)


@model(
    "cell of a recurrent layer, backward",
    "elementwise",
    r"aten::_thnn_fused_(gru_cell_backward|lstm_cell_backward_impl)",
    flops="10 an element of the state",
    moved="gradients, states and what was kept; gradients of the gates and of the state",
)
def cell_backward(a: Arguments) -> Figures:
    """LSTM: gradients of both states, both states, what was kept. GRU: gradient, what was kept."""
    given = list(a.all_tensors())
    kept = a.tensor(4 if "lstm" in a.name else 1)
    state = kept.count // (4 if "lstm" in a.name else 5)
    # Those of an LSTM are as large as what was kept; those of a GRU are of the input and of the state.
    written = kept.element_bytes * (kept.count + state if "lstm" in a.name else 7 * state)
    return Figures(10 * state, total_bytes(*(tensor for _, tensor in given)) + written)


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
    if not x.dims or x.dims[a.dim_of(x, 1) if a.given(1) else -1] % 2:
        raise Unknown("the input cannot be halved")
    return Figures(x.count, x.bytes + x.count // 2 * x.element_bytes)


@model(
    "activation with result, backward",
    "elementwise",
    r"aten::(elu_backward|glu_backward|log_sigmoid_backward)_?",
    flops="1 an element",
    moved="all its tensors and the gradient",
)
def backward(a: Arguments) -> Figures:
    # On devices log-sigmoid keeps nothing: there is a tensor without elements.
    given = [tensor for place in range(len(a)) if (tensor := a.out(place)) is not None]
    if len(given) < 2:
        raise Unknown("the gradient and what it is of are not both recorded")
    grad, widest = given[0], max(given, key=lambda tensor: tensor.count)
    if "glu" in a.name:
        of_size(widest.count, grad.like((2, *grad.dims)))
    else:
        alike(grad, *given)
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
    of_size(1, *given)
    return Figures(1, total_bytes(*given))
