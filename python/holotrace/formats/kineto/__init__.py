"""Trace-event JSON, as PyTorch's profiler (Kineto) exports it."""

from __future__ import annotations

from holotrace.formats.declaration import Format
from holotrace.formats.kineto import read
from holotrace.formats.kineto.ends import distributed_info, is_trace, refusal

KINETO = Format(
    name="kineto",
    title="a trace in JSON",
    suffixes=(".json",),
    sniff=is_trace,
    rank_of=distributed_info,
    refuse=refusal,
    read=lambda source, tables: read.read(source.path, tables),
    read_closely=lambda source, tables: read.read(source.path, tables, read.EVERYTHING),
    scan=lambda source, tables: read.scan(source.path, tables),
    tables=read.TABLES,
    takes_unknown=True,
    can_be_copied=True,
)
