"""Counts of operations against those of PyTorch's own counter, for whatever shapes: where torch is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holotrace

torch = pytest.importorskip("torch", reason="torch is not installed")
flop_counter = pytest.importorskip("torch.utils.flop_counter")
python_dispatch = pytest.importorskip("torch.utils._python_dispatch")

TYPES = {torch.bfloat16: "c10::BFloat16", torch.float16: "c10::Half", torch.float32: "float"}
sizes = st.integers(1, 65)


def seen(function: Any, given: tuple[Any, ...]) -> holotrace.OperatorWork:
    """What is said of a call from what a profiler records of it."""
    dims, types, strides, scalars = [], [], [], []
    for value in given:
        is_tensor = isinstance(value, torch.Tensor)
        dims.append(list(value.shape) if is_tensor else [])
        strides.append(list(value.stride()) if is_tensor else [])
        types.append(TYPES.get(value.dtype, "unsigned long") if is_tensor else "" if value is None else "Scalar")
        scalars.append("" if is_tensor or value is None else str(value))
    return holotrace.operator_work(function._schema.name, dims, types, strides, scalars)


def told(run: Callable[[], object], *names: str) -> tuple[int, int]:
    """The operations of the operators of these names by PyTorch's counter, and by holotrace."""
    found = []

    class Calls(python_dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]  # torch has no types here
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func._schema.name.removeprefix("aten::") in names:
                schema = [argument.name for argument in func._schema.arguments]
                defaults = [argument.default_value for argument in func._schema.arguments]
                whole = [*args, *((kwargs or {}).get(n, d) for n, d in zip(schema, defaults, strict=True))][: len(args)]
                rest = [(kwargs or {}).get(n, d) for n, d in list(zip(schema, defaults, strict=True))[len(args) :]]
                found.append(seen(func, (*whole, *rest)))
            return func(*args, **(kwargs or {}))

    with flop_counter.FlopCounterMode(display=False) as counter, Calls():
        run()
    assert found, "the operator did not run"
    assert [one.confidence for one in found] == ["exact"] * len(found)
    return counter.get_total_flops(), sum(one.flops or 0 for one in found)


def meta(*shape: int, kind: Any = torch.bfloat16, grad: bool = False) -> Any:
    return torch.empty(*shape, device="meta", dtype=kind, requires_grad=grad)


@settings(max_examples=40)
@given(b=sizes, m=sizes, n=sizes, k=sizes)
def test_products(b: int, m: int, n: int, k: int) -> None:
    left, right = meta(m, k), meta(n, k).t()
    pairs = [
        told(lambda: torch.mm(left, right), "mm"),
        told(lambda: torch.addmm(meta(n), left, right), "addmm"),
        told(lambda: torch.bmm(meta(b, m, k), meta(b, k, n)), "bmm"),
        told(lambda: torch.baddbmm(meta(b, m, n), meta(b, m, k), meta(b, k, n)), "baddbmm"),
    ]
    assert all(theirs == ours for theirs, ours in pairs)


@settings(max_examples=40)
@given(st.data())
def test_convolutions_forward_and_backward(data: st.DataObject) -> None:
    def number(least: int, most: int) -> int:
        return data.draw(st.integers(least, most))

    image = data.draw(st.lists(st.integers(8, 20), min_size=1, max_size=3))
    batch, groups, transposed = number(1, 8), number(1, 4), data.draw(st.booleans())
    into, out, kernel = groups * number(1, 8), groups * number(1, 8), [number(1, 4)] * len(image)
    x = meta(batch, into, *image, grad=True)
    w = meta(*((into, out // groups) if transposed else (out, into // groups)), *kernel, grad=True)
    bias = meta(out, grad=True) if data.draw(st.booleans()) else None
    several = [[value] * len(image) for value in (number(1, 3), number(0, 2), number(1, 2))]

    def forward() -> Any:
        return torch.convolution(x, w, bias, *several, transposed, [0] * len(image), groups)

    theirs, ours = told(lambda: forward().detach(), "convolution")
    assert theirs == ours
    result = forward()
    theirs, twice = told(lambda: result.backward(torch.empty_like(result)), "convolution_backward")
    assert twice == 2 * ours
    # PyTorch counts the gradient of a weight as if there was one group.
    assert theirs == twice or groups > 1


@settings(max_examples=40)
@given(st.sampled_from(["flash", "efficient", "cudnn"]), st.tuples(st.integers(1, 4), st.integers(1, 8)), sizes, sizes)
def test_attention_forward_and_backward(which: str, outer: tuple[int, int], queries: int, keys: int) -> None:
    name = f"_scaled_dot_product_{which}_attention"
    operator = getattr(torch.ops.aten, name)
    query, key, value = (meta(*outer, length, 16, grad=True) for length in (queries, keys, keys))
    more = () if which == "flash" else (None, True)
    theirs, ours = told(lambda: operator(query.detach(), key.detach(), value.detach(), *more), name)
    assert theirs == ours
    result = operator(query, key, value, *more)[0]
    theirs, ours = told(lambda: result.backward(torch.empty_like(result)), f"{name}_backward")
    assert theirs == ours
