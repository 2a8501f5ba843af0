"""What is compiled, when and why."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from drawing import draw, trace
from holotrace.analyses.compilations import compilations
from holotrace.core.tables import HLO
from holotrace.job import Job
from holotrace.present.wording import sentence
from xla_drawing import frame

AGAIN = """
    step |11112222222222|
    tpu  |.AA.........BB|
    call |a...LLLLLLLLb.|
    deep |.....WW.CCC...|
    A = fusion in jit_f(1)
    B = fusion in jit_f(2)
    L = PjitFunction(f)
    W = lower_sharding_computation
    C = backend_compile
"""


def with_inputs(drawing: str, **shapes: list[str]) -> Job:
    """A job whose programs p1, p2, … of jit_f have inputs of these shapes."""
    rank = trace(drawing)
    rows: list[dict[str, object]] = [
        {"module": "jit_f", "program": int(program[1:]), "name": f"arg{number}", "opcode": "parameter"}
        | {"computation": "main", "shape": shape}
        for program, of_program in shapes.items()
        for number, shape in enumerate(of_program)
    ]
    return Job.from_ranks({0: replace(rank, tables={**rank.tables, "hlo": frame(HLO, rows)})})


def test_lowering_and_compiling_of_one_call_are_one_compilation() -> None:
    table = draw(AGAIN).compilations()
    assert table.select("step", "module", "program", "start_ns", "compile_ns").rows() == [(2, "jit_f", 2, 5_000, 5_000)]


def test_a_program_for_other_shapes_says_which_changed() -> None:
    job = with_inputs(AGAIN, p1=["f32[8]", "s32[4,64]"], p2=["f32[8]", "s32[4,96]"])
    assert job.compilations().select("cause", "change").row(0) == ("new_shapes", "s32[4,64] became s32[4,96]")
    found = next(finding for finding in compilations.findings(job.compilations()) if finding.rule == "recompilation")
    assert (
        sentence(found) == "jit_f was compiled again in step 2, which took 5.00 µs, because s32[4,64] became s32[4,96]"
    )
    assert found.cost_ns == 5_000


def test_inputs_that_change_alike_are_said_once_and_many_are_cut() -> None:
    before, after = (["f32[8]", "f32[8]"] + [f"s32[{n},{m}]" for m in range(4)] for n in (1, 2))
    change = with_inputs(AGAIN, p1=before, p2=[*["f32[9]"] * 2, *after[2:]]).compilations()["change"].item()
    assert change == "f32[8] became f32[9], s32[1,0] became s32[2,0], s32[1,1] became s32[2,1], …"


def test_a_program_for_the_same_shapes_is_new_for_another_reason() -> None:
    job = with_inputs(AGAIN, p1=["f32[8]"], p2=["f32[8]"])
    assert job.compilations()["cause"].to_list() == ["new_program"]


def test_another_function_of_the_same_name_is_used_for_the_first_time() -> None:
    lines: dict[str, tuple[list[str], list[str]]] = {
        "first_use": (["train.py:3", "train.py:4"], ["train.py:9"]),
        "new_program": (["train.py:3", "train.py:4"], ["train.py:4", "train.py:5"]),
    }
    for cause, of_programs in lines.items():
        job = with_inputs(AGAIN, p1=["f32[8]"], p2=["f32[8]"])
        rows = [
            {"module": "jit_f", "program": number, "name": line, "opcode": "add", "computation": "main", "source": line}
            for number, of_program in enumerate(of_programs, start=1)
            for line in of_program
        ]
        table = pl.concat([job.table("hlo").drop("rank"), frame(HLO, rows)])
        rank = trace(AGAIN)
        told = Job.from_ranks({0: replace(rank, tables={**rank.tables, "hlo": table})}).compilations()
        assert told["cause"].to_list() == [cause]


def test_a_program_that_nobody_knew_is_used_for_the_first_time() -> None:
    job = draw("tpu |....AA|\ncall |CCCa..|\nA = fusion in jit_f(1)\nC = backend_compile\nL = PjitFunction(f)")
    assert job.compilations().select("module", "program", "cause").row(0) == (None, None, None)
    called = draw("tpu |...A|\ncall |LLLa|\ndeep |CCC.|\nA = x in jit_f(1)\nC = backend_compile\nL = PjitFunction(f)")
    assert called.compilations().select("module", "program", "cause").row(0) == ("jit_f", 1, "first_use")
    found = next(finding for finding in called.findings() if finding.rule == "compilation-while-training")
    assert sentence(found) == "jit_f was compiled, which took 3.00 µs"


def test_two_calls_that_compile_are_two_compilations() -> None:
    job = draw("call |LL.MM|\ndeep |CC.CC|\nL = PjitFunction(f)\nM = PjitFunction(g)\nC = backend_compile")
    assert job.compilations()["module"].to_list() == ["jit_f", "jit_g"]


def test_lowering_that_leads_to_no_compilation_is_none() -> None:
    assert draw("call |LLL|\ndeep |WW.|\nL = PjitFunction(f)\nW = lower_sharding_computation").compilations().is_empty()


def test_shapes_that_keep_changing_are_a_finding() -> None:
    drawing = """
        tpu  |A.....B.....C.....D|
        call |..LLLb..MMMc..NNNd.|
        deep |..KKK...KKK...KKK..|
        A = x in jit_f(1)
        B = x in jit_f(2)
        C = x in jit_f(3)
        D = x in jit_f(4)
        K = backend_compile
        L = PjitFunction(f)
        M = PjitFunction(f)
        N = PjitFunction(f)
    """
    job = with_inputs(drawing, p1=["s32[1]"], p2=["s32[2]"], p3=["s32[3]"], p4=["s32[4]"])
    messages = [sentence(finding) for finding in job.findings() if finding.rule == "dynamic-shapes"]
    assert messages == ["jit_f was compiled for 3 other shapes"]


def test_a_program_that_begins_while_the_next_is_compiled_is_not_the_next() -> None:
    """The host launches a program and compiles for the next batch before that began: this one's shape was not told."""
    drawing = """
        tpu  |A....BBBBBBBBBBBBC|
        call |.LLLb.MMMMMMMMMMc.|
        deep |.KKK..KKKKKKKKKK..|
        A = x in jit_f(1)
        B = x in jit_f(2)
        C = x in jit_f(3)
        K = backend_compile
        L = PjitFunction(f)
        M = PjitFunction(f)
    """
    late = drawing.replace("A....BBBBBBBBBBBBC", "A.......BBBBBBBBBC")
    for each in (drawing, late):
        table = with_inputs(each, p1=["s32[1]"], p2=["s32[2]"], p3=["s32[3]"]).compilations()
        assert table["change"].to_list() == ["s32[1] became s32[2]", "s32[2] became s32[3]"]


def test_a_program_that_the_cache_held_is_not_said_to_be_compiled() -> None:
    """What JAX traced, lowered and read from disk was counted as compiled, with the advice to use the cache."""
    job = draw("""
        step |11112222222222|
        tpu  |A...........AA|
        call |a...LLLLLLLLa.|
        deep |.....TTT.RRR..|
        deep |..........X...|
        A = fusion in jit_f(1)
        L = PjitFunction(f)
        T = lower_sharding_computation
        R = $compiler.py:387 compile_or_get_cached
        X = JitCompiler::Compile
    """)
    assert job.compilations().select("module", "compile_ns", "is_cached").rows() == [("jit_f", 6_000, True)]
    (found,) = compilations.findings(job.compilations())
    assert (found.rule, sentence(found)) == (
        "programs-read-from-the-cache",
        "jit_f was traced, lowered and read from the compilation cache in step 2, which took 6.00 µs",
    )


def test_a_program_that_the_cache_did_not_hold_is_compiled() -> None:
    job = draw("""
        tpu  |.............A|
        call |....LLLLLLLLa.|
        deep |.....TTTRRRR..|
        deep |..........CC..|
        A = fusion in jit_f(1)
        L = PjitFunction(f)
        T = lower_sharding_computation
        R = $compiler.py:387 compile_or_get_cached
        C = backend_compile_and_load
    """)
    assert job.compilations().select("compile_ns", "is_cached").rows() == [(7_000, False)]


def test_a_program_that_is_compiled_for_several_shapes_says_which_came_after_which() -> None:
    """Only one of the changes was told, which was not that of the other steps."""
    table = pl.DataFrame(
        {
            "rank": [0] * 3,
            "step": [1, 2, 3],
            "module": ["jit_f"] * 3,
            "program": [2, 3, 4],
            "cause": ["new_shapes"] * 3,
            "change": ["f32[4] became f32[8]", "f32[8] became f32[6]", "f32[6] became f32[2]"],
            "caller": [None] * 3,
            "compile_ns": [1_000] * 3,
            "is_cached": [False] * 3,
            "start_ns": [0, 1_000, 2_000],
        },
        schema_overrides={"rank": pl.Int32, "program": pl.UInt64, "caller": pl.String},
    )
    told = {count: next(iter(compilations.findings(table.head(count)))) for count in (1, 2, 3)}
    because = {count: sentence(found).partition(", because ")[2] for count, found in told.items()}
    assert because[1] == "f32[4] became f32[8]"
    assert because[2] == "f32[4] became f32[8], then f32[8] became f32[6]"
    assert because[3] == f"{because[2]}, then others"
