"""Pipelines of XLA, whose stages hand on by permutations what they compute, and devices that each go their own way."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace.diagnosis import causes
from holotrace.diagnosis.job.candidates import Candidate
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.job.search import Found
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.words.classes import SLOW_LINK
from xplane_files import Event, Line, Plane, Stat, space

US = 1_000_000  # in ps
STEPS, BATCHES, STEP_US = 6, 4, 200


class Pipeline:
    """Stages of one host each: in each turn those that have a batch compute it, and all hand on what they have."""

    def __init__(self, stages: int, cores: int = 1, slow: int | None = None) -> None:
        self.cores, self.members, self.slow = cores, stages * cores, slow
        self.ops: dict[int, list[Event]] = defaultdict(list)
        self.runs: dict[int, list[Event]] = defaultdict(list)
        self.launches: dict[int, list[Event]] = defaultdict(list)
        self.now = [200] * self.members
        for step in range(STEPS):
            self.step(step, stages)
        self.over = max(self.now)

    def step(self, step: int, stages: int) -> None:
        begun = [*self.now]
        for turn in range(BATCHES + stages - 1):
            for name in ("fusion.0", "fusion.1", "fusion.2"):
                for member in range(self.members):
                    if 0 <= turn - member // self.cores < BATCHES:
                        self.computes(member, name)
                if self.cores > 1:
                    groups = [range(host, host + self.cores) for host in range(0, self.members, self.cores)]
                    self.meet("all-reduce.3", groups, f"replica_groups={self.text(groups)}")
            pairs = [(member, member + self.cores) for member in range(self.members - self.cores)]
            self.meet("collective-permute.4", pairs, f"source_target_pairs={self.text(pairs)}")
        every = [range(self.members)]
        self.meet("all-reduce.5", every, f"replica_groups={self.text(every)}")
        for member, start in enumerate(begun):
            core: dict[str, Stat] = {
                "run_id": step,
                "queue_id": 0,
                "device_ordinal": member % self.cores,
                "core_type": 0,
            }
            self.runs[member].append(Event("jit_step(7)", start * US, (self.now[member] - start) * US, core))
            self.launches[member // self.cores].append(Event("DoEnqueueProgram", (20 * step + 4) * US, US, core))
        self.now = [at + 2 for at in self.now]

    def computes(self, member: int, name: str) -> None:
        us = STEP_US * 3 // 2 if member == self.slow else STEP_US
        self.add(member, name, "convolution fusion", us, "")

    def meet(self, name: str, groups: list[range] | list[tuple[int, int]], told: str) -> None:
        came = [*self.now]
        ends = [
            max(came[each] for group in groups if member in group for each in group) + 5 for member in range(len(came))
        ]
        kind = name.partition(".")[0]
        for member, end in enumerate(ends):
            text = f"%{name} = f32[8] {kind}(%fusion.2), {told}"
            self.add(member, name, kind, end - came[member], text)

    def add(self, member: int, name: str, kind: str, us: int, text: str) -> None:
        stats: dict[str, Stat] = {"hlo_category": kind, "program_id": 7}
        text = text or f"%{name} = f32[8]"
        self.ops[member].append(Event(text, self.now[member] * US, us * US, stats, name))
        self.now[member] += us

    @staticmethod
    def text(groups: list[range] | list[tuple[int, int]]) -> str:
        return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups) + "}"

    def write(self, folder: Path) -> Path:
        steps = [Event("train", 20 * step * US, 18 * US, {"_r": 1, "step_num": step}) for step in range(STEPS)]
        for host in range(self.members // self.cores):
            marked = sorted([*steps, *self.launches[host]], key=lambda each: each.start_ps)
            planes = [Plane("/host:CPU", [Line("python", marked, id=1)])]
            for core in range(self.cores):
                member = host * self.cores + core
                lines = [Line("XLA Modules", self.runs[member], id=2), Line("XLA Ops", self.ops[member], id=3)]
                planes.append(Plane(f"/device:TPU:{core}", lines))
            (folder / f"host{host}.xplane.pb").write_bytes(space(*planes))
        return folder


@pytest.mark.parametrize(("stages", "cores"), [(4, 1), (2, 2)])
def test_of_even_stages_nothing_is_told(stages: int, cores: int, tmp_path: Path) -> None:
    assert holotrace.open(Pipeline(stages, cores).write(tmp_path)).causes().is_empty()


@pytest.mark.parametrize("slow", [0, 2])
def test_a_stage_that_is_slow_costs_what_the_others_wait_for_what_it_hands_on(slow: int, tmp_path: Path) -> None:
    """Nothing told that they wait for it: a slow device cost nothing, as all came late to the end of the step."""
    job = Pipeline(4, slow=slow)
    (row,) = holotrace.open(job.write(tmp_path)).causes().to_dicts()
    assert (row["cause"], row["ranks"]) == ("slow-device", [slow])
    assert row["cost_ns"] == pytest.approx(1_000 * (job.over - Pipeline(4).over), rel=0.1)


@pytest.mark.parametrize("slow", [1, 2])
def test_a_slow_device_of_a_stage_costs_what_all_devices_wait_for_it(slow: int, tmp_path: Path) -> None:
    """Hosts were held again as a whole: those of their devices that had to wait for nobody kept the others back."""
    job = Pipeline(2, cores=2, slow=slow)
    (row,) = holotrace.open(job.write(tmp_path)).causes().to_dicts()
    assert (row["cause"], row["ranks"]) == ("slow-device", [slow // 2])
    assert f"Device {slow % 2}" in row["message"]
    assert row["cost_ns"] == pytest.approx(1_000 * (job.over - Pipeline(2, cores=2).over), rel=0.1)


def test_a_device_that_does_less_of_a_program_has_recorded_its_last_run_as_a_whole(tmp_path: Path) -> None:
    """It has fewer operations than that of another stage: its last run was left out, and the other had more work."""
    planes = []
    for core, names in enumerate((["fusion.1"], ["fusion.1", "fusion.2"])):
        runs, ops = [], []
        for run in range(4):
            runs.append(Event("jit_step(7)", run * 100 * US, 90 * US, {"run_id": run}))
            for place, name in enumerate(names):
                stats: dict[str, Stat] = {"hlo_category": "loop fusion", "program_id": 7}
                ops.append(Event(f"%{name} = f32[8]", (run * 100 + 40 * place) * US, 40 * US, stats, name))
        lines = [Line("XLA Modules", runs, id=2), Line("XLA Ops", ops, id=3)]
        planes.append(Plane(f"/device:TPU:{core}", lines))
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(*planes))
    (rows,) = holotrace.open(path).map(account.account, account.READS)
    counted = rows.filter(row=account.CORE).sort("device", "name").select("device", "name", "count")
    assert counted.rows() == [(0, "fusion.1", 4), (1, "fusion.1", 4), (1, "fusion.2", 4)]


def test_devices_are_not_compared_in_a_run_from_before_the_recording_that_not_all_have(tmp_path: Path) -> None:
    """A recording that began between two devices' runs of a program made the first one have more work by a run."""
    calls = [Event("train", 90 * run * US, 80 * US, {"_r": 1, "step_num": run}) for run in range(1, 4)]
    planes = []
    for core in range(2):
        for run in range(1, 4):
            place = {"run_id": run, "queue_id": 0, "device_ordinal": core}
            calls.append(Event("DoEnqueueProgram", (90 * run + 5 + core) * US, US, place))
        own = range(core, 4)
        runs = [Event("jit_step(7)", run * 100 * US, 90 * US, {"run_id": run, "queue_id": 0}) for run in own]
        stats: dict[str, Stat] = {"hlo_category": "loop fusion", "program_id": 7}
        ops = [Event("%fusion.1 = f32[8]", run * 100 * US, 90 * US, stats, "fusion.1") for run in own]
        planes.append(Plane(f"/device:TPU:{core}", [Line("XLA Modules", runs, id=2), Line("XLA Ops", ops, id=3)]))
    calls.sort(key=lambda call: call.start_ps)
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(*planes, Plane("/host:CPU", [Line("python", calls, id=1)])))
    (rows,) = holotrace.open(path).map(account.account, account.READS)
    counted = rows.filter(row=account.CORE).sort("device").select("device", "count")
    assert counted.rows() == [(0, 3), (1, 3)]


@pytest.mark.parametrize(("kind", "said"), [(account.XLA, "permute"), (None, "send/recv")])
def test_messages_are_called_as_their_programs_call_them(kind: str | None, said: str) -> None:
    rows = pl.DataFrame({"row": [account.WINDOW], "detail": [kind]}, schema={"row": pl.String, "detail": pl.String})
    found = Found(Candidate(SLOW_LINK, Change(), (0, 1), (), "send/recv"), 1, 1, 1, 10, None, 0, 1)
    assert causes._as_written(found, rows).candidate.responsible == said
