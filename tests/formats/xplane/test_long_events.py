"""Events of a profile that last long, and how much of a profile is held."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace.core.native import native
from xplane_files import Event, Line, Plane, space

# Durations of 31 bits or less, in ps, are held apart from the few that are longer.
LONG_PS = 2**31
LASTING_PS = [1_000, LONG_PS - 1, LONG_PS, LONG_PS + 1, 5_000_000_000_000]


def test_events_of_any_length_have_their_durations_on_every_line(tmp_path: Path) -> None:
    events = [Event(f"call {ps}", 7_000, ps) for ps in LASTING_PS]
    lines = [Line("main", events, id=1), Line("worker", events[::-1], id=2), Line("empty", [], id=3)]
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(Plane("/host:CPU", lines)))
    held = native.read_xplane(str(path), stats=[], arguments=False, hlo=False)
    found = pl.DataFrame(held.events(["duration_ps", "start_ns", "end_ns"]))
    assert found["duration_ps"].to_list() == [*LASTING_PS, *LASTING_PS[::-1]]
    assert found.select(pl.col("end_ns") - pl.col("start_ns")).to_series()[4] == 5_000_000_000


def test_stats_that_the_same_events_have_are_each_their_own(tmp_path: Path) -> None:
    both = [Event("a", 0, 10, {"_pt": 1, "_p": 7}), Event("b", 5, 10), Event("c", 9, 10, {"_pt": 2, "_p": 8})]
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(Plane("/host:CPU", [Line("main", [*both, Event("d", 20, 1, {"_p": 9})], id=1)])))
    stats = [("_pt", "int"), ("_p", "int"), ("_ct", "int")]
    held = native.read_xplane(str(path), stats=stats, arguments=False, hlo=False)
    told = {"_pt": [1, None, 2, None], "_p": [7, None, 8, 9], "_ct": [None] * 4}
    assert pl.DataFrame(held.events([*told])).to_dict(as_series=False) == told
    one_less = both[:3]
    path.write_bytes(space(Plane("/host:CPU", [Line("main", one_less, id=1)])))
    held = native.read_xplane(str(path), stats=stats, arguments=False, hlo=False)
    held.keep_stats(["_p"])
    assert pl.DataFrame(held.events(["_p"], having="_p"))["_p"].to_list() == [7, 8]
    with pytest.raises(KeyError, match="_pt"):
        held.events(["_pt"])


def test_a_report_reads_programs_and_threads_of_one_profile(tmp_path: Path) -> None:
    """What threads did is read last, when only some stats are held: operations, steps and arguments are all there."""
    step = Event("step", 0, 40_000_000, {"_r": 1, "step_num": 3})
    calls = [step, Event("CopyToDevice", 1_000_000, 2_000_000, {"bytes": 8})]
    ops = [Event("fusion.1", 4_000_000, 3_000_000, {"hlo_op": "fusion.1", "hlo_module": "jit_f", "program_id": 1})]
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(Plane("/host:CPU", [Line("python", calls, id=1), Line("tf_XLA", ops, id=2)])))
    job = holotrace.open(path)
    assert job.hlo_ops().select("name", "op_count", "self_ns").rows() == [("fusion.1", 1, 3_000)]
    assert job.table("steps")["step"].to_list() == [3]
    called = job.table("host_calls").cast({pl.Categorical: pl.String})
    assert called.select("name", "arguments").rows()[-1] == ("CopyToDevice", '{"bytes":8}')
