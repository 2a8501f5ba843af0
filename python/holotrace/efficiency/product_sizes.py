"""Sizes of products of matrices: how they fill the tiles of kernels, and whether rows begin where kernels load."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from holotrace.efficiency import arguments
from holotrace.efficiency.unknown import Unknown

PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")
TILE = 64
# Kernels load and store as many bytes at once.
_LOADED_BYTES = 16


class ProductSizes(NamedTuple):
    """A product of M by K and K by N, so many at once."""

    batch: int
    sizes: tuple[int, int, int]
    """M, K and N in order of size."""

    filled_ratio: float
    """Share of the result's tiles that is not empty."""

    is_aligned: bool
    """Whether each row of the matrices begins where kernels load whole vectors."""

    def is_at_least(self, other: ProductSizes) -> bool:
        """Whether it is as large as another in each size, so that it fills a device as well."""
        return self.batch >= other.batch and all(own >= its for own, its in zip(self.sizes, other.sizes, strict=True))


@lru_cache(maxsize=1 << 14)
def sizes_of(name: str, dims: str, types: str, strides: str | None) -> ProductSizes | None:
    """The sizes of a product by what it was given, as recorded; None where that does not tell."""
    if name not in PRODUCTS:
        return None
    first = 1 if "add" in name else 0
    try:
        given = arguments.read(name, dims, types, strides)
        left, right = given.tensor(first), given.tensor(first + 1)
    except (Unknown, LookupError):
        return None
    if len(left.dims) != len(right.dims) or len(left.dims) < 2 or left.dims[-1] != right.dims[-2]:
        return None
    rows, columns = left.dims[-2], right.dims[-1]
    filled = prod(size / (-(-size // TILE) * TILE) for size in (rows, columns))
    steps = (columns, *(step for one in (left, right) for step in _rows_apart(one)))
    is_aligned = not any(step * left.element_bytes % _LOADED_BYTES for step in steps)
    small, middle, large = sorted((rows, left.dims[-1], columns))
    return ProductSizes(prod(left.dims[:-2]), (small, middle, large), filled, is_aligned)


def _rows_apart(matrix: arguments.Tensor) -> tuple[Any, ...]:
    """How many elements lie between the beginnings of two rows, or of two columns where these lie side by side."""
    if matrix.strides is None:
        return (matrix.dims[-1],)
    # That of a size of one is never taken.
    return tuple(
        step for size, step in zip(matrix.dims[-2:], matrix.strides[-2:], strict=True) if step != 1 and size > 1
    )
