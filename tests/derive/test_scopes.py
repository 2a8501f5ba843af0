"""Scopes and phases of operations, by their names."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.derive import scopes


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("jit(train_step)/jvp(forward)/block0/attention/dot_general", "train_step/forward/block0/attention"),
        ("jit(train_step)/transpose(jvp(forward))/block1/mlp/mul", "train_step/forward/block1/mlp"),
        ("Training_Step.1/forward.2/attention.1/aten__add.1/aten__add", "Training_Step/forward/attention"),
        # A TPU adds the operator, and older JAX a function between.
        ("jit(f)/jit(main)/while/body/dot_general:", "f/while/body"),
        # Several collectives were combined to one.
        ("jit(f)/(transpose(jvp(loss))/mul:transpose(jvp(head))/dot)", "f/loss"),
        ("jit(f)/jvp()/mul", "f"),
        ("aten__add.21/aten__add", None),
        ("aten__mm", None),
        ("", None),
    ],
)
def test_the_path_of_an_operation_is_what_its_author_wrote(written: str, path: str | None) -> None:
    assert scopes.paths(pl.Series([written])).to_list() == [path]


@pytest.mark.parametrize(
    ("written", "phase"),
    [
        ("jit(step)/jvp(forward)/dot_general", "forward"),
        ("jit(step)/transpose(jvp(forward))/dot_general", "backward"),
        ("jit(step)/update/mul", "update"),
        ("Training_Step.1/FINISH_UPDATE.4/aten__lerp.7/aten__lerp", "update"),
        ("Training_Step.1/forward.2/mlp.2/aten__gelu", "forward"),
        # The innermost scope that is called after a phase decides.
        ("step/forward/optimizer/mul", "update"),
        # An operation is no scope.
        ("jit(step)/head/transpose", "other"),
        ("jit(step)/updated_mask/mul", "other"),
        (None, "other"),
    ],
)
def test_the_phase_of_an_operation_is_told_by_its_scopes(written: str | None, phase: str) -> None:
    assert phases([("jit_step", written)]) == [phase]


def phases(operations: list[tuple[str, str | None]]) -> list[str]:
    frame = pl.DataFrame(operations, schema={"module": pl.String(), "scope": pl.String()}, orient="row")
    return scopes.phases(frame).to_list()


def test_what_autograd_added_to_a_graph_with_scopes_is_backward() -> None:
    graph = "SyncTensorsGraph.12"
    assert phases([(graph, "Step.1/forward.1/aten__mm"), (graph, "aten__mm"), (graph, None)]) == [
        "forward",
        "backward",
        "other",
    ]


def test_in_a_graph_without_any_scope_nothing_tells_a_phase() -> None:
    with_scopes, without = "SyncTensorsGraph.1", "SyncTensorsGraph.2"
    assert phases([(with_scopes, "forward.1/aten__mm"), (without, "aten__mm"), ("jit_f", "mul")]) == [
        "forward",
        "other",
        "other",
    ]


def test_a_range_may_be_called_after_a_phase() -> None:
    names = pl.Series(["forward", "FINISH_UPDATE", "backward_pass", "data_loading", "inward"])
    assert scopes.phase_of_range(names).to_list() == ["forward", "update", "backward", None, None]
