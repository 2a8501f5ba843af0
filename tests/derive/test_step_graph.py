"""What waited for what in a step: nodes, edges and the longest path."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holotrace.derive.step_graph import DEVICE_SCHEMA, HOST_SCHEMA, GraphRules, StepGraph, build

Rows = Sequence[tuple[object, ...]]
HOST: Rows = [
    (0, "op", "op", "1", "1", 0, 10, None),
    (1, "cudaLaunchKernel", "call", "1", "1", 2, 4, 7),
]
DEVICE: Rows = [(2, 0, 7, 6, 20, 1, None, None, None, True)]


def graph(host: Rows, device: Rows, **options: object) -> StepGraph:
    frames = (
        pl.DataFrame(rows, schema=schema, orient="row")
        for rows, schema in ((host, HOST_SCHEMA), (device, DEVICE_SCHEMA))
    )
    return build(*frames, **options)  # type: ignore[arg-type]  # whatever a test gives


def path(found: StepGraph) -> list[tuple[str, int]]:
    return found.edges[found.longest_path()].select("kind", "weight_ns").rows()


def test_a_kernel_waits_for_its_launch() -> None:
    assert path(graph(HOST, DEVICE)) == [("operator", 2), ("launch_delay", 4), ("operator", 14)]


def test_edges_may_weigh_something_else() -> None:
    found = graph(HOST, DEVICE)
    shorter = found.edges.select(pl.when(pl.col("event_id") == 2).then(1).otherwise("weight_ns"))["literal"]
    assert sum(found.edges["weight_ns"].gather(found.longest_path(shorter)).to_list()) <= 20


def test_only_what_began_within_the_window_counts() -> None:
    assert graph(HOST, DEVICE, window_ns=(30, 40)).edges.is_empty()


def test_calls_of_every_vendor_wait() -> None:
    rules = GraphRules()
    assert {"cudaStreamSynchronize", "hipStreamSynchronize", "zeEventHostSynchronize"} <= rules.waiting
    assert {"cudaEventRecord", "hipEventRecord"} <= rules.recording


def test_nothing_has_no_path() -> None:
    found = graph([], [])
    assert found.nodes.is_empty() and found.longest_path().is_empty()
