"""The tree of scopes and its times."""

from __future__ import annotations

from drawing import draw
from holotrace.present.wording import sentence


def test_a_scope_has_its_own_time_and_that_of_the_scopes_inside_it() -> None:
    table = draw("""
        tpu |AABCCCD|
        A = dot.1 @ jit(f)/jvp(head)/dot
        B = dot.2 @ jit(f)/transpose(jvp(head))/norm/mul
        C = dot.3 @ jit(f)/body/add
        D = copy.1
    """).scopes()
    assert table.select("scope", "depth", "op_count", "self_ns", "total_ns", "backward_ns").rows() == [
        ("f", 0, 3, 0, 6_000, 1_000),
        ("f/body", 1, 1, 3_000, 3_000, 0),
        ("f/head", 1, 2, 2_000, 3_000, 1_000),
        ("f/head/norm", 2, 1, 1_000, 1_000, 1_000),
        (None, 0, 1, 1_000, 1_000, 0),
    ]


def test_waiting_counts_by_itself() -> None:
    table = draw("tpu |AABBBB|\nA = dot @ f/dot\nB = copy-done.1").scopes()
    assert table.select("scope", "total_ns", "wait_ns").rows() == [("f", 2_000, 0), (None, 0, 4_000)]


def test_work_without_scopes_is_a_finding_that_says_how_to_get_them() -> None:
    bare, scoped = draw("tpu |AABBBB|\nA = dot @ f/dot\nB = add"), draw("tpu |AAAABB|\nA = dot @ f/dot\nB = add")
    messages = [sentence(finding) for finding in bare.findings() if finding.rule == "unscoped-work"]
    assert messages == ["67% of the device time is in no scope"]
    assert "unscoped-work" not in {finding.rule for finding in scoped.findings()}
