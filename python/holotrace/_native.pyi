"""The Rust core: read by holotrace.parse and holotrace.derive only."""

from collections.abc import Sequence
from typing import Protocol

from holotrace.stores import Stream

class ArrowTable:
    """Columns in Arrow memory; ``polars.DataFrame(table)`` takes them over without a copy."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Trace:
    """One trace file's columns, compact, as far as they were asked for."""

    @property
    def metadata(self) -> list[tuple[str, str]]:
        """Every top-level key but traceEvents, with its value as JSON text."""
    @property
    def counts(self) -> dict[str, int]:
        """Entries by what became of them.

        ``entries`` is the sum of complete, begins, ends, instants, counters, flows, labels and reported (those that the
        problems lost). ``skipped`` counts those of them that no table asked for holds. Also text_bytes, file_bytes.
        """
    def table(self, name: str, columns: Sequence[str]) -> ArrowTable:
        """A table of holotrace.tables, e.g. ``trace.table("device_events", ["event_id", "start_ns", "stream"])``.

        A column that is read from an event's args is asked for, and comes back, under its KEY in args
        (``"External id"``, not ``"external"``): the caller renames. Columns made by ``derive`` (kind, step) are not
        known here. Text columns come as dictionaries (Categorical), events in file order.
        ``problems`` has the columns problem, count, first_offset, example, action.
        ``steps`` has step, event_id, start_ns, end_ns (host ProfilerStep#N only, first of each number, by start).
        """

def read_trace_event(
    source: str | Stream,
    *,
    tables: Sequence[str],
    args: Sequence[tuple[str, str]],
) -> Trace:
    """Read a trace-event JSON file (plain, gzip, zstd).

    ``tables``: names of the tables that will be asked for; events only others need are counted and skipped.
    ``args``: (key, type) of the args to keep, type one of int, float, text.
    Raises TraceFormatError, OSError, KeyboardInterrupt, and what the stream's pieces raise.
    """

class ArrowStream(Protocol):
    """Columns in Arrow memory, e.g. a ``polars.DataFrame``."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def call_tree(calls: ArrowStream, work: ArrowStream) -> ArrowTable:
    """Who called whom on each thread, and the work that each call and those below it launched.

    ``calls``: event_id (distinct), start_ns, end_ns, thread (those of other threads cannot enclose each other).
    ``work``: launch_id (the call that launched it), start_ns, end_ns. Ids and threads are UInt32, times Int64.
    A row per call, in their order: parent_id, depth, height, self_ns, work_count, work_ns, first_work_ns,
    last_work_ns.
    """

def covered_before(spans: ArrowStream, times: ArrowStream) -> ArrowTable:
    """How long at least one of ``spans`` (start_ns, end_ns) is active before each of ``times`` (time_ns).

    A row per time: covered_ns.
    """

def read_ends(source: str | Stream, *, head_bytes: int, tail_bytes: int) -> tuple[bytes, bytes]:
    """First and last bytes of the inflated file; ``tail_bytes=0`` reads no further than the head."""

def rewrite_trace_event(
    source: str | Stream,
    target: str,
    *,
    edits: Sequence[tuple[Sequence[int], Sequence[tuple[str, str]], Sequence[tuple[str, str]]]],
    drop: Sequence[int],
    append: Sequence[str],
) -> tuple[int, int, int]:
    """Write a copy of a trace-event file, packed as ``target`` says, and in its place only once it is whole.

    ``edits``: ids of events, members of the event and members of its args to put there; keys as between quotes, values
    as JSON. ``drop``: ids of events to leave out. ``append``: texts of one or more events with commas between them.
    Returns how many entries there are, were edited and were left out.
    Raises KeyError for an id that is not there, TraceFormatError, OSError, KeyboardInterrupt.
    """
