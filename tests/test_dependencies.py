"""What holotrace needs is what it says it needs."""

import re
from pathlib import Path

import holotrace

# Methods of Polars that need numpy, pandas, pyarrow or torch, which nobody has to have.
_BORROWED = re.compile(r"\.(to_numpy|to_pandas|to_arrow|to_torch|to_jax)\(")


def test_no_method_of_polars_that_needs_another_library_is_called() -> None:
    package = Path(holotrace.__file__).parent
    calling = [str(path) for path in package.rglob("*.py") if _BORROWED.search(path.read_text(encoding="utf-8"))]
    assert calling == []
