"""Factorizations and solutions of linear systems; how many operations they take depends on the algorithm."""

from __future__ import annotations

from math import prod

from holotrace.efficiency.arguments import Arguments, Tensor
from holotrace.efficiency.model import Figures, model, total_bytes
from holotrace.efficiency.unknown import Unknown

_SAID = "as many operations as the usual algorithm takes, and matrices move once"


def _matrix(x: Tensor) -> tuple[int, int, int]:
    """How many matrices, of how many rows and columns."""
    if len(x.dims) < 2:
        raise Unknown("the dims are not those of matrices")
    return prod(x.dims[:-2]), x.dims[-2], x.dims[-1]


@model(
    "factors of a matrix",
    "linalg",
    r"aten::(linalg_cholesky_ex|linalg_lu_factor_ex|linalg_ldl_factor_ex|linalg_inv_ex|geqrf|linalg_qr|_linalg_det"
    r"|_linalg_slogdet|linalg_lu|cholesky_inverse)",
    flops="N³/3 (Cholesky, LDL), 2·N³/3 (LU, determinant, inverse of a factored matrix), 2·N³ (inverse), "
    "2·M·N² - 2·N³/3 (QR)",
    moved="the matrix and as much written",
)
def factors(a: Arguments) -> Figures:
    x = a.tensor(0)
    batch, rows, columns = _matrix(x)
    short = min(rows, columns)
    if a.name.endswith("cholesky_inverse"):
        thirds = 2 * rows**3
    elif "cholesky" in a.name or "ldl" in a.name:
        thirds = rows**3
    elif "inv" in a.name:
        thirds = 6 * rows**3
    elif "qr" in a.name:
        thirds = 6 * max(rows, columns) * short**2 - 2 * short**3
    else:
        thirds = 3 * max(rows, columns) * short**2 - short**3
    return Figures(batch * thirds // 3, 2 * x.bytes, _SAID)


@model(
    "solution of a linear system",
    "linalg",
    r"aten::(linalg_solve_triangular|triangular_solve|cholesky_solve|_cholesky_solve_helper|linalg_lu_solve|linalg_ldl_solve|_linalg_solve_ex)",
    flops="N²·K with a triangular matrix, 2·N²·K with its factors, 2·N³/3 more where it is factored first",
    moved="the matrix, the right sides, and the solutions",
)
def solution(a: Arguments) -> Figures:
    """The matrix first, or after the right sides, or after the factors' order."""
    behind = {
        "triangular_solve": (1, 0),
        "cholesky_solve": (1, 0),
        "_cholesky_solve_helper": (1, 0),
        "linalg_lu_solve": (0, 2),
        "linalg_ldl_solve": (0, 2),
    }
    places = behind.get(a.name.removeprefix("aten::"), (0, 1))
    matrix, sides = (a.tensor(place) for place in places)
    _, size, other = _matrix(matrix)
    if size != other or not sides.dims:
        raise Unknown("the dims are not those of a linear system")
    times = 1 if "triangular" in a.name else 2
    flops = times * size * sides.count
    if "solve_ex" in a.name:
        flops += 2 * matrix.count * size // 3
    return Figures(flops, total_bytes(matrix, sides, sides.like()), _SAID)


@model(
    "eigenvalues or singular values",
    "linalg",
    r"aten::(_linalg_eigh|linalg_eig|_?linalg_eigvals|linalg_polar|linalg_matrix_sqrth|_linalg_svd|linalg_matrix_exp|linalg_householder_product|ormqr)",
    flops="unknown: they are found step by step",
    moved="the matrix and as much written",
)
def values(a: Arguments) -> Figures:
    x = a.tensor(0)
    _matrix(x)
    return Figures(None, 2 * x.bytes, "as much is written as is read")
