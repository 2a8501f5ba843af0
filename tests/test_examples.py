"""Every script and notebook in examples/ runs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import plotly.graph_objects as go
import plotly.io as pio
import pytest

import holotrace

_FOLDER = Path(__file__).parent.parent / "examples"
# It records a job, and reads none.
RECORDS = _FOLDER / "train_with_jax.py"
EXAMPLES = sorted(path for path in _FOLDER.glob("*.py") if path != RECORDS)
NOTEBOOKS = sorted(_FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.slow
def test_example_runs_on_a_sample_job(example: Path, tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("holotrace")
    subprocess.run([command, "sample", "job", "--ranks", "2", "--steps", "2"], cwd=tmp_path, check=True)
    output = subprocess.run(
        [sys.executable, example, "job"], cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert output.strip()


@pytest.mark.parametrize(("run", "is_slow"), [("before", True), ("after", False)])
@pytest.mark.slow
def test_what_the_example_records_has_the_flaw_that_its_guide_finds(tmp_path: Path, run: str, is_slow: bool) -> None:
    pytest.importorskip("jax")
    subprocess.run([sys.executable, RECORDS, "logs", run], cwd=tmp_path, check=True)
    found = holotrace.open(tmp_path / "logs" / run)
    assert bool(found.compilations().filter(cause="new_shapes").height) == is_slow


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.slow
def test_notebook_runs_from_top_to_bottom(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbclient
    import nbformat

    monkeypatch.setenv("TMPDIR", str(tmp_path))

    book = nbformat.reads(notebook.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.slow
def test_cells_of_a_notebook_run_without_a_kernel_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(pio.renderers, "default", pio.renderers.default)  # the notebook sets it
    monkeypatch.setattr(go.Figure, "show", lambda self, **options: None)
    cells = json.loads((_FOLDER / "trace_diff.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert "largest" in names


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.slow
def test_notebook_is_kept_without_output(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert not [cell for cell in cells if cell.get("outputs")]
