"""Critical path graphs as files: JSON and CSV, so that reading one runs nothing that is in it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import astuple
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hta.analyzers.critical_path_types import CPEdge, CPEdgeType, CPNode

if TYPE_CHECKING:
    from hta.analyzers.critical_path_graph import CPGraph

ROWS, GRAPH, PATH = "trace_data.csv", "cp_graph.json", "cp_data.json"
# Larger than the graph of any step; a zip file may unpack to a thousand times its size.
_MAX_BYTES = 1 << 32


def save(graph: CPGraph, out_dir: str) -> str:
    """Write ``graph`` into a folder, and that as a zip file, whose path is returned."""
    folder = Path(out_dir).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    graph.trace_df.to_csv(folder / ROWS, index=False)
    edges = [
        [begin, end, attributes["object"].type.value, attributes["object"].weight, attributes["weight"]]
        for begin, end, attributes in graph.edges(data=True)
    ]
    owners = [[*pair, event] for pair, event in graph.edge_to_event_map.items()]
    nodes = [list(astuple(node)) for node in graph.node_list]
    (folder / GRAPH).write_text(json.dumps({"nodes": nodes, "connected": list(graph), "edges": edges}))
    path = {"critical_path_nodes": graph.critical_path_nodes, "edge_to_event": owners}
    (folder / PATH).write_text(json.dumps(path | {"data_load_events": graph.data_load_events}))
    archive = folder.with_name(f"{folder.name}.zip")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in (ROWS, GRAPH, PATH):
            packed.write(folder / name, name)
    return str(archive)


def load(zip_filename: str) -> tuple[dict[str, Any], dict[str, Any], list[int]]:
    """The graph, the path through it, and the indices of its rows, as ``save`` wrote them; nothing is unpacked."""
    with zipfile.ZipFile(zip_filename) as packed:
        for name in (ROWS, GRAPH, PATH):
            if name not in packed.namelist():
                raise ValueError(f"{zip_filename} holds no {name}; give a file that CPGraph.save of this package wrote")
        if sum(entry.file_size for entry in packed.infolist()) > _MAX_BYTES:
            raise ValueError(f"{zip_filename} is too large for the graph of a step; give another file")
        with packed.open(ROWS) as rows:
            index = list(_indices(TextIOWrapper(rows, encoding="utf-8", newline="")))
        return json.loads(packed.read(GRAPH)), json.loads(packed.read(PATH)), index


def _indices(rows: TextIOWrapper) -> Iterator[int]:
    """The first column of a CSV file, that of the events' indices."""
    import csv  # noqa: PLC0415  # for restored graphs only

    for row in csv.DictReader(rows):
        yield int(row["index"])


def restore(graph: CPGraph, saved: dict[str, Any], path: dict[str, Any]) -> None:
    """Put what was loaded into an empty graph."""
    graph.node_list = [CPNode(*node) for node in saved["nodes"]]
    graph.add_nodes_from(saved["connected"])
    for begin, end, kind, weight, current in saved["edges"]:
        graph.add_edge(begin, end, weight=current, object=CPEdge(begin, end, CPEdgeType(kind), weight))
    graph.edge_to_event_map = {(begin, end): event for begin, end, event in path["edge_to_event"]}
