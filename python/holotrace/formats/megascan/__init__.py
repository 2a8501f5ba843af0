"""Schedules of pipelines as MegaScan, the tracer of MegatronApp, writes them: all ranks in one file."""

from __future__ import annotations

from holotrace.formats.declaration import Format
from holotrace.formats.megascan import read
from holotrace.formats.megascan.heads import is_schedule, refusal

MEGASCAN = Format(
    name="megascan",
    title="a schedule of MegaScan",
    suffixes=(".json",),
    sniff=is_schedule,
    refuse=refusal,
    ranks_in=read.ranks_in,
    read=read.read,
    tables=read.TABLES,
    why_not_copied="holds several ranks and can be looked at as it is: open it in Perfetto",
)
