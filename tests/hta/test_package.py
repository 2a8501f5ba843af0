"""The package itself: what it says of itself, and what it needs."""

from __future__ import annotations

import subprocess
import sys

import holotrace
import hta
from hta import version


def test_importing_it_prints_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import hta.trace_analysis"], capture_output=True, text=True, check=True
    )
    assert done.stdout == done.stderr == ""


def test_without_pandas_one_sentence_says_how_to_get_it() -> None:
    code = (
        "import sys; sys.modules['pandas'] = None\ntry:\n    import hta\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "hta needs pandas, which is not installed; run pip install 'holotrace[hta]'\n"


def test_it_says_whose_it_is() -> None:
    assert "authors of holotrace, not by those of HTA" in (hta.__doc__ or "")
    assert hta.__version__ == version.__version__ == holotrace.__version__
    assert ".".join(map(str, version.__version_tuple__)) in holotrace.__version__
