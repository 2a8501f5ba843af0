"""HTA's look at PyTorch's memory timeline."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from hta.memory_analysis import MemoryAnalysis
from trace_files import REAL_TRACES, needs_real_traces

GB = 1024**3


@pytest.fixture
def analysis(tmp_path: Path) -> MemoryAnalysis:
    entries = [[1_000_000, 1, GB, 0], [3_000_000, 1, 2 * GB, 4], [4_000_000, 3, -GB, 0]]
    (tmp_path / "memory.raw.json.gz").write_bytes(gzip.compress(json.dumps(entries).encode()))
    return MemoryAnalysis(str(tmp_path / "memory.raw.json.gz"))


def test_events_are_times_and_bytes_of_eight_categories(analysis: MemoryAnalysis) -> None:
    times, sizes = analysis._process_raw_events()
    assert times == [1_000_000, 3_000_000, 4_000_000]
    assert sizes[1] == [GB, 0, 0, 0, 2 * GB, 0, 0, 0]


def test_the_plot_stacks_what_categories_hold_over_milliseconds(
    analysis: MemoryAnalysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[go.Figure] = []
    monkeypatch.setattr(go.Figure, "show", lambda figure, *_: shown.append(figure))
    analysis.plot_memory_timeline()
    (figure,) = shown
    assert figure.layout.title.text == "Memory timeline"
    lines = {line.name: (list(line.x), list(line.y)) for line in figure.data}
    assert list(lines)[:2] == ["Parameter", "Optimizer state"]
    assert lines["Parameter"] == ([0, 2, 3], [1, 1, 0])
    assert lines["Unknown"][1] == [1, 3, 2]


def test_the_plot_is_saved_on_request(
    analysis: MemoryAnalysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Any] = []
    monkeypatch.setattr(go.Figure, "write_image", lambda _, path: saved.append(Path(path)))
    monkeypatch.chdir(tmp_path)
    analysis.plot_memory_timeline(save_graph=True)
    assert saved == [Path("images/memory_plot.png")]
    assert (tmp_path / "images").is_dir()


@needs_real_traces
def test_a_recorded_timeline_is_read_as_hta_reads_it() -> None:
    path = REAL_TRACES / "hta" / "tests" / "data" / "memory_analysis" / "memory_timeline.raw.gz"
    times, sizes = MemoryAnalysis(str(path))._process_raw_events()
    assert (len(times), len(sizes)) == (7721, 7721)
    assert times[:3] == [1696966047096061874, 1696966047096061874, 1696966047096102365]
    assert sizes[0] == [102440608, 102228128, 19395584, 0, 0, 0, 0, 107996584]
    assert sizes[-1] == [102440608, 102228128, 19395584, 0, 128000, 107868160, 0, 424]
