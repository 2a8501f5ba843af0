"""XPlane profiles as tables: numbers of real captures, and one rule at a time on drawn ones."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace.core.tables import MODULES
from holotrace.derive import intervals
from holotrace.formats.xplane.steps import inferred
from holotrace.job import Job
from trace_files import write_trace
from xla_drawing import frame
from xplane_files import Event, Line, Plane, Stat, capture, found, space, started_at

US = 1_000_000  # in ps
START_NS = 1_700_000_000_000_000_000
GPU_READ = Path(__file__).parents[2] / "data" / "jax_gpu" / "read.xplane.pb.gz"


@pytest.fixture(scope="module")
def jax_gaps(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return holotrace.open(capture("jax_cpu_gaps", tmp_path_factory.mktemp("jax_gaps")))


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return holotrace.open(capture("jax_cpu_multihost2x2", tmp_path_factory.mktemp("two_hosts")))


@pytest.fixture(scope="module")
def torch_xla(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return holotrace.open(capture("torch_xla_cpu_gaps", tmp_path_factory.mktemp("torch_xla")))


def written(folder: Path, *planes: Plane) -> Job:
    path = folder / "host.xplane.pb"
    path.write_bytes(space(*planes))
    return holotrace.open(path)


def step_ms(job: Job, rank: int = 0) -> list[float]:
    steps = job.table("steps", rank=rank)
    return [round(ns / 1e6, 3) for ns in steps["end_ns"] - steps["start_ns"]]


def busy_ms(operations: pl.DataFrame) -> float:
    return round(intervals.total_ns(operations) / 1e6, 3)


def by_device(operations: pl.DataFrame) -> list[float]:
    return [busy_ms(of_one) for of_one in operations.sort("device").partition_by("device", maintain_order=True)]


def text(frame: pl.DataFrame, column: str) -> list[str | None]:
    values: list[str | None] = frame[column].cast(pl.String).to_list()
    return values


def test_jax_steps_have_their_numbers_and_times(jax_gaps: Job) -> None:
    assert jax_gaps.table("steps")["step"].to_list() == list(range(10))
    assert step_ms(jax_gaps) == [16.471, 6.544, 1.687, 73.852, 1.130, 1186.911, 76.360, 53.264, 1.127, 0.661]


def test_cpu_devices_have_the_operations_that_ran_for_them_on_any_thread(jax_gaps: Job) -> None:
    operations = jax_gaps.table("xla_ops")
    assert dict(operations.group_by("device").len().sort("device").iter_rows()) == dict.fromkeys(range(4), 1210)
    assert set(operations.group_by("run", "device").len()["len"]) == {121}
    window_ms = 1458.741
    shares = [round(busy / window_ms * 100, 2) for busy in by_device(operations)]
    assert shares == [17.77, 17.52, 15.89, 17.49]
    assert [round(ms, 1) for ms in by_device(operations.filter("is_collective"))] == [86.5, 73.7, 51.4, 93.0]


def test_device_work_belongs_to_the_step_whose_run_it_is_not_to_the_one_it_overlaps(jax_gaps: Job) -> None:
    operations = jax_gaps.table("xla_ops")
    origin_ns = 1_795_230_584_693_484_285
    of_step = operations.filter(step=4)
    first_ns, last_ns = of_step.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    span = [round((ns - origin_ns) / 1e6, 2) for ns in (first_ns, last_ns)]
    assert span == [102.96, 155.42]
    assert operations["step"].null_count() == 0
    assert set(operations.group_by("step").len()["len"]) == {484}


def test_a_step_that_compiled_ran_another_program(jax_gaps: Job) -> None:
    modules = jax_gaps.table("modules")
    assert modules.height == 40
    assert modules["op_count"].to_list() == [121] * 40
    by_program = modules.group_by("program", maintain_order=True).agg(pl.col("step").unique().sort())
    assert dict(by_program.iter_rows()) == {32: [0, 1, 2, 3, 4, 6, 7, 8, 9], 70: [5]}


def test_operations_have_scope_source_and_opcode_of_their_instruction(jax_gaps: Job) -> None:
    operations = jax_gaps.table("xla_ops")
    assert operations["opcode"].null_count() == 0
    backward = operations.filter(pl.col("scope").cast(pl.String).str.contains(r"transpose\(jvp"))
    assert backward.height > 500
    assert all(source.rpartition(":")[2].isdigit() for source in text(backward, "source") if source)


def test_ranges_that_users_named_are_annotations_with_their_arguments(jax_gaps: Job) -> None:
    annotations = jax_gaps.table("annotations")
    names = annotations.group_by(pl.col("name").cast(pl.String)).len().sort("name")
    expected = {"data_load": 10, "h2d": 10, "log_loss": 2, "train": 10, "train_step_dispatch": 10}
    assert dict(names.iter_rows()) == expected
    steps = annotations.filter(pl.col("name").cast(pl.String) == "train")
    assert text(steps, "arguments")[:2] == ['{"step_num":0}', '{"step_num":1}']


def test_the_gap_of_a_recompilation_is_where_it_was(jax_gaps: Job) -> None:
    first = jax_gaps.table("xla_ops").filter(device=0)
    idle = intervals.union(first).select(pl.col("end_ns").alias("from_ns"), to_ns=pl.col("start_ns").shift(-1))
    from_ns, to_ns = idle.drop_nulls().sort(pl.col("to_ns") - pl.col("from_ns")).row(-1)
    window_ns = jax_gaps.table("steps")["start_ns"][0]
    assert round((from_ns - window_ns) / 1e6, 3) == 148.572
    assert round((to_ns - from_ns) / 1e6, 3) == 1132.410


def test_hosts_of_one_capture_are_ranks_on_one_clock(two_hosts: Job) -> None:
    assert two_hosts.ranks == (0, 1)
    assert step_ms(two_hosts, 0)[:3] == [41.801, 28.929, 32.733]
    assert step_ms(two_hosts, 1)[:3] == [42.615, 29.075, 31.773]
    operations = two_hosts.table("xla_ops")
    devices = operations.group_by("rank").agg(pl.col("device").unique().sort()).sort("rank")
    assert devices["device"].to_list() == [[0, 1], [2048, 2049]]
    assert by_device(operations) == [355.670, 363.110, 383.257, 388.967]
    assert [round(ms, 1) for ms in by_device(operations.filter("is_collective"))] == [224.5, 249.6, 263.2, 247.9]
    # One collective: no device can leave before the last has come.
    alike = two_hosts.table("collectives").group_by("group", "sequence").agg(pl.len(), pl.col("start_ns", "end_ns"))
    assert set(alike["len"]) == {4}
    met = alike.select((pl.col("start_ns").list.max() < pl.col("end_ns").list.min()).all())
    assert met.item()


def test_torch_xla_work_is_found_through_the_tasks_that_started_it(torch_xla: Job) -> None:
    assert torch_xla.table("steps")["step"].to_list() == list(range(3, 15))
    modules = torch_xla.table("modules")
    assert modules.height == 15
    # .item() in steps 3, 7 and 11 runs what is there first.
    assert modules["step"].to_list() == [3, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11, 11, 12, 13, 14]
    launches = torch_xla.table("launches").unique("launch_id")
    assert set(text(launches, "launch_name")) == {"ScheduleSyncTensorsGraph"}
    assert torch_xla.table("xla_ops").filter(pl.col("module_id").is_null()).is_empty()


def test_torch_xla_scopes_come_from_traces(torch_xla: Job) -> None:
    scopes = [scope for scope in text(torch_xla.table("xla_ops"), "scope") if scope]
    assert any(scope.startswith("Training_Step.1/forward.2/attention.1/") for scope in scopes)


@pytest.mark.parametrize("name", ["jax_cpu_gaps", "jax_cpu_multihost2x2", "torch_xla_cpu_gaps"])
def test_every_event_is_in_a_table_or_reported(name: str, tmp_path: Path) -> None:
    job = holotrace.open(capture(name, tmp_path))
    in_tables = job.table("events").height + job.table("instants").height
    assert in_tables == job.info()["event_count"].sum()


def test_parallel_devices_without_numbers_are_told_apart_by_the_order_of_their_tasks() -> None:
    job = holotrace.open(found("ours/torch_xla_cpu_spmd4"))
    operations = job.table("xla_ops")
    assert dict(operations.group_by("device").len().iter_rows()) == dict.fromkeys(range(4), 5271)
    assert job.table("modules").group_by("step", "program", "device").len().height == 60
    per_device = operations.filter("is_collective").group_by("device").len()
    assert set(per_device["len"]) == {222}
    groups = {"[[0,1,2,3]]"}
    assert set(text(job.table("collectives"), "group_ranks")) == groups


def test_tpu_cores_are_as_busy_as_published() -> None:
    job = holotrace.open(found("found/openxla_xprof/tpu_inference_2.xplane.pb"))
    operations = job.table("xla_ops").filter(pl.col("line").cast(pl.String) == "XLA Ops")
    assert by_device(operations) == [78784.928, 78789.509, 78781.987, 78766.282]
    assert by_device(operations.filter("is_collective")) == [365.076, 365.113, 365.089, 365.127]
    first = operations.filter("is_wait", device=0)
    assert round(int(first["self_ns"].sum()) / 1e6, 3) == 76009.516
    modules = job.table("modules")
    runs = modules.filter(pl.col("module").cast(pl.String) == "jit_f").group_by("device").len()
    assert dict(runs.iter_rows()) == dict.fromkeys(range(4), 100)
    spans = [
        round((end - start) / 1e6, 3)
        for start, end in modules.group_by("device")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort("device")
        .select("start_ns", "end_ns")
        .iter_rows()
    ]
    assert spans == [92562.843, 90456.241, 90763.124, 90418.148]
    # No step was marked: each run of the program that does nearly all is one, and this is said.
    assert job.table("steps").height == 100
    assert job.problems()["example"].to_list() == ["100 executions of jit_f"]


def test_streams_of_a_gpu_hold_kernels_joined_to_their_launches() -> None:
    job = holotrace.open(found("found/mi300_jax08_attention"))
    events = job.table("device_events")
    assert (events.height, events["stream"].n_unique(), busy_ms(events)) == (105, 2, 3.846)
    assert events["launch_id"].null_count() == 0
    assert set(text(job.table("launches"), "launch_name")) == {
        "hipExtModuleLaunchKernel",
        "hipModuleLaunchKernel",
        "hipMemcpyHtoDAsync",
    }


def test_events_of_a_gpu_with_one_name_are_told_apart_by_what_they_are(tmp_path: Path) -> None:
    details: list[dict[str, Stat]] = [
        {"hlo_op": "add.1", "program_id": 7},
        {"memcpy_details": "kind:H2D size:64 dest:0 async:1"},
        {"hlo_op": "mul.2", "program_id": 7},
        {"hlo_op": "add.1", "program_id": 7},
        {"memset_details": "kind:Device num_bytes:8"},
    ]
    events = [Event("run", at * US, US, stats) for at, stats in enumerate(details)]
    job = written(tmp_path, Plane("/device:GPU:0", [Line("Stream #7", events, 7)]))
    assert text(job.table("device_events"), "category") == ["kernel", "gpu_memcpy", "kernel", "kernel", "gpu_memset"]
    assert job.table("device_events")["bytes"].to_list() == [None, 64, None, None, 8]
    assert text(job.table("xla_ops"), "name") == ["add.1", "run", "mul.2", "add.1", "run"]
    assert job.table("xla_ops")["program"].to_list() == [7, None, 7, 7, None]


def test_captures_put_together_have_the_work_of_each(tmp_path: Path) -> None:
    (once,) = capture("torch_xla_cpu_gaps", tmp_path / "once").rglob("*.xplane.pb")
    twice = tmp_path / "twice.xplane.pb"
    twice.write_bytes(2 * once.read_bytes())
    one, two = holotrace.open(once), holotrace.open(twice)
    for name in ("xla_ops", "device_events"):
        columns = ["name", "kind", "category", "device", "start_ns", "end_ns"]
        table = one.table(name).select(columns).cast({pl.Categorical: pl.String})
        found = two.table(name).select(columns).cast({pl.Categorical: pl.String})
        assert found.equals(pl.concat([table, table]))


def test_a_touching_pair_stays_touching_and_sums_stay_exact(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    events = [Event(f"%{name}", 700 * at, 700, display=name) for at, name in enumerate(names)]
    job = written(tmp_path, Plane("/device:TPU:0", [Line("XLA Ops", events)]), started_at(START_NS, START_NS + 10))
    operations = job.table("xla_ops")
    assert operations["start_ns"].to_list() == [START_NS, START_NS, START_NS + 1]
    assert operations["end_ns"].to_list() == [START_NS, START_NS + 1, START_NS + 2]
    assert operations["duration_ps"].sum() == 2100


def test_a_loop_is_no_work_of_its_own_but_counts_for_itself(tmp_path: Path) -> None:
    events = [
        Event("%while.1", 0, 10 * US, {"hlo_category": "while"}, "while.1"),
        Event("%fusion.1", 1 * US, 3 * US, {"hlo_category": "loop fusion"}, "fusion.1"),
        Event("%all-reduce.1", 5 * US, 4 * US, {"hlo_category": "all-reduce"}, "all-reduce.1"),
    ]
    job = written(tmp_path, Plane("/device:TPU:3", [Line("XLA Ops", events)]))
    operations = job.table("xla_ops")
    assert operations["self_ns"].to_list() == [3000, 3000, 4000]
    assert operations["is_container"].to_list() == [True, False, False]
    assert text(job.table("device_events"), "name") == ["fusion.1", "all-reduce.1"]
    assert text(job.table("device_events"), "kind") == ["compute", "communication"]
    assert job.table("device_events")["device"].to_list() == [3, 3]


def test_a_wait_is_of_the_kind_of_what_it_waits_for(tmp_path: Path) -> None:
    names = ["copy-done.2", "all-gather-done", "fusion.7", "infeed.1"]
    events = [Event(f"%{n}", at * US, US, {"hlo_category": n.partition(".")[0]}, n) for at, n in enumerate(names)]
    waits = [Event("barrier-cores", 9 * US, US), Event("ep_wait_in", 11 * US, US)]
    lines = [Line("XLA Ops", events, id=3), Line("XLA TraceMe", waits, id=6)]
    operations = written(tmp_path, Plane("/device:TPU:0", lines)).table("xla_ops")
    assert text(operations, "name") == [*names, "barrier-cores"]
    assert operations["is_wait"].to_list() == [True, True, False, True, True]
    assert text(operations, "kind") == ["memory", "communication", "compute", "sync", "sync"]


def test_lines_that_a_viewer_added_are_not_counted_twice(tmp_path: Path) -> None:
    kernel = Event("kernel", 0, US)
    lines = [
        Line("Stream #7(Compute)", [kernel], id=7),
        Line("XLA Ops", [kernel], id=3_735_928_564),
        Line("TensorFlow Ops", [kernel], id=-559_038_734),
        Line("Steps", [kernel], id=1),
    ]
    job = written(tmp_path, Plane("/device:GPU:0", lines))
    assert job.table("device_events").height == job.table("events").height == 1
    assert job.problems().filter(problem="lines made by a viewer")["count"].to_list() == [3]


def test_a_module_is_launched_where_its_run_was_enqueued_and_in_that_step(tmp_path: Path) -> None:
    module = {"run_id": (1 << 28) + 5, "queue_id": 0, "core_type": 0}
    enqueued = {"run_id": 5, "queue_id": 0, "device_ordinal": 1}
    device = [
        Line("XLA Modules", [Event("jit_f(9)", 50 * US, 20 * US, module)], id=2),
        Line("XLA Ops", [Event("%fusion.1", 51 * US, 10 * US, {"hlo_category": "loop fusion"}, "fusion.1")], id=3),
    ]
    python = [
        Event("train", 0, 10 * US, {"_r": 1, "step_num": 7}),
        Event("PjitFunction(f)", 2 * US, 3 * US, {"_pt": 5, "_p": 77}),
        Event("train", 20 * US, 60 * US, {"_r": 1, "step_num": 8}),
    ]
    runtime = [
        Event("Execute", 30 * US, 9 * US, {"_ct": 5, "_c": 77}),
        Event("DoEnqueueProgram", 31 * US, 2 * US, enqueued),
    ]
    host = [Line("python", python, id=1), Line("tpu", runtime, id=2)]
    job = written(tmp_path, Plane("/device:TPU:1", device), Plane("/host:CPU", host))
    modules = job.table("modules")
    # It ran, and was enqueued, while step 8 was under way; the call that it goes back to was in step 7.
    assert modules["step"].to_list() == [7]
    assert text(job.table("launches"), "launch_name") == ["PjitFunction(f)"]
    assert job.table("xla_ops").select("module_id", "program", "step").row(0) == (0, 9, 7)
    holotrace.convert(job, tmp_path / "dataset")
    for known in (job, holotrace.open(tmp_path / "dataset")):
        assert known.info().select("first_step", "last_step").row(0) == (7, 8)


def test_steps_are_spans_with_a_number_whatever_their_name(tmp_path: Path) -> None:
    events = [Event("epoch/φ", 0, US, {"_r": 1, "step_num": 41}), Event("train", 2 * US, US)]
    job = written(tmp_path, Plane("/host:CPU", [Line("python", events)]))
    assert job.table("steps")["step"].to_list() == [41]


def test_a_profile_without_any_program_has_no_steps_of_its_own() -> None:
    assert inferred(MODULES.empty()).kind == "none"


def runs_of(programs: str) -> pl.DataFrame:
    """A run of ``jit_f`` for each letter, one program per letter."""
    rows = [
        {"module_id": at, "module": "jit_f", "program": ord(letter), "device": 0, "plane": "/device:TPU:0"}
        | {"start_ns": 10 * at, "end_ns": 10 * at + 5}
        for at, letter in enumerate(programs)
    ]
    return frame(MODULES, rows)


def test_a_step_whose_program_was_compiled_again_for_another_batch_is_a_step() -> None:
    """Steps were told of by lower numbers after each short batch, and took two in one."""
    assert inferred(runs_of("AAAABAACAA")).frame["step"].to_list() == list(range(10))


def test_operations_that_run_one_by_one_make_no_steps_though_many_have_one_name() -> None:
    assert inferred(runs_of("ABBCCABCBA")).kind == "none"


def test_two_programs_of_one_name_that_each_step_runs_are_one_step() -> None:
    assert inferred(runs_of("ABABABABAB")).frame["step"].to_list() == list(range(5))


def test_the_last_step_has_the_programs_that_follow_in_each() -> None:
    """The update of the last step was in none, and that step seemed to be shorter than the others."""
    end_ns = pl.col("start_ns") + pl.when(program=ord("A")).then(9).otherwise(2)
    steps = inferred(runs_of("ABABABAC").with_columns(end_ns=end_ns))
    assert steps.frame.select("start_ns", "end_ns").rows()[-1] == (60, 69)
    steps = inferred(runs_of("ABABABAB").with_columns(end_ns=end_ns))
    assert steps.frame.select("start_ns", "end_ns").rows() == [(0, 20), (20, 40), (40, 60), (60, 72)]


def test_a_device_that_recorded_more_runs_than_the_first_has_the_same_steps() -> None:
    """What it began a moment before the first device was in the step before, and what it ran later in the last."""
    first = runs_of("AAAA")
    more = runs_of("AAAAA").with_columns(
        pl.col("start_ns", "end_ns") - 1, device=pl.lit(1, pl.Int64), module_id=pl.col("module_id") + 10
    )
    both = pl.concat([first, more])
    steps = inferred(both)
    assert steps.of(both).to_list() == [0, 1, 2, 3, 0, 1, 2, 3, None]


def test_unix_times_in_old_profiles_are_kept(tmp_path: Path) -> None:
    line = Line("XLA Ops", [Event("%a", 5000, 1000, display="a")], timestamp_ns=START_NS)
    operations = written(tmp_path, Plane("/device:TPU:0", [line])).table("xla_ops")
    assert operations["start_ns"].to_list() == [START_NS + 5]


def test_a_profile_without_device_work_says_so(tmp_path: Path) -> None:
    events = [Event("DoEnqueueProgram", 0, US), Event("DoEnqueueProgram", 2 * US, US)]
    job = written(tmp_path, Plane("/host:CPU", [Line("main/1", events)]))
    assert job.problems().filter(problem="device work not recorded")["count"].to_list() == [2]
    assert job.table("device_events").is_empty()


def test_planes_declare_what_their_device_can_do(tmp_path: Path) -> None:
    stats: dict[str, Stat] = {
        "device_type_string": "TPU v6 Lite",
        "peak_teraflops_per_second": 918.0,
        "peak_hbm_bw_gigabytes_per_second": 1638.0,
    }
    job = written(tmp_path, Plane("/device:TPU:2", [Line("XLA Ops", [Event("%a", 0, 1)])], stats))
    (device,) = job.table("devices").rows(named=True)
    known = {key: value for key, value in device.items() if value is not None}
    assert known == {
        "rank": 0,
        "device": 2,
        "plane": "/device:TPU:2",
        "device_kind": "TPU",
        "model": "TPU v6 Lite",
        "peak_flops": 918e12,
        "peak_bandwidth": 1638e9,
    }
    assert job.info()["device"].to_list() == ["TPU v6 Lite"]


@pytest.mark.parametrize("table", ["device_events", "cpu_ops", "xla_ops", "modules", "hlo", "host_calls", "devices"])
def test_an_empty_profile_has_empty_tables(table: str, tmp_path: Path) -> None:
    assert written(tmp_path, Plane("/host:CPU")).table(table).is_empty()


def test_a_table_of_another_format_is_empty(tmp_path: Path) -> None:
    job = holotrace.open(write_trace(tmp_path / "a.json"))
    assert job.table("xla_ops").is_empty()
    assert job.table("annotations")["arguments"].null_count() == job.table("annotations").height


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty, as a profile of more than 2 GB becomes"),
        (b"\x0a\xff\x01abc", "at byte 0, a field is longer than what it is in; it is cut off or damaged"),
        ("\ufffd".encode() * 50, "passed through a text tool"),
    ],
)
def test_a_file_that_is_no_profile_is_named_with_what_happened_to_it(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(content)
    with pytest.raises(holotrace.TraceFormatError, match=rf"a\.xplane\.pb: not a valid XSpace: .*{said}"):
        holotrace.open(path).info()


def test_a_published_file_that_a_text_tool_broke_is_named() -> None:
    broken = found("found/openxla_xprof/tpu_inference_2.CORRUPT_utf8_reencoded.xplane.pb")
    with pytest.raises(holotrace.TraceFormatError, match=r"at byte 0, .*passed through a text tool"):
        holotrace.open(broken).info()


def test_runs_of_one_program_after_another_on_a_gpu_are_as_many_as_the_host_executed() -> None:
    job = holotrace.open(GPU_READ)
    modules = job.table("modules")
    assert (modules.height, set(modules["op_count"]), modules["step"].to_list()) == (8, {163}, list(range(8)))
    steps = job.step_times()
    assert steps["compute_ns"].is_between(7_300_000, 7_400_000).all()
    assert steps["total_ns"].sum() == job.time_breakdown()["total_ns"].sum()


def test_runs_of_a_gpu_that_were_launched_before_the_recording_are_as_many_as_begin(tmp_path: Path) -> None:
    names = ("mul.1", "dot.2", "mul.3")
    begun = [(name, (100 * run + 10 * at) * US) for run in range(5) for at, name in enumerate(names)]
    kernels = [
        Event(name, start, 8 * US, {"hlo_op": name, "program_id": 7, "correlation_id": number})
        # The first kernel ran before the recording, too.
        for number, (name, start) in enumerate(begun[1:], 1)
    ]
    calls = [Event("jit_f:XLA GPU module", (20 + 100 * run) * US, 20 * US) for run in range(2)]
    launches = [
        Event("launch", (21 + 100 * run + at) * US, US, {"correlation_id": 9 + 3 * run + at})
        for run in range(2)
        for at in range(3)
    ]
    threads = [Line("python", sorted([*calls, *launches], key=lambda event: event.start_ps), 1)]
    device = Plane("/device:GPU:0", [Line("Stream #7(Compute)", kernels, 7)])
    modules = written(tmp_path, device, Plane("/host:CPU", threads)).table("modules").sort("start_ns")
    assert modules["op_count"].to_list() == [2, 3, 3, 3, 3]
    assert modules["launch_id"].is_null().to_list() == [True, True, True, False, False]
    assert modules["step"].to_list() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("launching", ["python", "HIP"])
def test_a_gpu_program_that_runs_again_and_again_makes_steps(tmp_path: Path, launching: str) -> None:
    """ROCm shows launches on threads of their own, CUPTI on that of the call."""
    runs = range(3)
    calls = [Event("jit_f:XLA GPU module", 100 * run * US, 50 * US) for run in runs]
    at = [(100 * run + 10 * nth) * US for run in runs for nth in (1, 2)]
    launches = [Event("launch", start, 5 * US, {"correlation_id": n}) for n, start in enumerate(at, 1)]
    kernels = [
        Event("mul", start + 6 * US, 4 * US, {"hlo_op": "mul.1", "program_id": 7, "correlation_id": n})
        for n, start in enumerate(at, 1)
    ]
    threads = {"python": calls, "HIP": []}
    threads[launching] = sorted([*threads[launching], *launches], key=lambda event: event.start_ps)
    host = Plane("/host:CPU", [Line(name, events, n) for n, (name, events) in enumerate(threads.items(), 1)])
    job = written(tmp_path, host, Plane("/device:GPU:0", [Line("Stream #7", kernels, 7)]))
    assert job.table("modules")["op_count"].to_list() == [2, 2, 2]
    assert job.table("steps")["step"].to_list() == [0, 1, 2]


def test_a_gpu_program_that_began_before_the_recording_is_not_launched_with_the_next_one(tmp_path: Path) -> None:
    """Its kernels seemed to run before their launch: all were shifted, and the device stood still before them."""
    launches = [Event("launch", 50 * US, US, {"correlation_id": 2})]
    kernels = [
        Event("mul", start * US, 40 * US, {"hlo_op": "mul.1", "program_id": 7, "correlation_id": number})
        for number, start in enumerate((5, 60), 1)
    ]
    host = Plane("/host:CPU", [Line("HIP", launches)])
    job = written(tmp_path, host, Plane("/device:GPU:0", [Line("Stream #7", kernels, 7)]))
    assert job.skew()["shift_ns"].to_list() == [0]


@pytest.mark.parametrize("thread", ["python", "python3.12", "train"])
def test_ranges_are_those_of_the_thread_that_calls_programs_whatever_it_is_called(tmp_path: Path, thread: str) -> None:
    """In profiles without steps ranges were read only of threads that are called python or main."""
    events = [Event("save_checkpoint", 0, 5 * US), Event("PjitFunction(f)", 10 * US, 5 * US)]
    pool = Line("pool/7", [Event("work", 0, 5 * US)], id=2)
    job = written(tmp_path, Plane("/host:CPU", [Line(thread, events), pool]))
    assert text(job.table("annotations"), "name") == ["save_checkpoint"]


@pytest.mark.parametrize("call", ["ExecuteHelperOnSingleDevice", "Execute (jit_f)"])
def test_a_program_that_its_launching_thread_executes_itself_is_not_launched_after_it_ran(
    tmp_path: Path, call: str
) -> None:
    """Only the wait for its completion names the run then, and comes when all is done."""
    name = f"CommonPjRtLoadedExecutable::{call}"
    run: dict[str, Stat] = {"run_id": 5, "device_ordinal": 0}
    inside: dict[str, Stat] = {"hlo_op": "dot.1", "hlo_module": "jit_f", "program_id": 7, **run}
    events = [
        Event("PjitFunction(f)", 0, 60 * US),
        Event(name, 10 * US, 40 * US),
        Event("dot.1", 20 * US, 20 * US, inside),
        Event("ThunkExecutor::Execute (wait for completion)", 45 * US, 1 * US, run),
    ]
    job = written(tmp_path, Plane("/host:CPU", [Line("python", events)]))
    (module,) = job.table("modules").rows(named=True)
    assert module["start_ns"] - module["launch_ns"] == 10_000
    assert text(job.table("launches"), "launch_name") == [name]


@pytest.mark.parametrize(("recorded", "steps"), [((0, 1, 2, 3), [0, 1, 2, 3]), ((0, 2, 3), [0, 0, 2, 0])])
def test_programs_that_begin_when_the_one_before_is_over_are_launched_by_their_own_calls(
    recorded: tuple[int, ...], steps: list[int], tmp_path: Path
) -> None:
    """All steps whose parameters are donated to the next were those of the first launch, and so of the first step.

    Where a launch is missing, nothing tells which of its function's programs it was of.
    """
    python, pool = [], []
    functions = ("f", "f", "<lambda>", "f")
    for number, function in enumerate(functions):
        begun = 40 * US * number
        python.append(Event("train", begun, 30 * US, {"_r": 1, "step_num": number}))
        python.append(Event(f"PjitFunction({function})", begun + US, 20 * US))
        if number in recorded:
            python.append(Event("CommonPjRtLoadedExecutable::ExecuteHelperOnSingleDevice", begun + 2 * US, 10 * US))
        module: dict[str, Stat] = {
            "hlo_module": f"jit_{function.replace('<', '_').rstrip('>')}",
            "program_id": 7 + len(function),
        }
        ran: dict[str, Stat] = {"hlo_op": "dot.1", "run_id": 100 + number, "device_ordinal": 0, **module}
        pool.append(Event("dot.1", (number + 1) * 200 * US, 100 * US, ran))
    # Only the first hands its program to the pool, which goes on with the others.
    handed = Event("ThreadpoolListener::Record", 5 * US, US, {"_pt": 15, "_p": 1})
    region = Event("ThreadpoolListener::Region", 100 * US, 900 * US, {"_ct": 15, "_c": 1})
    python.append(handed)
    lines = [Line("python", sorted(python, key=lambda event: (event.start_ps, -event.duration_ps)), id=1)]
    job = written(tmp_path, Plane("/host:CPU", [*lines, Line("tf_XLAPjRtCpuClient/2", [region, *pool], id=2)]))
    modules = job.table("modules").sort("start_ns")
    assert modules["step"].to_list() == steps
    assert (modules["launch_ns"] - modules["launch_ns"][0]).to_list() == [40_000 * step for step in steps]
