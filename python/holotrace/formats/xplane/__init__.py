"""XPlane profiles of PyTorch/XLA, JAX and TPU."""

from __future__ import annotations

from holotrace.formats.declaration import Format
from holotrace.formats.xplane import read
from holotrace.formats.xplane.runs import NAME, PROFILE, expanded, is_profile, named_run, refusal

XPLANE = Format(
    name=NAME,
    title="a profile of XLA",
    suffixes=(PROFILE,),
    sniff=is_profile,
    refuse=refusal,
    read=lambda source, tables: read.read(source.path, tables),
    tables=read.TABLES,
    launches_programs=True,
    has_lines=True,
    why_not_copied="is a profile of XLA, which has no trace events to copy; holotrace timeline makes a trace of it",
    expand=expanded,
    resolve=named_run,
)
