"""Causes of lost time in profiles of XLA: what the host did, and what it costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import holotrace
from drawing import draw, trace
from hlo_files import Computation, Instruction, Program, Shape
from holotrace.core.analysis import Finding
from holotrace.core.tables import CALLS, COLLECTIVES, DEVICE_EVENTS, HLO, HOST_CALLS, MODULES, STEPS, XLA_OPS
from holotrace.core.trace import RankTrace
from holotrace.derive.kernel_kinds import COMMUNICATION, COMPUTE
from holotrace.diagnosis.job.symptoms import SAME_INPUTS
from holotrace.diagnosis.rank.calls import beside_the_step
from holotrace.diagnosis.rank.xla import hosts as xla_hosts
from holotrace.job import Job
from trace_files import REAL_TRACES
from xla_drawing import frame
from xplane_files import Event, Line, Plane, Stat, capture, space

XLA = REAL_TRACES.parent / "xla"
GPU = Path(__file__).parent.parent / "data" / "jax_gpu"


def found(path: str) -> list[Finding]:
    if not (XLA / path).exists():
        pytest.skip(f"{XLA / path} is not there")
    return [finding for finding in holotrace.open(XLA / path).findings() if finding.severity != "info"]


def test_time_in_which_the_host_reads_input_is_worth_its_length_and_says_how_to_load_ahead() -> None:
    waiting = "I" * 300
    job = draw(f"""
        step |{"1" * 500}{"2" * 500}|
        tpu  |{"A" * 200}{"." * 300}{"B" * 500}|
        call |{"." * 200}{waiting}b{"." * 499}|
        I = Iterator::Next
    """)
    (cause,) = job.causes().to_dicts()
    assert (cause["cause"], cause["ranks"], cause["steps"], cause["cost_ns"]) == ("input", [0], [1], 300_000)
    assert cause["responsible"] == "Iterator::Next"
    assert "grain" in cause["advice"]


def test_a_function_in_python_that_a_program_calls_is_a_cause_and_no_computing(tmp_path: Path) -> None:
    """Devices that waited for such a function were told to compute, and to lose nothing."""
    one, ms = Shape("f32", (8,)), 10**9
    entry = Computation(
        "main",
        (
            Instruction("x", "parameter", one),
            Instruction("pure_callback.1", "custom-call", one, ("x",), target="xla_ffi_python_cpu_callback"),
            Instruction("add.1", "add", one, ("pure_callback.1", "x")),
        ),
    )
    add, call = "add.1", "pure_callback.1"
    ran = [(add, 0, 4), (call, 4, 6), (add, 10, 4), (call, 14, 6), (add, 20, 4)]
    told: dict[str, Stat] = {"hlo_module": "jit_f", "program_id": 7}
    events = [Event(name, at * ms, length * ms, {"hlo_op": name, **told}) for name, at, length in ran]
    host = Plane("/host:CPU", [Line("tf_XLAEigen/1", events, id=1)])
    program = Program((entry,)).written()
    (tmp_path / "host.xplane.pb").write_bytes(space(host, Plane("/host:metadata", programs={"jit_f(7)": program})))
    job = holotrace.open(tmp_path)
    (cause,) = job.causes().select("cause", "responsible", "cost_ns").rows()
    assert cause == ("python-function", "pure_callback.1", 12_000_000)
    (finding,) = (finding for finding in job.findings() if finding.severity != "info")
    assert "python-in-programs" in finding.explains
    assert job.time_breakdown().select("compute_ns", "idle_ns").row(0) == (12_000_000, 12_000_000)


@pytest.mark.parametrize(
    ("waiting", "cause", "name"),
    [
        ("infeed", "input", "infeed.1"),
        ("host recv-done", "python-function", "recv-done.1 (train.py:7)"),
        # Between slices, over the network of data centres.
        ("recv-done", "exposed-transfer", "recv-done.1"),
    ],
)
def test_a_program_that_waits_for_what_others_send_is_held_up_by_that_once(
    waiting: str, cause: str, name: str, tmp_path: Path
) -> None:
    """Devices that stood in an infeed had the advice to start copies and collectives earlier."""
    ms = 1_000_000_000
    told: dict[str, Stat] = {"hlo_category": waiting, **({"source": "train.py:7"} if "(" in name else {})}
    ran = [
        event
        for at in range(0, 60, 10)
        for event in (
            Event(f"%{name}", at * ms, 4 * ms, told, name.partition(" ")[0]),
            Event("%fusion.1", (at + 4) * ms, 6 * ms, {"hlo_category": "loop fusion"}, "fusion.1"),
        )
    ]
    planes = [Plane(f"/device:TPU:{core}", [Line("XLA Ops", ran, id=3)]) for core in range(2)]
    (tmp_path / "host.xplane.pb").write_bytes(space(*planes))
    job = holotrace.open(tmp_path)
    assert job.causes().select("cause", "responsible", "cost_ns").rows() == [(cause, name, 24_000_000)]
    assert "waiting-device" in next(iter(job.findings())).explains


def product(lasted_us: int, precision: int, folder: Path, *, size: int = 4096, count: int = 10) -> Job:
    """Runs of a product of matrices of that size in f32 on an H100."""
    of, us = Shape("f32", (size, size)), 10**6
    operands = (Instruction("a", "parameter", of), Instruction("b", "parameter", of, parameter=1))
    dot = Instruction("dot.1", "dot", of, ("a", "b"), contracted=(1,), precision=precision)
    about: dict[str, Stat] = {"device_vendor": "Nvidia", "core_count": 132, "memory_bandwidth": 3_352_000_000_000}
    about |= {"compute_cap_major": 9, "compute_cap_minor": 0}
    told: dict[str, Stat] = {"hlo_op": "dot.1", "hlo_module": "jit_f", "program_id": 7}
    ran = [Event("gemm", at * lasted_us * us, lasted_us * us, told) for at in range(count)]
    device = Plane("/device:GPU:0", [Line("Stream #7(Compute)", ran, id=7)], about)
    program = Program((Computation("main", (*operands, dot)),)).written()
    (folder / "host.xplane.pb").write_bytes(space(device, Plane("/host:metadata", programs={"jit_f(7)": program})))
    return holotrace.open(folder)


def test_products_that_keep_all_bits_are_worth_what_fewer_bits_would_save(tmp_path: Path) -> None:
    """Of a job in fp32 on an H100, 158 ms a step where bf16 takes 28, nothing was told."""
    (cause,) = product(2770, 2, tmp_path).causes().to_dicts()
    assert (cause["cause"], cause["responsible"]) == ("wrong-type", "dot.1")
    # 0.6 of the peak of TF32: 132 multiprocessors that do 2048 operations in a cycle of 1.83 GHz.
    needed_ns = 2 * 4096**3 / (0.6 * 132 * 2048 * 1.83)
    assert cause["cost_ns"] == pytest.approx(10 * (2_770_000 - needed_ns), rel=1e-4)
    assert "jax_default_matmul_precision" in cause["advice"]


@pytest.mark.parametrize(("lasted_us", "precision"), [(2770, 0), (500, 2), (6000, 2)])
def test_products_that_their_bits_do_not_limit_are_not_told(lasted_us: int, precision: int, tmp_path: Path) -> None:
    assert product(lasted_us, precision, tmp_path).causes().is_empty()


def test_short_products_are_not_told_however_often_they_run(tmp_path: Path) -> None:
    """From 215 runs on the least time of all of them was one of 32 bits, which short ones exceeded."""
    assert product(6, 2, tmp_path, size=512, count=300).causes().is_empty()


def test_results_that_are_read_while_devices_work_cost_nothing() -> None:
    """A host that waited for its loss for most of the time was said to lose all of it."""
    job = draw(f"""
        step |{"1" * 1000}{"2" * 1000}{"3" * 1000}|
        tpu  |{"A" * 1000}{"B" * 1000}{"C" * 1000}|
        call |a{"R" * 990}{"." * 9}b{"R" * 990}{"." * 9}c{"R" * 990}{"." * 9}|
        R = np.asarray(jax.Array)
    """)
    (found,) = (finding for finding in job.findings() if finding.rule == "early-read")
    assert (found.severity, found.cost_ns) == ("info", None)


def test_a_read_gains_no_lead_over_a_checkpoint_that_reads_results_itself() -> None:
    """What a checkpoint reads was no wait, so that without other reads it would have gone on beside the devices."""
    job = draw(f"""
        step |{"1" * 1200}{"2" * 4900}{"3" * 1300}|
        tpu  |{"A" * 1000}{"." * 200}{"B" * 1000}{"C" * 1000}{"." * 2900}{"D" * 1000}{"." * 300}|
        call |a{"R" * 1009}{"P" * 190}b{"P" * 199}c{"P" * 99}{"S" * 1710}{"." * 2790}{"P" * 100}d{"." * 1299}|
        mark |{"." * 1500}{"F" * 4500}{"." * 1400}|
        R = np.asarray(jax.Array)
        P = PjitFunction(f)
        S = TransferFromDevice
        F = save_checkpoint
    """)
    # The read alone costs 0.2 ms.
    assert job.causes().select("cause", "cost_ns").rows() == [("checkpoint", 2_900_000)]


@pytest.mark.parametrize("name", ["np.asarray(jax.Array)", "$api.py:2757 block_until_ready"])
def test_a_host_that_waits_for_results_loses_its_lead_whether_it_reads_them_or_not(name: str) -> None:
    """Loops that block in each step were told to be launch-bound: on an H100 that took 28.2 ms and without 25.1 ms."""
    step = f"a{'R' * 2009}{'P' * 990}"
    job = draw(f"""
        step |{"1" * 3000}{"2" * 3000}{"3" * 3000}{"4" * 3000}|
        tpu  |{("A" * 2000 + "." * 1000) * 3}{"A" * 3000}|
        call |{step * 3}a{"." * 2999}|
        P = PjitFunction(f)
        R = {name}
    """)
    found = job.causes().select("cause", "responsible", "cost_ns").rows()
    assert found == [("synchronization", name, 3_000_000)]


def test_a_read_is_what_exposes_python_that_is_not_recorded() -> None:
    """A loop that reads its loss in each step was told that the trace does not show what the host did."""
    job = draw(f"""
        step |{"1" * 3000}{"2" * 3000}{"3" * 3000}{"4" * 3000}|
        tpu  |{("A" * 2000 + "." * 1000) * 3}{"A" * 3000}|
        call |{f"a{'R' * 2009}{'.' * 990}" * 3}a{"." * 2999}|
        R = np.asarray(jax.Array)
    """)
    found = job.causes().select("cause", "responsible", "cost_ns").rows()
    assert found == [("synchronization", "np.asarray(jax.Array)", 3_000_000)]


def test_a_host_works_for_a_graph_until_that_begins_if_the_call_that_launches_it_lasts_longer() -> None:
    """Launching a graph of 300 kernels took 0.8 ms of a token, all of which was taken for the device's."""
    drawn = trace(f"""
        step |{"1" * 1000}{"2" * 1000}|
        tpu  |{"." * 700}{"A" * 500}{"." * 600}{"A" * 200}|
        call |{"." * 400}a{"." * 1199}a{"." * 399}|
    """)
    calls = drawn[HOST_CALLS].with_columns(end_ns=pl.col("start_ns") + pl.Series([350_000, 100_000, 0, 0]))
    nothing = {table.name: table.empty() for table in (CALLS, HLO)}
    rank = replace(drawn, tables={**nothing, **drawn.tables, HOST_CALLS.name: calls})
    # The second call is over before its program begins.
    assert xla_hosts.host(rank).launches["launched_ns"].to_list() == [700_000, 1_600_000]


def test_a_program_of_jax_on_an_h100_waits_for_a_function_and_its_host_for_each_step(tmp_path: Path) -> None:
    """Steps took 49.2 ms, and 28.2 ms without a callback that sleeps for 20 ms, and 25.1 ms if nothing blocks, either.

    The program has 6,597,069,766,656 operations of products by hand: all of a step was one operation.
    """
    job = holotrace.open(capture("jax_gpu_callback", tmp_path))
    called, waits = job.causes().select("cause", "responsible", "cost_per_step_ns").rows()
    assert called[:2] == ("python-function", "$jgpu.py:148 look_up_rewards")
    assert called[2] == pytest.approx(21e6, rel=0.02)
    assert waits[:2] == ("synchronization", "jgpu.py:202 one_step")
    assert waits[2] == pytest.approx(3.1e6, rel=0.1)
    assert job.efficiency().drop_nulls("step")["model_flops"].to_list() == [6_597_069_766_656] * 3


def test_what_graphs_of_cuda_copy_within_a_device_is_work() -> None:
    """A healthy transformer of JAX, whose layers are a scan, was told to copy for 2.6 of 17.5 ms by itself."""
    assert holotrace.open(GPU / "scan.xplane.pb.gz").causes().is_empty()


def test_a_program_waits_for_what_it_is_launched_with_and_not_for_its_launch() -> None:
    """A step takes 6.12 ms with pictures sent to the GPU, and 0.26 ms without: all of it was said to be launching."""
    first, *others = holotrace.open(GPU / "upload.xplane.pb.gz").causes().to_dicts()
    assert first["cause"] == "upload"
    assert first["cost_per_step_ns"] == pytest.approx((6.12 - 0.26) * 1e6, rel=0.05)
    assert sum(other["cost_per_step_ns"] for other in others) < 0.1 * first["cost_per_step_ns"]


def test_what_the_profiler_does_before_the_first_step_is_no_part_of_it() -> None:
    """A step took 14.6 ms with a function that sleeps, 12.8 without; the profiler's `trace` was told before it.

    In the first step, before which nothing had been launched, devices stood still for all of the function.
    """
    (found,) = holotrace.open(GPU / "sleep.xplane.pb.gz").causes().to_dicts()
    assert (found["cause"], found["responsible"]) == ("python-function", "$jx.py:61 wait_for_disk")
    assert 0.6 * 1_800_000 < found["cost_per_step_ns"] < 1.2 * 1_800_000


def test_a_function_that_a_program_on_a_device_calls_back_is_named_and_no_launching() -> None:
    """The thread that starts a program is in that until all of it is launched, also while it is called back."""
    job = draw(f"""
        step |{"1" * 5000}{"2" * 5000}|
        tpu  |{"A" * 1000}{"." * 3000}{"B" * 2000}{"." * 3000}{"A" * 1000}|
        call |a{"P" * 3950}b{"." * 2000}{"P" * 3000}a{"." * 1000}|
        deep |{"." * 900}{"C" * 3000}{"." * 2050}{"C" * 2800}{"." * 1250}|
        P = PjitFunction(f)
        C = pure_callback.1
    """)
    found = job.causes().select("cause", "responsible", "cost_ns").rows()
    assert found[0] == ("python-function", "pure_callback.1", 5_800_000)
    assert "launch-bound" not in {cause for cause, *_ in found}


def held_by(name: str) -> Job:
    """A job whose host is in ``name`` for 2.8 of 4 ms of a step, while the device waits."""
    return draw(f"""
        step |{"1" * 4000}{"2" * 1000}|
        tpu  |{"A" * 1000}{"." * 3000}{"B" * 1000}|
        call |{"." * 1000}{"F" * 2800}{"b" * 200}{"." * 1000}|
        F = {name}
    """)


@pytest.mark.parametrize(
    ("name", "cause"), [("$train.py:7 augment", "python-function"), ("$train.py:9 load_batch", "input")]
)
def test_a_function_of_the_program_that_holds_the_host_is_named(name: str, cause: str) -> None:
    """A JAX program that computed its batches on the host was said to be launch-bound."""
    found = held_by(name).causes().row(0, named=True)
    assert (found["cause"], found["responsible"]) == (cause, name)
    assert 2_800_000 <= found["cost_ns"] <= 3_000_000


def test_a_checkpoint_is_named_by_the_code_that_saves_it_and_not_by_what_that_calls_in_a_library() -> None:
    """Profilers of JAX tell no folders: it was ``save`` of a file of NumPy's that nobody knows."""
    job = draw(f"""
        step |{"1" * 4000}{"2" * 1000}|
        tpu  |{"A" * 1000}{"." * 3000}{"B" * 1000}|
        call |{"." * 1000}{"F" * 2800}{"b" * 200}{"." * 1000}|
        deep |{"." * 1010}{"G" * 2700}{"." * 1290}|
        F = $train.py:7 save_checkpoint
        G = $_npyio_impl.py:504 save
    """)
    assert job.causes().select("cause", "responsible").rows() == [("checkpoint", "$train.py:7 save_checkpoint")]


def test_reads_of_a_jax_program_on_a_gpu_cost_the_host_its_lead_and_their_line_is_named() -> None:
    """Recorded on an H100: with `float(loss)` after each step it took 9.163 ms and without 7.715 ms."""
    (found,) = holotrace.open(GPU / "read.xplane.pb.gz").causes().to_dicts()
    assert found["cause"] == "synchronization"
    assert "jaxjobs.py:36 step" in found["message"]
    assert found["cost_per_step_ns"] == pytest.approx(9_163_000 - 7_715_000, rel=0.2)


def test_nothing_is_said_of_that_program_without_reads() -> None:
    assert holotrace.open(GPU / "clean.xplane.pb.gz").causes().is_empty()


def test_the_recompilation_of_a_jax_program_comes_first_with_the_shape_that_changed() -> None:
    first = found("ours/jax_cpu_gaps")[0]
    assert (first.rule, first.ranks) == ("compilation", (0,))
    assert first.message.endswith("compiles in jit_train_step, in step 5")
    assert abs((first.cost_ns or 0) - 1_057_681_520) < 1_000_000
    assert first.what_to_do.startswith("Inputs changed: s32[4,64] became s32[4,96] (called in train_step_dispatch).")
    assert {"recompilation", "idle-device", "late-host"} <= set(first.explains)


@pytest.mark.parametrize(("copied", "is_offloaded"), [("copy.14", False), ("copy-done.3", True)])
def test_what_a_program_copies_within_its_device_is_no_transfer_to_the_host(
    copied: str, is_offloaded: bool, tmp_path: Path
) -> None:
    """A layout that is changed, or a buffer that was not donated, had the advice to offload less to the host."""
    ms = 1_000_000_000
    ran = [
        Event(f"%{name} = f32[8]", at * ms, 5 * ms, {"hlo_category": name.partition(".")[0]}, name)
        for at, name in enumerate((copied, "fusion.1") * 4)
        for at in (5 * at,)
    ]
    (tmp_path / "host.xplane.pb").write_bytes(space(Plane("/device:TPU:0", [Line("XLA Ops", ran, id=3)])))
    told = holotrace.open(tmp_path).causes().row(0, named=True)
    assert (told["cause"], told["responsible"]) == ("copy", copied if not is_offloaded else "copy-done")
    assert ("offload" in told["advice"], "donate" in told["advice"]) == (is_offloaded, not is_offloaded)


def test_a_copy_within_a_gpu_is_told_once(tmp_path: Path) -> None:
    """It was told by the name of its operation, and again by that of CUDA, each time with all of its cost."""
    ms = 1_000_000_000
    told: dict[str, Stat] = {"hlo_module": "jit_f", "program_id": 7}
    ran = [
        Event(name, 5 * at * ms, 5 * ms, {"hlo_op": operation, **told})
        for at, (name, operation) in enumerate([("MemcpyD2D", "copy.14"), ("loop_fusion", "fusion.1")] * 4)
    ]
    (tmp_path / "host.xplane.pb").write_bytes(space(Plane("/device:GPU:0", [Line("Stream #7(Compute)", ran, id=7)])))
    assert holotrace.open(tmp_path).causes().select("cause", "responsible").rows() == [("copy", "copy.14")]


def test_a_step_that_nothing_put_into_one_program_is_told_to_be_one() -> None:
    job = draw(f"""
        step |{"1" * 1200}{"2" * 1200}|
        tpu  |{"." * 60}{("A" + "." * 59) * 39}|
        call |{("K" * 59 + "a") * 39}{"." * 60}|
        K = PjitFunction(add)
        A = add.1 in jit_add(1)
    """)
    (first,) = (finding for finding in job.findings() if finding.rule == "launch-bound")
    assert first.what_to_do.startswith("A step runs 19 programs of less than 0.1 ms (jit_add): put all that belongs")


def test_a_step_that_begins_with_its_program_is_the_one_that_waited_for_it(tmp_path: Path) -> None:
    """What was compiled for the fourth batch was said to be compiled in the third step."""
    ms = 1_000_000_000
    starts, held = (0, 10, 20, 60, 70, 80), 25
    ran = [Event(f"jit_f({8 if at == 60 else 7})", at * ms, 10 * ms, {"run_id": at}) for at in starts]
    host = [
        Event("PjitFunction(f)", held * ms, 34 * ms),
        Event("backend_compile", held * ms, 33 * ms, {"module": "jit_f"}),
    ]
    device = Plane("/device:TPU:0", [Line("XLA Modules", ran, id=2)])
    (tmp_path / "host.xplane.pb").write_bytes(space(device, Plane("/host:CPU", [Line("python", host)])))
    job = holotrace.open(tmp_path)
    assert job.causes().filter(cause="compilation")["steps"].to_list() == [[3]]
    assert job.compilations()["step"].to_list() == [3]


def test_a_program_that_is_compiled_again_for_the_same_inputs_is_said_to_have_other_constants() -> None:
    job = draw(f"""
        step |{"1" * 4000}{"2" * 4000}|
        tpu  |{"." * 100}{"A" * 900}{"." * 6000}{"B" * 1000}|
        call |a{"." * 3999}{"L" * 2901}b{"." * 1099}|
        deep |{"." * 4000}{"C" * 2900}{"." * 1100}|
        C = backend_compile
        L = PjitFunction(f)
        A = fusion in jit_f(1)
        B = fusion in jit_f(2)
    """)
    (first,) = (finding for finding in job.findings() if finding.rule == "compilation")
    assert first.what_to_do.startswith(SAME_INPUTS)
    assert "from changing" not in first.what_to_do


def test_a_program_is_named_after_a_function_without_what_is_no_letter() -> None:
    job = draw(f"""
        step |{"1" * 4000}{"2" * 4000}|
        tpu  |{"." * 100}{"A" * 900}{"." * 6000}{"B" * 1000}|
        call |a{"." * 3999}{"L" * 2901}b{"." * 1099}|
        deep |{"." * 4000}{"C" * 2900}{"." * 1100}|
        C = backend_compile
        L = PjitFunction(<lambda>)
        A = fusion in jit_f(1)
        B = fusion in jit__lambda(2)
    """)
    assert job.compilations().select("module", "cause").rows() == [("jit__lambda", "first_use")]


@pytest.mark.slow
def test_loader_stalls_and_compilations_of_torch_xla_are_told_once_each() -> None:
    causes = [finding for finding in found("ours/torch_xla_cpu_gaps") if finding.analysis == "causes"]
    assert [cause.rule for cause in causes] == ["compilation", "launch-bound", "input"]
    assert causes[2].message.endswith("waits for input in data_loading, in steps 6, 11")
    assert "input-stall" in causes[2].explains


@pytest.mark.slow
def test_copies_that_run_at_once_are_one_cause_that_costs_no_more_than_the_time_they_cover() -> None:
    causes = found("found/openxla_xprof/tpu_inference_2.xplane.pb")
    copies = [cause for cause in causes if cause.rule == "copy"]
    assert len(copies) == 1
    assert 60e9 < (copies[0].cost_ns or 0) < 80e9
    assert "copy-done" in copies[0].message


def test_what_a_host_does_before_the_first_step_is_of_no_step() -> None:
    """A recorded start of a job was told as so much of each step, and in step 0."""
    job = draw(f"""
        step |{"." * 4000}{"1" * 2000}{"2" * 2000}|
        tpu  |A{"." * 4009}{"B" * 1980}{"." * 20}{"C" * 1990}|
        call |a{"." * 3999}{"b" * 10}{"." * 1980}{"c" * 10}{"." * 2000}|
    """)
    first = job.causes().row(0, named=True)
    assert (first["cause"], first["steps"], first["cost_per_step_ns"]) == ("unrecorded-host", [], None)
    assert first["message"].endswith("during that time, before the first step")
    assert first["cost_ns"] == pytest.approx(4_000_000, rel=0.01)


@pytest.mark.slow
def test_a_tpu_that_computes_nearly_all_the_time_has_no_cause() -> None:
    assert not [finding for finding in found("found/vllm_tpu") if finding.analysis == "causes"]


def test_a_collective_of_several_devices_holds_their_host_until_the_first_of_them_leaves(tmp_path: Path) -> None:
    """Half of this job's time was an exposed all-reduce, which was not told: threads of CPU devices leave late."""
    (cause,) = holotrace.open(capture("jax_cpu_multihost2x2", tmp_path)).causes().to_dicts()
    assert (cause["cause"], cause["ranks"], cause["responsible"]) == ("exposed-transfer", [], "allreduce")
    assert 0.4 < cause["share_ratio"] < 0.55
    # CPU devices have no flags of GPUs and TPUs.
    assert "jax_cpu_collectives" in cause["advice"]
    assert "xla_" not in cause["advice"]


def test_a_device_that_its_host_waits_for_is_named_with_the_operation_that_it_has_more_of(tmp_path: Path) -> None:
    """It was told as an exposed all-reduce of all; see data/jax/faults.py for what was planted."""
    found = holotrace.open(capture("jax_cpu_busy_device", tmp_path)).causes()
    first = found.row(0, named=True)
    assert (first["cause"], first["ranks"], first["responsible"]) == ("more-work", [0], "ynn_fusion")
    assert first["message"].startswith("Device 2 of rank 0 has more work than the others")
    # A step takes 61 ms, of which the other devices compute 9.
    assert first["cost_per_step_ns"] == pytest.approx(52e6, rel=0.05)
    assert found.height == 1


def test_devices_that_have_less_work_than_another_do_not_wait_for_their_host(tmp_path: Path) -> None:
    """Their host was said to feed them for 30 % of the time; see data/jax/faults.py for what was planted."""
    (row,) = holotrace.open(capture("jax_cpu_busy_device", tmp_path)).factors().to_dicts()
    assert row["host_ratio"] > 0.95
    assert row["balance_ratio"] == pytest.approx(0.31, abs=0.01)


def test_a_device_is_named_that_others_wait_for_in_groups_of_a_mesh(tmp_path: Path) -> None:
    """What was in groups by the axes of a mesh was taken for one of all, which nobody met in, so that nothing was said.

    Its peers wait for device 2 in their row, and the other row in their columns.
    """
    found = holotrace.open(capture("jax_cpu_busy_in_groups", tmp_path)).causes()
    first = found.row(0, named=True)
    assert (first["cause"], first["ranks"], first["responsible"]) == ("more-work", [0], "ynn_fusion")
    assert first["message"].startswith("Device 2 of rank 0 has more work than the others")
    # A step takes 80 ms, of which the other devices need 16.
    assert first["cost_per_step_ns"] == pytest.approx(64e6, rel=0.05)
    assert found.height == 1


@pytest.mark.parametrize("name", ["jax_cpu_busy_device", "jax_cpu_busy_host"])
def test_how_a_busy_device_looks_is_no_finding_beside_it(name: str, tmp_path: Path) -> None:
    """Waiting in a collective, and programs that start late for it, were told once more."""
    told = [one for one in holotrace.open(capture(name, tmp_path)).findings() if one.severity != "info"]
    most = max(one.cost_ns or 0 for one in told)
    assert [one.rule for one in told if (one.cost_ns or 0) > 0.05 * most] == ["more-work"]
    assert {"straggling-rank", "costly-collective"} <= set(told[0].explains)


def test_what_the_host_does_is_told_by_the_ranges_around_it_and_in_the_steps_in_which_it_does(tmp_path: Path) -> None:
    found = holotrace.open(capture("jax_cpu_host_code", tmp_path)).causes()
    told = {row["cause"]: row for row in found.iter_rows(named=True)}
    assert list(told) == ["logging", "checkpoint", "python-function", "compilation"]
    planted = {"logging": ("log_metrics", [2, 5, 8], 90e6), "checkpoint": ("save_checkpoint", [4], 90e6)}
    for cause, (responsible, steps, cost_ns) in planted.items():
        assert (told[cause]["responsible"], told[cause]["steps"]) == (responsible, steps)
        assert told[cause]["cost_ns"] == pytest.approx(cost_ns, rel=0.02)
    # The loop itself began before the recording did, so that only what it calls has a name.
    assert told["python-function"]["responsible"] == "code that calls $builtins sum"
    assert told["python-function"]["cost_ns"] == pytest.approx(9 * 8e6, rel=0.03)


def test_a_program_that_evaluates_is_no_work_of_the_steps_that_it_runs_in(tmp_path: Path) -> None:
    """Of a job whose fourth and eighth step took ten times as long as the others nothing was said."""
    job = holotrace.open(capture("jax_cpu_evaluation", tmp_path))
    ((cause, responsible, steps, cost_ns),) = job.causes().select("cause", "responsible", "steps", "cost_ns").rows()
    assert (cause, responsible, steps) == ("evaluation", "jit_evaluate", [3, 7])
    step_ns = job.host_steps()["step_ns"].to_list()
    usual_ns = sorted(step_ns)[len(step_ns) // 2]
    assert cost_ns == pytest.approx(step_ns[3] + step_ns[7] - 2 * usual_ns, rel=0.03)


def test_a_job_that_only_evaluates_loses_nothing_by_that(tmp_path: Path) -> None:
    """Training was said to stand still for 92 % of it."""
    (cause,) = holotrace.open(capture("jax_cpu_only_evaluates", tmp_path)).causes().to_dicts()
    assert (cause["cause"], cause["responsible"]) == ("python-function", "code that calls $time sleep")
    # See data/jax/faults.py: 12 batches, the last of which nothing comes after.
    assert cause["cost_ns"] == pytest.approx(10 * 6e6, rel=0.1)


@pytest.mark.parametrize(("other", "told"), [("jit_train", "evaluation"), ("jit_eval_step", None)])
def test_programs_that_evaluate_are_beside_the_steps_where_there_are_others(other: str, told: str | None) -> None:
    drawn = trace(f"""
        step |11112222|
        tpu  |.AA..BB.|
        call |a...b...|
        A = dot.1 in jit_eval_step(1)
        B = dot.1 in {other}(2)
    """)
    rank = replace(drawn, tables={**drawn.tables, CALLS.name: CALLS.empty()})
    assert beside_the_step(rank, rank[MODULES])["cause"].to_list() == [told, None]


def test_threads_that_are_woken_for_brief_programs_are_a_part_of_launching_these(tmp_path: Path) -> None:
    """Half of what many small programs cost was told as programs that began late."""
    found = holotrace.open(capture("jax_cpu_eager", tmp_path)).causes()
    first = found.row(0, named=True)
    assert first["cause"] == "launch-bound"
    assert first["share_ratio"] > 0.2
    assert {"queued", "unrecorded-host", "upload"}.isdisjoint(found["cause"])


def test_what_a_library_calls_to_send_data_does_not_name_what_the_program_does_beside_that() -> None:
    """Arrays that were filled between two transfers were said to be `_shard_np_array`'s."""
    job = draw(f"""
        step |{"1" * 6000}|
        tpu  |{"A" * 500}{"." * 5000}{"B" * 500}|
        call |a{"F" * 5498}b{"." * 500}|
        deep |{"." * 500}{"U" * 1800}{"." * 1500}{"U" * 1500}{"." * 700}|
        deep |{"." * 500}{"S" * 1800}{"." * 1500}{"S" * 1500}{"." * 700}|
        F = $train.py:7 step
        U = $api.py:2332 device_put
        S = $pxla.py:178 _shard_np_array
    """)
    told = {row["cause"]: row for row in job.causes().iter_rows(named=True)}
    assert told["python-function"]["responsible"] == "$train.py:7 step"
    assert told["upload"]["cost_ns"] == pytest.approx(3.3e6, rel=0.01)


def test_all_of_a_checkpoint_is_one_though_parts_of_it_tell_more() -> None:
    """What a checkpoint did besides its longest part was told as what threads in Python do."""
    job = draw(f"""
        step  |{"1" * 7000}|
        tpu   |{"A" * 1000}{"." * 5000}{"B" * 1000}|
        call  |a{"." * 5998}b{"." * 1000}|
        call  |{"." * 1000}{"S" * 4900}{"." * 1100}|
        call  |{"." * 1000}{"W" * 3000}{"." * 3000}|
        write |{"." * 1000}{"T" * 4900}{"." * 1100}|
        S = $checkpoint_manager.py:1200 save_checkpoint
        W = $checkpoint_handler.py:745 save_checkpoint_async
        T = $threading.py:1056 _bootstrap_inner
    """)
    (cause,) = job.causes().to_dicts()
    assert (cause["cause"], cause["responsible"]) == ("checkpoint", "$checkpoint_handler.py:745 save_checkpoint_async")
    assert cause["cost_ns"] == pytest.approx(4.9e6, rel=0.03)


def test_code_around_what_has_a_name_is_told_by_what_else_it_does() -> None:
    """The function that holds the whole step was told beside the collection of garbage in it."""
    drawn = trace(f"""
        step |{"1" * 4000}{"2" * 4000}|
        tpu  |{"A" * 1000}{"." * 3000}B{"A" * 999}{"." * 3000}B|
        call |{"F" * 3999}b{"F" * 3999}b|
        deep |.{"G" * 2700}..{"P" * 1290}......{"G" * 2700}..{"P" * 1290}.|
        F = $trainer.py:97 step
        G = $memory.py:12 collect_garbage
        P = $trainer.py:211 prepare_step
    """)
    rank = replace(drawn, tables={**{table.name: table.empty() for table in (CALLS, HLO)}, **drawn.tables})
    spent = xla_hosts.rows(rank, "late").filter(row="spent")
    told = set(spent.filter(pl.col("time_ns") > 100_000)["name"])
    assert told == {"$memory.py:12 collect_garbage", "$trainer.py:211 prepare_step"}


def test_two_things_that_a_host_does_in_one_gap_are_each_told_by_their_names() -> None:
    """Of two the shorter one was told as the code around both."""
    job = draw(f"""
        step |{"1" * 7000}|
        tpu  |{"A" * 1000}{"." * 5000}{"B" * 1000}|
        call |a{"F" * 5998}b{"." * 1000}|
        deep |{"." * 1000}{"L" * 1900}{"." * 100}{"C" * 2900}{"." * 1100}|
        F = $train.py:20 step
        L = $train.py:7 log_metrics
        C = $hooks.py:9 run_gc
    """)
    told = {row["cause"]: row["evidence"] for row in job.causes().iter_rows(named=True)}
    assert json.loads(told["logging"])["time_ns"] == 1_900_000
    assert json.loads(told["garbage-collection"])["time_ns"] == 2_900_000


def test_what_keeps_a_program_waiting_is_of_the_step_that_launched_it_though_its_range_has_ended() -> None:
    """What a host did before the second of two steps was told of the first of them only."""
    gap = "." * 3000
    job = draw(f"""
        step |{"1" * 500}{gap}{"2" * 500}{gap}{"3" * 500}{"." * 500}|
        tpu  |{"A" * 500}{gap}{"." * 300}{"B" * 500}{"." * 200}{gap}{"." * 500}{"C" * 500}|
        call |a{"." * 499}{gap}b{"." * 499}{gap}c{"." * 499}{"." * 500}|
    """)
    (cause,) = job.causes().filter(cause="unrecorded-host").to_dicts()
    assert cause["steps"] == [2, 3]


def test_a_host_all_of_whose_devices_have_more_work_is_told_as_one(tmp_path: Path) -> None:
    found = holotrace.open(capture("jax_cpu_busy_host", tmp_path)).causes()
    first = found.row(0, named=True)
    assert (first["cause"], first["ranks"], first["responsible"]) == ("more-work", [1], "ynn_fusion")
    assert first["message"].startswith("Rank 1 has more work than the others")
    assert found.filter(found["cause"].is_in(["more-work", "slow-device", "uneven-work"])).height == 1


@pytest.mark.parametrize(("later_ns", "told"), [(-(10**15), "earlier-work"), (10**15, "unrecorded-host")])
def test_no_cause_is_worth_more_than_the_job_where_programs_ran_at_quite_another_time(later_ns: int, told: str) -> None:
    """What devices wait for before the first program had been launched earlier, and costs nothing."""
    rank = trace("step |11112222|\ntpu |.AA..BB.|\ncall |a...b...|")
    shifted = rank.tables["modules"].with_columns(pl.col("start_ns", "end_ns") + later_ns)
    (cause,) = Job.from_ranks({0: replace(rank, tables={**rank.tables, "modules": shifted})}).causes().to_dicts()
    assert cause["cause"] == told
    assert cause["cost_ns"] == 0 if told == "earlier-work" else 0 < cause["share_ratio"] <= 1


def communicating(rank: int, devices: int) -> RankTrace:
    """A rank all of whose devices reduce for 0.8 ms of each millisecond, in a group of four devices."""
    events: list[dict[str, object]] = []
    known: list[dict[str, object]] = []
    for step in range(6):
        begun_ns = step * 1_000_000
        spans = [(COMPUTE, begun_ns, begun_ns + 100_000), (COMMUNICATION, begun_ns + 100_000, begun_ns + 900_000)]
        for device in range(devices):
            for kind, start_ns, end_ns in spans:
                place = {"event_id": len(events), "device": device, "stream": 0, "start_ns": start_ns, "end_ns": end_ns}
                events.append(place | {"name": kind, "kind": kind, "step": step, "launch_ns": start_ns})
            known.append({"event_id": events[-1]["event_id"], "sequence": step})
    of_group = {"collective": "allreduce", "group": "jit_f/all-reduce.1", "group_ranks": "[[0,1,2,3]]", "group_size": 4}
    steps: list[dict[str, object]] = [
        {"step": n, "event_id": 0, "start_ns": n * 1_000_000, "end_ns": (n + 1) * 1_000_000} for n in range(6)
    ]
    ops = [event | {"plane": "/host:CPU", "line": "python", "category": event["kind"]} for event in events]
    tables = {
        "device_events": frame(DEVICE_EVENTS, events),
        "collectives": frame(COLLECTIVES, [of_group | row for row in known]),
        "steps": frame(STEPS, steps),
        "xla_ops": frame(XLA_OPS, ops),
    }
    return RankTrace(rank, tables)


def test_devices_of_one_host_are_no_ranks_that_are_missing() -> None:
    """Two hosts of two devices each were said to wait for two ranks that were not recorded."""
    job = Job.from_ranks({rank: communicating(rank, devices=2) for rank in range(2)})
    told = [cause for cause in job.causes()["message"] if "allreduce" in cause]
    assert told == ["Communication in allreduce is exposed: no rank computes during it"]
    alone = Job.from_ranks({0: communicating(0, devices=2)}).causes()["message"].to_list()
    assert any("ranks that were not recorded in these steps" in cause for cause in alone)


def late(rank: int, *, late_us: int) -> RankTrace:
    """One of two hosts of two devices that reduce together, whose host reads its batch for so long in each step.

    The devices of a host are told of the end of a reduction one 200 µs after the other, and no earlier than they come.
    """
    events: list[dict[str, object]] = []
    calls: list[dict[str, object]] = []
    for step in range(6):
        begun = step * 3_000
        come = begun + late_us
        calls.append({"event_id": 1_000 + step, "name": "train", "start_ns": begun, "end_ns": begun + 2_900})
        calls.append({"event_id": 2_000 + step, "name": "$train.py:9 load_batch", "start_ns": begun, "end_ns": come})
        for device in range(2):
            begins = come + 100 + 300 * (1 - device)
            met = max(begins, begun + 2_100)
            for kind, start, end in ((COMPUTE, come, begins), (COMMUNICATION, begins, met + 300 + 200 * (1 - device))):
                place = {"event_id": len(events), "device": device, "stream": 0, "start_ns": start, "end_ns": end}
                events.append(place | {"name": kind, "kind": kind, "step": step, "launch_ns": come, "sequence": step})
    for row in (*events, *calls):
        row |= {name: row[name] * 1_000 for name in ("start_ns", "end_ns", "launch_ns") if name in row}  # type: ignore[operator]  # times
    of_group = {"collective": "allreduce", "group": "f/all-reduce.1", "group_ranks": "[[0,1,2,3]]", "group_size": 4}
    of_thread: dict[str, object] = {"tid": "python", "pid": "1"}
    steps = [
        {"step": n, **{key: call[key] for key in ("event_id", "start_ns", "end_ns")}}
        for n, call in enumerate(calls[::2])
    ]
    tables = {
        "device_events": frame(DEVICE_EVENTS, events),
        "collectives": frame(COLLECTIVES, [of_group | row for row in events if row["kind"] == COMMUNICATION]),
        "steps": frame(STEPS, steps),
        "host_calls": frame(HOST_CALLS, [of_thread | call for call in calls]),
        "xla_ops": frame(
            XLA_OPS, [e | {"plane": "/host:CPU", "line": "python", "category": e["kind"]} for e in events]
        ),
    }
    return RankTrace(rank, tables)


def test_a_late_host_costs_what_others_wait_for_it_though_its_devices_leave_at_different_times() -> None:
    """Of 1.9 ms a step 0.5 were told: the late host was taken to have waited before its own pause had ended."""
    job = Job.from_ranks({0: late(0, late_us=100), 1: late(1, late_us=2_000)})
    first = job.causes().row(0, named=True)
    assert (first["cause"], first["ranks"]) == ("input", [1])
    assert first["cost_per_step_ns"] == pytest.approx(1_900_000, rel=0.15)


def test_code_that_saves_and_waits_in_each_step_is_told_however_little_it_does_itself() -> None:
    """A checkpoint in each step kept hosts from being ahead, 9 of 21 ms: what followed was told, and not that."""
    job = draw(f"""
        step |{"1" * 10_000}{"2" * 10_000}{"3" * 10_000}{"4" * 10_000}|
        tpu  |{f"{'A' * 8_000}{'.' * 2_000}" * 4}|
        call |a{"K" * 8_060}{f"{'F' * 1_900}{'.' * 39}a{'K' * 8_060}" * 3}{"." * 1_939}|
        deep |.{f"{'R' * 8_020}{'.' * 1_980}" * 3}{"." * 9_999}|
        K = $ckpt.py:7 save_checkpoint
        F = $train.py:5 prepare
        R = np.asarray(jax.Array)
    """)
    found = {row["cause"]: row["cost_ns"] for row in job.causes().to_dicts()}
    assert found["checkpoint"] > 5_000_000


def test_a_pause_after_a_wait_is_one_where_what_the_program_calls_is_recorded() -> None:
    """It was told as code of the program, which has no name by default: as a part of the wait for the loss."""
    job = draw(f"""
        step |{"1" * 6000}{"2" * 6000}{"3" * 6000}{"4" * 3000}|
        tpu  |{f"{'A' * 3000}{'.' * 3000}" * 3}{"A" * 3000}|
        call |a{"R" * 3010}{f"{'F' * 200}{'.' * 2789}a{'R' * 3010}" * 2}{"F" * 200}{"." * 2789}a{"R" * 2999}|
        F = $train.py:5 prepare
        R = np.asarray(jax.Array)
    """)
    found = {row["cause"]: row["cost_ns"] for row in job.causes().to_dicts()}
    assert found["unrecorded-host"] == pytest.approx(8_367_000, rel=0.1)
    assert "synchronization" in found
