"""The Rust core, as ``holotrace.core.native`` hands it to the layers that read files and compute on columns."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, final, type_check_only

from holotrace.stores import Stream

__all__ = [
    "ArrowTable",
    "Meetings",
    "Replay",
    "Space",
    "StepGraph",
    "Trace",
    "call_shifts",
    "call_tree",
    "checksum",
    "covered_at",
    "covered_before",
    "device_graph",
    "first_covered",
    "first_rows",
    "gaps",
    "give_back",
    "held_up",
    "host_graph",
    "intersect",
    "levels",
    "open_calls",
    "order",
    "outermost_calls",
    "profile_times",
    "read_ends",
    "read_trace_event",
    "read_xplane",
    "read_xplane_bytes",
    "replay",
    "rewrite_trace_event",
    "rows_of",
    "runs",
    "same_activities",
    "say_on_abort",
    "spans_at",
    "step_graph",
    "subtract",
    "sums_at",
    "total",
    "uncovered",
    "union",
    "unions",
    "usual_times",
    "wait_causes",
    "write_parquet",
    "write_timeline",
]

@final
class ArrowTable:
    """Columns in Arrow memory; ``polars.DataFrame(table)`` takes them over without a copy."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    @property
    def height(self) -> int: ...
    def columns(self) -> list[ArrowTable]:
        """Each column as a table of its own."""
    def renamed(self, names: Sequence[str]) -> ArrowTable:
        """The same columns under other names."""

@final
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
    @property
    def computes_on_host(self) -> bool:
        """Whether the host itself is the device: operators that compute are rows of it, too."""
    @property
    def has_device_events(self) -> bool:
        """Whether work of a device is among its rows, be the device the host itself."""
    def table(self, name: str, columns: Sequence[str]) -> ArrowTable:
        """A table of holotrace.core.tables, e.g. ``trace.table("device_events", ["event_id", "start_ns", "stream"])``.

        A column that is read from an event's args is asked for, and comes back, under its KEY in args
        (``"External id"``, not ``"external"``): the caller renames. ``kind`` is not known here; ``launch_id``,
        ``launch_ns`` and ``step`` of ``device_events`` are. Text columns come as dictionaries (Categorical), events in
        file order.
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

def write_timeline(
    target: str,
    *,
    head: str,
    parts: Iterator[tuple[str | Stream, str, int, tuple[int, int] | None, str]],
) -> list[tuple[int, int, Trace]]:
    """Write one trace-event file of several, each on processes and threads of its own.

    ``head``: an object in JSON, for what stands before the events.
    ``parts``: taken one by one; each a source, what the names of its processes begin with (as between quotes), what is
    added to its times, from and to when on its own clock events are kept (at least partly), and its detail, one of
    device, host, python. Returns for each the events written, those left out, and a trace that has no table but
    ``problems``. Raises TraceFormatError, OSError, KeyboardInterrupt, and what parts and streams raise.
    """

@type_check_only
class ArrowStream(Protocol):
    """Columns in Arrow memory, e.g. a ``polars.DataFrame``."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def write_parquet(
    path: str,
    schema: ArrowStream,
    parts: Sequence[ArrowStream],
    *,
    by: str | None,
    metadata: Sequence[tuple[str, str]],
) -> int:
    """Write a table to a new file, its rows by a column of times if one is named; returns how many there are.

    ``schema``: a table whose columns are written: Boolean, UInt32, Int64, Float64, text or labels. ``parts``: tables
    with the same rows, each in one piece; a column that none of them has is null. ``metadata``: keys and values beside
    the columns. Raises OSError.
    """

def call_tree(calls: ArrowStream, work: ArrowStream, columns: Sequence[str]) -> ArrowTable:
    """Who called whom on each thread, and the work that each call and those below it launched.

    ``calls``: event_id (distinct), start_ns, end_ns, pid, tid (those of other threads cannot enclose each other), and,
    if given, is_cut: UInt8, 1 for those that end at the latest with the innermost other call in which they began.
    ``work``: launch_id (the call that launched it), start_ns, end_ns. Ids, pid and tid are UInt32, times Int64.
    A row per call, in their order, with some of the ``columns`` parent_id, depth, height, end_ns, self_ns, work_count,
    work_ns, first_work_ns, last_work_ns.
    """

def outermost_calls(calls: ArrowStream) -> ArrowTable:
    """For each call the outermost chosen one that is around it or is itself: event_id, null for none.

    ``calls``: event_id (distinct), parent_id (null for none): UInt32; is_chosen: UInt8, 1 for those that are.
    """

def sums_at(values: ArrowStream, columns: Sequence[str], count: int) -> ArrowTable:
    """Of each of ``columns`` the sums of what belongs to each of ``count`` places.

    ``values``: the columns (Int64), and place (UInt32); what belongs to a higher place is left out.
    """

def covered_at(spans: ArrowStream, count: int) -> ArrowTable:
    """Of each of ``count`` places the time that the spans which belong there cover: covered_ns.

    ``spans``, in order of their starts: place (UInt32; those of no place are left out), start_ns, end_ns.
    """

def covered_before(spans: ArrowStream, times: ArrowStream) -> ArrowTable:
    """How long at least one of ``spans`` (start_ns, end_ns) is active before each of ``times`` (time_ns).

    A row per time: covered_ns.
    """

def uncovered(spans: ArrowStream, others: ArrowStream) -> ArrowTable:
    """How long, of each of ``spans`` (start_ns, end_ns), none of ``others`` (start_ns, end_ns) is active.

    A row per span: uncovered_ns.
    """

def union(spans: ArrowStream) -> ArrowTable:
    """The time that at least one of ``spans`` (start_ns, end_ns) covers: start_ns, end_ns, in order, none touching."""

def unions(spans: ArrowStream, sets: Sequence[Sequence[int]]) -> list[ArrowTable]:
    """The time that at least one of ``spans`` (start_ns, end_ns, kind: UInt32) covers whose kind is in a set.

    For each of the sets what ``union`` gives.
    """

def subtract(a: ArrowStream, b: ArrowStream) -> ArrowTable:
    """The time that at least one of the spans ``a`` and none of ``b`` covers; all as in ``union``."""

def intersect(a: ArrowStream, b: ArrowStream) -> ArrowTable:
    """The time that at least one of the spans ``a`` and at least one of ``b`` covers; all as in ``union``."""

def total(spans: ArrowStream) -> int:
    """How long at least one of ``spans`` (start_ns, end_ns) is active."""

def first_covered(windows: ArrowStream, layers: Sequence[ArrowStream]) -> ArrowTable:
    """How long, in each of ``windows`` (start_ns, end_ns), a layer goes on where none of those before it does.

    A row per window, a column per layer, called by its place: 0, 1, ...
    """

def levels(changes: ArrowStream, levels: Sequence[str]) -> ArrowTable:
    """What changes make of levels, in order of groups, and in each of time; an upper row comes first.

    ``changes``: time_ns, group, and by how much each of ``levels`` changes then; Int64.
    A row per change: row (of it), start_ns, end_ns (when the next of its group comes), lasted_ns, and the levels.
    """

def rows_of(known: ArrowStream, wanted: ArrowStream) -> ArrowTable:
    """The row of ``known`` in which each event_id of ``wanted`` is; null where there is none.

    Args:
        known: event_id; UInt32, rising.
        wanted: event_id; UInt32 or null.
    """

def runs(spans: ArrowStream, origin_ns: int, width_ns: int, count: int, levels: int) -> ArrowTable:
    """What goes on in ``count`` stretches of ``width_ns``, the first of which begins at ``origin_ns``.

    Args:
        spans: start_ns, end_ns, key; Int64 but the key, which is UInt32 or null.
        levels: Stretches that follow each other are one run where their key is the same, and so is this part of their
            width that something is active.

    A row per run: start_ns, end_ns, row (of a span of the key that is active longest), busy_ns (how long at least one
    span is active), count (of spans that begin in it).
    """

def spans_at(spans: ArrowStream, times: ArrowStream) -> ArrowTable:
    """The row of the span in which each time is: of those that began before it the last, if it lasts; else null.

    Args:
        spans: start_ns, end_ns; Int64.
        times: time_ns; Int64 or null.
    """

def first_rows(values: ArrowStream, columns: list[str]) -> ArrowTable:
    """row: the first of each value of a column, or pair of values of two (UInt32), in order."""

def gaps(spans: ArrowStream, pause_ns: int) -> ArrowTable:
    """The time between the spans of each group, by its cause.

    ``spans``: event_id (UInt32; of spans that begin at the same time the lower comes first), start_ns, end_ns,
    launch_ns (-2^63 where not known), group (Int64).
    A row per group and cause, in their order: row (of the first span after such a gap), cause (0: it was launched after
    those before had ended, 1: the gap is shorter than ``pause_ns``, 2: else), whole_ns (from the group's first start to
    its latest end), and of these gaps count, idle_ns (their sum), mean_ns, std_ns (n - 1; null for one gap), min_ns,
    p25_ns, p50_ns, p75_ns (between two of them interpolated), max_ns.
    """

def call_shifts(
    calls: ArrowStream, tried: ArrowStream, *, most: int, slack_ns: int, one_clock_ns: int, by_far: float
) -> ArrowTable:
    """How far ends of calls are apart, if each of the first ``most`` of a series is one of another's so much later.

    Args:
        calls: series (UInt32, rising), end_ns, step (Int64 or null); those of one series in their order.
        tried: series, reference_series (UInt32), shift (Int64), is_received (Boolean).
        most: So many calls at the start of each series are compared.
        slack_ns: Ends that fit differ by less.
        one_clock_ns: A received message ends too early if it ends so much earlier, all else if so much later.
        by_far: What is so many times the upper quartile from the median is far, if it is beyond ``slack_ns``.

    A row for each that is tried: count (of pairs), far_count (UInt32), apart_ns (the median), spread_ns (the upper
    quartile of how far they are from that), unfit_ratio (the part beyond ``slack_ns``), other_step_ratio (the part in
    two steps, of those whose steps are known), early_ratio; all 0 where nothing pairs.
    """

def held_up(work: ArrowStream, waited_ns: int, just_ended_ns: int) -> ArrowTable:
    """Work that began long after it could have, when work of another queue had just ended: held_id, after_id, ended_ns.

    ``work``: event_id (UInt32), device, stream and launch_ns (-2^63 where not known), start_ns, end_ns. It could have
    begun when it was launched and its queue was free; what took more than ``waited_ns`` since then waited for what had
    ended last on its device, if that was at most ``just_ended_ns`` ago. Rows are by the start of what was held up.
    """

def order(keys: ArrowStream, names: Sequence[str], count: int) -> ArrowTable | None:
    """row: the numbers of the ``count`` rows in order of these columns (Int64), equal rows as they are.

    None if they are in order as they are.
    """

def open_calls(
    calls: ArrowStream,
    kinds: ArrowStream,
    windows: ArrowStream,
    main: int,
    *,
    limits_ns: tuple[int, int],
    together: bool,
) -> tuple[ArrowTable, ArrowTable]:
    """What went on in each window on its thread, by the innermost calls, and what was innermost for most of it.

    ``calls``: event_id, tid, name, category (UInt32), start_ns, end_ns, work_count. ``kinds``: name, category,
    traits (UInt16, bits), told (UInt8, the kind that the name tells of all below it; 0 for none). ``windows``, in order
    and apart: start_ns, end_ns, tid, null for ``main``. Where nothing is open on a window's thread, ``main`` tells.
    From the first of ``limits_ns`` on a call without others below it is long, from the second on a launch. Short calls
    of a function that launches nothing are told where they last in a window, with ``together`` also in all of them.
    First a row per window, kind and name: window, kind (UInt8), call_id (who is responsible), inner_id (what was
    innermost), share_ns (they add up to the window), when_ns (when it went on last); longest first. Then a row per
    window: operator_id, module_id, function_id, annotation_id, call_id, and what another thread did longest, other_id,
    for other_ns.
    """

@final
class StepGraph:
    """Starts and ends of events (nodes) and which of them came after which (edges)."""

    def nodes(self) -> ArrowTable:
        """event_id, time_ns, is_start; by time, event, a start before its end."""
    def connected(self) -> ArrowTable:
        """node: the nodes that have edges, in the order in which these were found."""
    def edges(self, rows: ArrowStream | None = None) -> ArrowTable:
        """from_node, to_node, kind, weight_ns, event_id (whose time that is); in the order in which they were found.

        ``rows``: edge, the rows that are asked for; by default all.
        """
    def longest_path(self, weights: ArrowStream | None = None) -> ArrowTable:
        """edge: rows of the edges on the longest path; ``weights``: weight_ns, one per edge, none negative.

        By default each weighs what it does itself, or 0 where that is negative.
        """

def step_graph(
    host: ArrowStream, device: ArrowStream, *, longest_kernel_delay_ns: int, has_all_launches: bool
) -> StepGraph:
    """The graph of host and device events; ids are distinct among both, 2^32 - 1 is none.

    ``host``: event_id, start_ns, end_ns, thread, role (1: its ends are nodes, + 2: waits for a device, + 4: holds the
    runtime's lock). ``device``: event_id, start_ns, end_ns, device, queue, call_id, role (0: work, + 8: may have waited
    for its launch; waiting 1: for a queue, 2: for a device, 3: for the work of after_id, 4: holds up the work of
    holds_id until that of after_id is done), after_id, holds_id. Roles are UInt8, ids and numbers UInt32, times Int64.
    """

@type_check_only
class Change(Protocol):
    """What is different in a job that is replayed; see ``holotrace.diagnosis.job.meetings.Change``."""

@final
class Meetings:
    """When ranks would meet, and end, if some of their time were not spent; see ``holotrace.diagnosis.job.meetings``.

    ``visits`` are of ranks at meetings, on the clock of the job: match, rank, arrival_ns, left_ns, held_ns (for how
    long it stood still until then), needed_ns (when it needed what it received) and ready_ns (when it had computed what
    it sends), null where that is not known, queue (a number of the rank's own queue, from 0), held_ratio (how many of
    the rank's operations of this kind it stood still for), is_of_one (whether the queue is that of its only device),
    kernel (the number of that which is one of several messages, else null) and ended_ns (when that ended). ``ranks``
    are rank, end_ns (null for one that does not end), offset_ns (how far its clock is ahead of that of the job) and
    is_waiting (whether it is known when its host waited for its devices). ``late`` has rank, begun_ns, since_ns, gap_ns
    and launched_ns, ``waits`` rank, returned_ns, began_ns, ready_ns and before_ns (when what the device had done before
    was over), on the clocks of the ranks. Times, ranks and matches are Int64, numbers UInt32.
    """

    def __new__(cls, visits: ArrowStream, ranks: ArrowStream, late: ArrowStream, waits: ArrowStream) -> Meetings: ...
    def ends(self, change: Change) -> dict[int, int]:
        """When each rank ends with the change, on the clock of the job."""

@final
class Replay:
    """When everything happens, if it begins as soon as what it waits for is over.

    Points are twice the number of an activity for its start and one more for its end; those of crossings come after
    all of these. ``own`` and ``lags`` are what is other: case (a counterfactual, from 0), activity and own_ns; case,
    edge and lag_ns, of which the least Int64 takes the edge away. Numbers are UInt32, times Int64.
    """

    @property
    def circular_count(self) -> int:
        """Edges that would close a circle, or are of no activity; they are left out."""
    @property
    def negative_count(self) -> int:
        """Edges whose lag is negative."""
    @property
    def contradicted_count(self) -> int:
        """Edges by which a point could not have come when it was recorded."""
    def delays(self) -> ArrowTable:
        """start_delay_ns, end_delay_ns of each activity: what no edge explains, negative where it came too early."""
    def times(self, own: ArrowStream, lags: ArrowStream, *, has_delays: bool) -> ArrowTable:
        """start_ns, end_ns of each activity in case 0; without changes and with delays as recorded."""
    def cases(
        self,
        count: int,
        own: ArrowStream,
        lags: ArrowStream,
        wanted: ArrowStream,
        *,
        has_delays: bool,
    ) -> ArrowTable:
        """time_ns of the points ``wanted`` (point) in each of ``count`` cases, those of a case together."""
    def mixed(self, activities: ArrowStream, cases: Sequence[Sequence[int]], wanted: ArrowStream) -> ArrowTable:
        """The same where activities that have one of a case's labels take their other time.

        ``activities``: usual_ns, other_ns, label, second_label (below their count, or 2^32 - 1 for none).
        """
    def parts(self, ends: ArrowStream, own: ArrowStream, lags: ArrowStream, *, has_delays: bool) -> ArrowTable:
        """What the time before points was spent on, in case 0, each moment once, one point after the other.

        ``ends``: point and since_ns, when its time begins. Returns path (a row of ``ends``), activity (whose time it
        is), from_activity (that which its point waited for last; null for a crossing or none), spent (UInt8; 0: before
        all that is known, 1: the activity's own time, 2: an edge's lag, 3: nothing explains it), start_ns, end_ns.
        """
    def shares(self, ends: ArrowStream, marked: ArrowStream) -> ArrowTable:
        """Of the chains to points, as recorded: delay_ns (sizes in sum), edge_count, marked_count (of ``marked``)."""
    def waits(self, activities: ArrowStream, lag: int, delay: int, beginning: int) -> tuple[ArrowTable, ArrowTable]:
        """Visits of crossings (process, meeting, activity, waited_ns) and what their waits consist of.

        ``activities``: process, signature; the others are signatures of lags, of what no edge explains, and of when
        something began that waited for nothing. Visits without an activity are points where ways part. The other table
        is as of ``wait_causes``.
        """

def host_graph(
    spans: ArrowStream, steps: ArrowStream, threads: int, main: int
) -> tuple[ArrowTable, ArrowTable, ArrowTable, ArrowTable]:
    """What the threads of a host did, cut where something else may depend on it.

    ``spans``: thread (below ``threads``), start_ns, end_ns, role (UInt8; 0: operator, 1: range, 2: call of the runtime,
    3: call that only asks), of equal ones the outer first. ``steps``: thread, start_ns, end_ns. ``main``: the thread
    that hands over to others. Returns activities by thread and time (thread, start_ns, end_ns, own_ns, the rows
    ``around`` and ``call`` of spans; null for none), edges (from_point, to_point, is_inferred), for each span the
    activity in which it began (null but for calls), and the points begin and end of each step.
    """

def device_graph(
    works: ArrowStream,
    calls: ArrowStream,
    held: ArrowStream,
    times: ArrowStream,
    returned: ArrowStream,
    edges: ArrowStream,
    *,
    first: int,
    usual: Mapping[str, int],
) -> tuple[ArrowTable, ArrowTable]:
    """What the works of devices and the calls of a host waited for, joined to the host's own part of a graph.

    ``works`` by queue, start and id: event_id, device, queue, start_ns, end_ns, launch_id (2^32 - 1: none), launch_ns
    (-2^63: unknown); their activities count from ``first``. ``calls``: event_id, name (a code, 2^32 - 1: none),
    thread, start_ns, end_ns, activity, traits (UInt8; 1: returns when work is over, 2: marks how far a queue is, 4:
    makes one wait for a mark). ``held`` and ``returned``: after_id and waits_id, works and calls that waited for
    works as the profiler recorded; ``times``: the same of works, as their times tell. ``edges``: those of the host
    in order: from_point, to_point, is_inferred. ``usual``: turn_ns, launch_ns, handed_ns, returned_ns, waited_ns,
    full_count, full_times. Returns all edges by to_point and from_point (from_point, to_point, lag_ns,
    is_inferred), and what activities of calls take that waited for a device, had they not (activity, own_ns).
    """

def replay(activities: ArrowStream, edges: ArrowStream) -> Replay:
    """A graph to replay, which shares columns that are in one piece.

    ``activities``: own_ns, start_ns, end_ns, crossing (below their count, or 2^32 - 1). ``edges``: from_point,
    to_point, lag_ns.
    """

def same_activities(activities: ArrowStream, names: ArrowStream) -> ArrowTable:
    """same: a number for each that those of several steps and ranks share that do the same for the n-th time.

    ``activities``: rank, lane (UInt32), is_device (UInt8), step (the least number for none), kind, name (UInt32, the
    largest for none), start_ns. ``names``: name, each once; of those that a thread has as often the first tells what it
    does.
    """

def usual_times(activities: ArrowStream) -> ArrowTable:
    """usual_ns: for each the mean or the median of those with its number.

    ``activities``: same (UInt32, counted from 0), own_ns, is_mean (UInt8).
    """

def wait_causes(visits: ArrowStream, terms: ArrowStream) -> ArrowTable:
    """What waits consist of, after Carnival: visit, late (the visit that came last), process, signature, ns.

    ``visits``: process, meeting (smaller on the way back), arrived_ns, left_ns, before (a visit, or 2^32 - 1), first
    (where its terms begin). ``terms``: process, signature, ns, from when it left the visit before to its arrival.
    """

def checksum(path: str) -> int:
    """CRC-32 of a whole file. Raises OSError."""

def give_back() -> None:
    """Give the system back what the C library keeps of memory that was let go."""

def say_on_abort(sentence: str, code: int, to: int) -> None:
    """From now on a process that a library aborts writes this to a descriptor and ends with this code; Unix only."""

def read_ends(source: str | Stream, *, head_bytes: int, tail_bytes: int) -> tuple[bytes, bytes]:
    """First and last bytes of the inflated file; ``tail_bytes=0`` reads no further than the head."""

@final
class Space:
    """One XPlane profile's columns."""

    @property
    def counts(self) -> dict[str, int]:
        """``entries``, events in the file, each of which is a row; file_bytes."""
    @property
    def origin_ns(self) -> int:
        """UNIX time at which the profile began, already in all times; 0 where it does not say."""
    @property
    def hostnames(self) -> list[str]: ...
    @property
    def messages(self) -> list[tuple[str, str]]:
        """What the profiler had to say: ("error" or "warning", text)."""
    def planes(self) -> ArrowTable:
        """plane (its number in the file), name, id."""
    def plane_stats(self) -> ArrowTable:
        """plane, key, whole, number, text; a value that is text has no numbers."""
    def lines(self) -> ArrowTable:
        """line (its number in the file), plane, id, name, display, event_count."""
    def events(
        self,
        columns: Sequence[str],
        *,
        lines: Sequence[int] | None = None,
        rows: ArrowStream | None = None,
        having: str | None = None,
        lacking: str | None = None,
        names: Sequence[str] | None = None,
        lasting: Sequence[int] | None = None,
    ) -> ArrowTable:
        """Events in file order: some of them (``rows``: event_id), or those of some lines.

        Of lines, only events that have one stat and lack another themselves, and have one of some names; of the lines
        ``lasting``, only those that end after they began.
        Columns: event_id, line, kind (the same number for events of one name and plane, hlo_op and program_id; counted
        in the order of their first), name, display (the display name, else the name), start_ns, end_ns (both rounded
        down), duration_ps, inner_ps (covered by wanted events directly inside), arguments, and each stat that was asked
        for: its own, or else what all events of its name share.
        """
    def names(self) -> ArrowTable:
        """name: of all events, each once, and some others."""
    def causes(
        self, columns: Sequence[str], events: ArrowStream, lines: Sequence[int], marks: ArrowStream
    ) -> ArrowTable:
        """What each of ``events`` goes back to, along arrows between threads: some of mark, first, launch, root.

        ``events`` and ``marks``: event_id. ``lines`` are the host's. ``mark`` is the outermost of the events ``marks``
        around it on any thread on the way, ``first`` the call on the thread before its own, ``launch`` that on the last
        one, ``root`` the step around it. The stats _pt, _p, _ct, _c and _r must have been asked for.
        """
    def keep_stats(self, keys: Sequence[str]) -> None:
        """Let go of all other stats; ``causes`` can no longer be asked for."""
    def hlo(self, columns: Sequence[str]) -> ArrowTable:
        """Columns of the hlo table; empty unless it was asked for."""

    def buffers(self, columns: Sequence[str]) -> ArrowTable:
        """Columns of the buffers table; empty unless ``hlo`` was asked for."""
    def problems(self, columns: Sequence[str]) -> ArrowTable:
        """As of ``Trace.table``."""

def read_xplane(path: str, *, stats: Sequence[tuple[str, str]], arguments: bool, hlo: bool) -> Space:
    """Read an XSpace in protobuf.

    ``stats``: (key, type) of the stats to keep, type one of int, float, text.
    ``arguments``: whether to keep all stats of host events as JSON, but for operations of devices.
    ``hlo``: whether to read the compiled programs.
    Raises TraceFormatError, OSError, KeyboardInterrupt.
    """

def read_xplane_bytes(content: bytes, *, stats: Sequence[tuple[str, str]], arguments: bool, hlo: bool) -> Space:
    """The same of bytes in memory."""

def profile_times(path: str) -> tuple[str, int | None, int | None]:
    """Host, begin and end of an XSpace's recording in UNIX ns, as far as it says; its lines are not read."""

def rewrite_trace_event(
    source: str | Stream,
    target: str,
    *,
    edits: Sequence[tuple[ArrowStream, Sequence[tuple[str, str]], Sequence[tuple[str, str]]]],
    drop: ArrowStream,
    only: Sequence[str] | None,
    append: Sequence[str],
) -> tuple[int, int, int]:
    """Write a copy of a trace-event file, packed as ``target`` says, and in its place only once it is whole.

    ``edits``: event_id of events, members of the event and members of its args to put there; keys as between quotes,
    values as JSON. ``drop``: event_id of events to leave out. ``only``: categories; events of others that last are left
    out, unless they are edited. ``append``: texts of one or more events with commas between them.
    Returns how many entries there are, were edited and were left out.
    Raises KeyError for an id that is not there, TraceFormatError, OSError, KeyboardInterrupt.
    """
