"""Which ranks meet in collectives whose process group was not recorded, as of older PyTorch and of other libraries."""

from __future__ import annotations

import polars as pl

from holotrace.derive import call_order

# What NCCL and RCCL call their kernels, which keep to a queue of their own; those of other libraries run in any.
_NCCL = r"^(nccl|rccl)"
# Fewer calls of a queue do not tell whom it meets, and so many are enough.
_LEAST, _COMPARED = 3, 300
# Ends of one collective differ by less than this or this part of it.
_TOLERANCE_NS, _TOLERANCE_RATIO = 100_000, 0.1
# One of so many may not fit, and so large a part of more.
_OFF, _OFF_RATIO = 5, 0.1
# Ranks record so much of the same time, and most of them more.
_SHARED_RATIO, _MOST_RATIO = 0.5, 0.7
# Clocks of one machine differ by less.
_ONE_CLOCK_NS = 200_000
_KERNEL = pl.col("kernel").cast(pl.String)
_IS_NCCL = _KERNEL.str.to_lowercase().str.contains(_NCCL)
# What shares a communicator within a queue of those that were not told: all of NCCL, of other libraries one kernel.
_LIBRARY = (
    pl.when(pl.all_horizontal(pl.col(name).is_null() for name in ("group", "group_ranks", "sequence")))
    .then(pl.when(_IS_NCCL).then(pl.lit("nccl")).otherwise(_KERNEL))
    .alias("library")
)
# Of calls that were told: those of some of the ranks, which may be messages between two stages of a pipeline.
MAY_BE_MESSAGE = (
    pl.col("kernel").cast(pl.String).str.contains("(?i)SendRecv")
    & pl.col("group").cast(pl.String).str.contains(r"^queue \d+ of rank \d+$")
    & (pl.col("group_ranks").cast(pl.String).str.count_matches(",") + 1 < pl.col("rank").n_unique())
).fill_null(value=False)
_PLACE = ("rank", "stream")
# A queue of a device: its rank (``collectives.by_member``) and its number there.
_Queue = tuple[int, int]
# The queues of each communicator by one of them.
_Communicators = dict[_Queue, list[_Queue]]


def told(calls: pl.DataFrame, clocks: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The calls; those of which no group was recorded with the ``group_ranks`` that meet in them, and a ``group``.

    A communicator has a queue of its own on each device, and its collectives end on all of them at once: queues whose
    calls stay equally far apart are of one, if they are as far apart as clocks are. A queue that fits no other is in a
    group by itself. Where there is one that all ranks have, nothing is changed.

    Args:
        calls: Those of all members (``collectives.by_member``) that can be compared.
        clocks: How far these are apart by what else is known, as of ``clock_offsets``.

    Returns:
        The calls, and the clocks by all that is known now.
    """
    known = calls.with_columns(_LIBRARY)
    names = list[tuple[object, ...]]()
    for untold in known.drop_nulls("library").partition_by("library", maintain_order=True):
        if untold["rank"].n_unique() < 2:
            continue
        offsets = _Offsets(clocks)
        found = _communicators(untold, offsets)
        is_nccl = untold["library"][0] == "nccl"
        # Kernels of other libraries may end at different times on the ranks that meet in them.
        if len(found) < 2 or not (is_nccl or all(len(queues) > 1 for queues in found.values())):
            continue
        clocks = offsets.table()
        of_rank = dict(untold.select("rank", "of_rank").unique().iter_rows())
        for queues in found.values():
            (first, stream), *_ = ordered = sorted(queues)
            ranks = ", ".join(dict.fromkeys(str(of_rank[rank]) for rank, _ in ordered))
            group = f"queue {stream} of rank {of_rank[first]}"
            names += [(untold["library"][0], *queue, group, f"[{ranks}]") for queue in queues]
    columns = (*_PLACE, "group", "group_ranks")
    schema = {"library": pl.String(), **{name: calls.schema[name] for name in columns}}
    named = known.join(
        pl.DataFrame(names, schema=schema, orient="row"),
        on=["library", *_PLACE],
        how="left",
        maintain_order="left",
        suffix="_told",
    )
    told_of = (pl.coalesce(name, f"{name}_told").alias(name) for name in ("group", "group_ranks"))
    return named.with_columns(told_of).select(calls.columns), clocks


class _Offsets:
    """How far the clocks of ranks are ahead of the first of those that they are known to be apart from."""

    def __init__(self, clocks: pl.DataFrame) -> None:
        self._schema = {"rank": clocks.schema["rank"], "offset_ns": pl.Int64(), "first_rank": clocks.schema["rank"]}
        self._known = {rank: (offset, first) for rank, offset, first in clocks.select(*self._schema).iter_rows()}

    def table(self) -> pl.DataFrame:
        """As of ``clock_offsets``, but not from the median rank: rank, offset_ns, first_rank."""
        rows = [(rank, *known) for rank, known in sorted(self._known.items())]
        return pl.DataFrame(rows, schema=self._schema, orient="row")

    def fits(self, rank: int, other: int, apart_ns: int, tolerance_ns: float, most_ns: float) -> bool:
        """Whether calls of the other rank may end so much later.

        Where nothing tells they do from now on, if that is not the ``most_ns``.
        """
        offset, first = self._known.setdefault(rank, (0, rank))
        own, own_first = self._known.setdefault(other, (0, other))
        if first == own_first:
            return bool(abs(offset + apart_ns - own) <= tolerance_ns)
        if abs(apart_ns) > most_ns:
            return False
        # All that are known to be apart from the other one are from this one, too.
        moved = offset + apart_ns - own
        for each, (ahead, of_first) in self._known.items():
            if of_first == own_first:
                self._known[each] = (ahead + moved, first)
        return True


def _communicators(calls: pl.DataFrame, offsets: _Offsets) -> _Communicators:
    """The queues of each communicator, those with too few calls left out."""
    place = pl.int_range(pl.len()).over(_PLACE)
    compared = calls.sort(*_PLACE, "start_ns", "end_ns").filter(place < _COMPARED, pl.len().over(_PLACE) >= _LEAST)
    by_count = compared.group_by(_PLACE, maintain_order=True).len().sort("len", descending=True, maintain_order=True)
    found = {queue: [queue] for queue in by_count.select(_PLACE).iter_rows()}
    # Stages of a pipeline do the same at equal distances, which is to be told from clocks that are apart.
    for most_apart_ns in (_ONE_CLOCK_NS, float("inf")):
        found = _joined(compared, found, offsets, most_apart_ns)
    return _with_lone_ones(found, calls["rank"].n_unique())


def _joined(calls: pl.DataFrame, found: _Communicators, offsets: _Offsets, most_apart_ns: float) -> _Communicators:
    """The communicators, each with those whose calls end when its do."""
    left, joined = dict(found), {}
    before: tuple[_Queue, list[_Queue]] = ((0, 0), [])
    while left:
        first = next(iter(left))
        queues = left.pop(first)
        met = list[_Queue]()
        # Most often the next ranks meet as those before did.
        for others in filter(None, (_likely(*before, first, left), list(left))):
            met, ranks = list[_Queue](), {rank for rank, _ in queues}
            for rank, stream, apart_ns, tolerance_ns in _fitting(calls, first, others, offsets.table()):
                theirs = {other for other, _ in left[rank, stream]}
                if ranks.isdisjoint(theirs) and offsets.fits(first[0], rank, apart_ns, tolerance_ns, most_apart_ns):
                    met.append((rank, stream))
                    ranks |= theirs
            if len(met) == len(others):
                break
        joined[first] = queues + [queue for other in met for queue in left.pop(other)]
        before = (first, met)
    return joined


def _likely(before: _Queue, met: list[_Queue], first: _Queue, left: _Communicators) -> list[_Queue]:
    """Those that are to the first as what the one before has met is to that; none if there is one that is not left."""
    likely = [(rank + first[0] - before[0], stream) for rank, stream in met]
    return likely if first[1] == before[1] and left.keys() >= {*likely} else []


def _with_lone_ones(found: _Communicators, rank_count: int) -> _Communicators:
    """The communicators; a queue that fits no other is of what most ranks meet in and its own does not.

    Its rank may have lost calls.
    """
    joined = {first: list(queues) for first, queues in found.items()}
    most = [queues for queues in joined.values() if len(queues) > rank_count / 2]
    for lone in [first for first, queues in found.items() if len(queues) == 1]:
        lacking = (queues for queues in most if lone[0] not in {rank for rank, _ in queues})
        if (queues := next(lacking, None)) is not None:
            queues += joined.pop(lone)
    return joined


def _fitting(
    calls: pl.DataFrame, first: _Queue, others: list[_Queue], clocks: pl.DataFrame
) -> list[tuple[int, int, int, float]]:
    """Those of the others whose calls end equally long after those of the first, best first.

    With how much later that is, and how much it may differ.
    """
    rank, stream = first
    is_first = (pl.col("rank") == rank) & (pl.col("stream") == stream)
    named = [first, *(other for other in others if other[0] != rank)]
    queues = pl.DataFrame(named, schema=[(name, calls.schema[name]) for name in _PLACE], orient="row")
    count = pl.len().over(_PLACE)
    among = calls.join(queues, on=_PLACE, how="semi", maintain_order="left")
    compared = among.filter(count >= _SHARED_RATIO * count.max()).with_columns(
        # The calls of a queue have one order, whatever they are.
        operation=pl.lit("nccl", pl.Categorical()),
        key=pl.lit(0, pl.Int64),
        series=pl.struct(_PLACE).rank("dense").cast(pl.Int64),
    )
    placed = call_order.placed(compared, clocks)
    length = pl.col("end_ns") - pl.col("start_ns")
    own = placed.filter(is_first).select("position", own_ns="end_ns", own_length_ns=length, own_kernel="kernel")
    apart = pl.col("end_ns") - pl.col("own_ns")
    tolerance = pl.max_horizontal(_TOLERANCE_NS, _TOLERANCE_RATIO * pl.min_horizontal(length, "own_length_ns"))
    is_alike = pl.col("kernel") == pl.col("own_kernel")
    most_off = pl.max_horizontal((pl.col("len") >= _OFF).cast(pl.Int64), _OFF_RATIO * pl.col("len"))
    fitting = (
        placed.filter(~is_first)
        .join(own, on="position")
        .with_columns(apart_ns=apart.median().over(_PLACE).round().cast(pl.Int64), tolerance_ns=tolerance)
        .with_columns(off_ns=(apart - pl.col("apart_ns")).abs())
        .with_columns(is_fit=is_alike & (pl.col("off_ns") <= pl.col("tolerance_ns")))
        .group_by(_PLACE)
        .agg(
            pl.len(),
            pl.col("apart_ns").first(),
            pl.col("off_ns", "tolerance_ns").median(),
            off=(~pl.col("is_fit")).sum(),
        )
        .filter(pl.col("len") >= max(_LEAST, _SHARED_RATIO * own.height), pl.col("off") <= most_off)
        # One with fewer calls may fit a part of others by chance.
        .sort(pl.col("len") < _MOST_RATIO * own.height, "off_ns", *_PLACE)
    )
    return list(fitting.select(*_PLACE, "apart_ns", "tolerance_ns").iter_rows())
