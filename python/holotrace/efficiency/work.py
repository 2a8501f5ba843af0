"""What work one call of an operator does, told by its name and arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holotrace.efficiency import arguments, families
from holotrace.efficiency.arguments import MOST
from holotrace.efficiency.model import Figures, OperatorModel, joined
from holotrace.efficiency.unknown import Unknown

EXACT, ESTIMATE = "exact", "estimate"
NO_MODEL = "no model"
_NO_STRIDES = "no input is expanded: strides are not recorded"
_NO_SCALARS = "arguments that are no tensors are not recorded, and taken for what is usual"
# Overloads that take their arguments in the places of the first; what others take is not known.
_OVERLOAD = re.compile(
    r"(?P<name>\w[\w.]*::\w+)\.(default|out|out_mode|(unary|all)_out|OutTensor|Tensor(_(Tensor|Scalar|mode|float|dim))*"
    r"|Scalar(_(mode|dim|Tensor|Self))*|ScalarOther|ScalarSelf|ScalarOpt_dim(_dtype)?|dim|dims|dim_IntList|dim_max|dim_min"
    r"|IntList|dim_int|int|int_Scalar|int_Tensor|self|self_int|self_Tensor|dtype|vec|other|input|list|List|float|full"
    r"|correction|mode|grad_input|values|values_stable|stable|start_step|start|src|value|reduce|two|Tensor_with_indices"
    r"|low_dtype|no_stats|ScalarList|quantized|tensor_lr|padding|output|output_mask|decimals|binary|ScalarOpt_dtype)(_out)?"
)
# What PyTorch may compute an operator with instead of its own kernels, which takes the same arguments.
_OVERRIDE = re.compile(r"_native::(?P<name>\w+?)(_out)?_(native|triton|cutedsl|quack)_\d+")
# What other tools say of an operator behind its name, e.g. that they made it up.
_REMARK = re.compile(r"(?P<name>\w[\w.]*::[\w.]+)( \([\w ]+\))+")
_ANY_OVERLOAD = re.compile(r"\w[\w.]*::\w+\.\w+")


@dataclass(frozen=True)
class OperatorWork:
    """The work of one call of an operator.

    Attributes:
        flops: Floating-point operations, an addition and a multiplication being two; None if unknown.
        moved_bytes: Bytes read from and written to the device's memory at least; None if unknown.
        confidence: ``exact``, ``estimate``, or None where nothing is known.
        assumed: What was taken for granted; None if nothing.
        reason: Why nothing is known; None if something is.
        category: Kind of work, e.g. gemm; None without a model.
        type: Type of the elements it computes with, as the trace writes it; None if unknown.
        is_matrix: Whether it runs on matrix units, where a device has some.
        is_partial: Whether the figures leave out what may be most of the work.
    """

    flops: int | None = None
    moved_bytes: int | None = None
    confidence: str | None = None
    assumed: str | None = None
    reason: str | None = None
    category: str | None = None
    type: str | None = None
    is_matrix: bool = False
    is_partial: bool = False


def operator_work(
    name: str,
    input_dims: Sequence[Any] | str | None,
    input_types: Sequence[str] | str | None,
    input_strides: Sequence[Any] | str | None = None,
    scalars: Sequence[Any] | str | None = None,
    *,
    models: Sequence[OperatorModel] = (),
) -> OperatorWork:
    """The floating-point operations and bytes of one call of an operator.

    Args:
        name: The operator, as a trace names it, e.g. ``aten::mm``.
        input_dims: Dims of its arguments, in order; a list, or JSON text.
        input_types: Types of its arguments, in order.
        input_strides: Strides of its arguments; without them no input is taken to be expanded.
        scalars: Its arguments that are no tensors, as text (``Concrete Inputs``).
        models: Models to be asked before those of holotrace.
    """
    operator = _without_overload(name)
    if operator is None:
        return OperatorWork(reason="the overload is not known")
    model = next((one for one in models if one.fits(operator)), None) or families.of(operator)
    if model is None:
        return OperatorWork(reason=NO_MODEL)
    try:
        given = arguments.read(operator, input_dims, input_types, input_strides, scalars)
        figures = model.work(given)
        kind = figures.type or next((tensor.type for _, tensor in _tensors(given)), None)
    except Unknown as unknown:
        return OperatorWork(reason=str(unknown), category=model.category)
    except (ArithmeticError, LookupError, ValueError):
        # A model reads lists and dims by their places; those of a damaged trace may not be there.
        return OperatorWork(reason="the arguments are not those of the operator", category=model.category)
    said = (figures.assumed, _NO_STRIDES if given.strides is None else None, _NO_SCALARS if given.supposed else None)
    return _told(model, figures, kind, joined(*said))


def _tensors(given: arguments.Arguments) -> list[tuple[int, arguments.Tensor]]:
    return [(place, t) for place in range(len(given)) if (t := given.optional(place)) is not None]


def _without_overload(name: str) -> str | None:
    if match := _REMARK.fullmatch(name):
        name = match["name"]
    if match := _OVERLOAD.fullmatch(name):
        return match["name"]
    if match := _OVERRIDE.fullmatch(name):
        return f"aten::{match['name']}"
    return None if _ANY_OVERLOAD.fullmatch(name) else name


def _told(model: OperatorModel, figures: Figures, kind: str | None, assumed: str | None) -> OperatorWork:
    if any(figure is not None and not 0 <= figure <= MOST for figure in (figures.flops, figures.moved_bytes)):
        return OperatorWork(reason="the work is beyond what can be counted", category=model.category)
    if figures.flops is None and figures.moved_bytes is None:
        return OperatorWork(reason=figures.assumed or "the arguments do not show it", category=model.category)
    return OperatorWork(
        flops=figures.flops,
        moved_bytes=figures.moved_bytes,
        confidence=ESTIMATE if assumed else EXACT,
        assumed=assumed,
        category=model.category,
        type=kind,
        is_matrix=model.is_matrix,
        is_partial=figures.is_partial,
    )
