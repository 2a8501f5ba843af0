"""Bytes of operators against what PyTorch's operators read and write, for its own samples of all of them: slow."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import pytest

import holotrace

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("expecttest", reason="PyTorch's own samples need it")
python_dispatch = pytest.importorskip("torch.utils._python_dispatch")
samples = pytest.importorskip("torch.testing._internal.common_methods_invocations")
pytestmark = pytest.mark.slow

MOST = 3  # samples of an operator in each type
TYPES = {
    torch.float32: "float", torch.float64: "double", torch.bfloat16: "c10::BFloat16", torch.float16: "c10::Half",
    torch.int64: "long int", torch.int32: "int", torch.int16: "short int", torch.int8: "signed char",
    torch.uint8: "unsigned char", torch.bool: "bool", torch.complex64: "c10::complex<float>",
    torch.complex128: "c10::complex<double>",
}  # fmt: skip
# Operators whose inputs are not all read, or whose results on a CPU are not those on a device.
SIZE_ONLY = r"(_adaptive_avg|avg|max|adaptive_max|fractional_max)_pool\dd(_with_indices)?_backward|.*_pad\dd_backward"
WRITTEN_ONLY = r"(normal|uniform|bernoulli|exponential|geometric|cauchy|log_normal|random)_|fill_?|zero_|copy_|\w+_like"
CHOSEN = r"nll_loss(2d)?_backward"
WITHOUT_BIAS = r"native_layer_norm_backward"
ON_CPU = r".*batch_norm.*|log_sigmoid_forward|native_layer_norm|_scaled_dot_product_flash_attention_for_cpu.*"
STATES = r"rrelu_with_noise"
DIAGONAL = r"trace"
EXCEPTIONS = "|".join((SIZE_ONLY, WRITTEN_ONLY, CHOSEN, WITHOUT_BIAS, ON_CPU, STATES, DIAGONAL))


def moved(tensor: Any) -> int:
    """Bytes of the elements that there are."""
    places = torch.zeros(1, dtype=torch.long)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = (places[:, None] + torch.arange(size)[None] * stride).reshape(-1)
    count: int = places.unique().numel() * tensor.element_size()
    return count


def told(schema: Any, values: list[Any]) -> holotrace.OperatorWork:
    """What is said of a call from what a profiler records of it."""
    is_tensor = [isinstance(value, torch.Tensor) for value in values]
    dims = [list(value.shape) if tensor else [] for value, tensor in zip(values, is_tensor, strict=True)]
    strides = [list(value.stride()) if tensor else [] for value, tensor in zip(values, is_tensor, strict=True)]
    kinds = {list: "ScalarList", tuple: "ScalarList", type(None): "", str: ""}
    types = [
        TYPES[value.dtype] if tensor else kinds.get(type(value), "Scalar")
        for value, tensor in zip(values, is_tensor, strict=True)
    ]
    texts = ["" if tensor else text(value) for value, tensor in zip(values, is_tensor, strict=True)]
    return holotrace.operator_work(schema.name, dims, types, strides, texts)


def text(value: Any) -> str:
    codes = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5,
             torch.float32: 6, torch.float64: 7, torch.complex64: 9, torch.complex128: 10, torch.bool: 11,
             torch.bfloat16: 15, torch.complex32: 8}  # fmt: skip
    if value is None or isinstance(value, str | torch.device | torch.Generator):
        return ""
    if isinstance(value, torch.dtype):
        return str(codes.get(value, -2))
    return "0" if isinstance(value, torch.memory_format | torch.layout) else str(value)


class Calls(python_dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]  # torch has no types here
    """Notes of each operator by which bytes what is said of it differs from what it did."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, int] = defaultdict(int)
        self.wrong: dict[str, tuple[Any, ...]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema, kwargs = func._schema, kwargs or {}
        values = list(args)
        for argument in schema.arguments[len(args) :]:
            values.append(kwargs.get(argument.name, argument.default_value))
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        inputs = [
            value
            for value, one in zip(values, schema.arguments, strict=True)
            if isinstance(value, torch.Tensor) and not (one.kwarg_only and one.alias_info)
        ]
        is_read = not any(isinstance(one, torch.Tensor) for value in values if isinstance(value, list) for one in value)
        # A number of Python is recorded as a tensor of doubles without dims, which gives another type.
        is_read = is_read and not any(one.dtype == torch.float64 and not one.dim() for one in tensors)
        is_read = is_read and all(one.layout == torch.strided and one.numel() and one.dtype in TYPES for one in tensors)
        found = told(schema, values) if is_read else None
        read = sum(map(moved, inputs)) if is_read else 0
        result = func(*args, **kwargs)
        if found is not None and found.confidence == "exact":
            self.compare(schema, values, result, (found.moved_bytes or 0) - read)
        return result

    def compare(self, schema: Any, values: list[Any], result: Any, written: int) -> None:
        results = list(result) if isinstance(result, tuple) else [result]
        new = [
            one for one, declared in zip(results, schema.returns, strict=False)
            if isinstance(one, torch.Tensor) and declared.alias_info is None
        ]  # fmt: skip
        changed = [
            value for value, argument in zip(values, schema.arguments, strict=True)
            if isinstance(value, torch.Tensor) and argument.alias_info is not None and argument.alias_info.is_write
        ]  # fmt: skip
        if any(isinstance(one, list) for one in results) or any(
            declared.alias_info is not None and not changed for declared in schema.returns
        ):
            return  # several tensors, or a view, which moves nothing
        self.seen[schema.name] += 1
        expected = sum(one.numel() * one.element_size() for one in new) + sum(map(moved, changed))
        if written != expected:
            self.wrong.setdefault(schema.name, (schema.overload_name, [str(v)[:60] for v in values], written, expected))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_exact_bytes_are_those_that_operators_read_and_write(kind: Any) -> None:
    calls = Calls()
    for operator in samples.op_db:
        if operator.name.startswith("jiterator") or not operator.supports_dtype(kind, "cpu"):
            continue
        with_gradient = kind.is_floating_point and operator.supports_autograd
        given = operator.sample_inputs("cpu", kind, requires_grad=with_gradient)
        for sample, _ in zip(given, range(MOST), strict=False):
            run(operator, sample, calls)
    assert len(calls.seen) > 100
    wrong = {name: said for name, said in calls.wrong.items() if not re.fullmatch(f"aten::({EXCEPTIONS})", name)}
    assert not wrong


def run(operator: Any, sample: Any, calls: Calls) -> None:
    """The operator forward and backward; samples are for errors, too."""
    with calls:
        try:
            out = operator(sample.input, *sample.args, **sample.kwargs)
            outs = [one for one in (out if isinstance(out, tuple | list) else [out]) if isinstance(one, torch.Tensor)]
            wanted = [one for one in outs if one.requires_grad]
            if wanted:
                torch.autograd.backward(wanted, [torch.ones_like(one) for one in wanted])
        except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError):
            return
