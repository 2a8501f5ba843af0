"""The rows of a timeline: what each is about, and its columns."""

from __future__ import annotations

from holotrace.core.schema import Column, Unit
from holotrace.derive import collectives

RANK, BIN, STEP, WINDOW, EVENT, MEETING = "rank", "bin", "step", "window", "event", "meeting"
COLUMNS = (
    Column("row", Unit.TEXT, "What the row is about: rank, bin, step, window, event, meeting"),
    Column("lane", Unit.TEXT, "step, host, compute, communication, copy or idle; null of ranks and windows"),
    Column("name", Unit.TEXT, "What took most of the time, the event, the step or the collective"),
    Column("start_ns", Unit.NS, "When it began, since the job began; of a meeting when the rank came"),
    Column("end_ns", Unit.NS, "When it ended, exclusive; of a meeting when the rank left"),
    Column(
        "busy_ns",
        Unit.NS,
        "Of a bin: how long anything was active; of a meeting: how long the rank waited; of a rank: a piece",
    ),
    Column(
        "count",
        Unit.COUNT,
        "Of a bin: how many spans begin in it; of a window: how many events it has; of an event: its window's number",
    ),
    Column("track", Unit.NUMBER, "Of an event: its stream, or how deep it is on the stack; of a window its number"),
    Column("match", Unit.NUMBER, "Of a meeting: the same on all its ranks"),
    Column("clock_offset_ns", Unit.NS, "Of a rank: how far its clock is ahead; 0 where nothing tells"),
    Column("begun_ns", Unit.NS, "Of a rank: when the job began, since 1970 if files say so, by the median clock"),
    Column("uncertain_ns", Unit.NS, "How far times of the rank may be off against others; null where nothing tells"),
)
# Of a rank, on its own clock, with all its collectives in place of those that are shown.
_OWN = tuple(
    column for column in COLUMNS if column.name not in ("match", "clock_offset_ns", "begun_ns", "uncertain_ns")
)
_NAMED = {column.name for column in _OWN}
OF_RANK = (*_OWN, *(column for column in collectives.CALLS if column.name not in _NAMED))
