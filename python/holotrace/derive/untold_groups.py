"""Which ranks meet in collectives of NCCL whose process group was not recorded, as those of older PyTorch."""

from __future__ import annotations

import polars as pl

from holotrace.derive import call_order

# What NCCL and RCCL call their kernels; other libraries do not keep to a queue of their own.
_NCCL = r"^(nccl|rccl)"
# Fewer calls of a queue do not tell whom it meets, and so many are enough.
_LEAST, _COMPARED = 3, 300
# Ends of one collective differ by less than this or this part of it, but for a few.
_TOLERANCE_NS, _TOLERANCE_RATIO = 100_000, 0.1
# One of so many may not fit, and so large a part of more.
_OFF, _OFF_RATIO = 5, 0.1
# Ranks record so much of the same time.
_SHARED_RATIO = 0.5
_QUEUE = ("rank", "stream")
_IS_UNTOLD = (
    pl.all_horizontal(pl.col(name).is_null() for name in ("group", "group_ranks", "sequence"))
    & pl.col("kernel").cast(pl.String).str.to_lowercase().str.contains(_NCCL)
).alias("is_untold")


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
    untold = calls.filter(_IS_UNTOLD)
    if untold["rank"].n_unique() < 2:
        return calls, clocks
    offsets = _Offsets(clocks)
    queues = _communicators(untold, offsets)
    if queues["communicator"].n_unique() < 2:
        return calls, clocks
    members = pl.col("of_rank").cast(pl.String).unique(maintain_order=True)
    first = pl.format("queue {} of rank {}", pl.col("stream").first(), pl.col("of_rank").first())
    ranks = pl.format("[{}]", members.str.join(", "))
    groups = queues.sort(_QUEUE).select(
        *_QUEUE,
        group=first.over("communicator").cast(calls.schema["group"]),
        group_ranks=ranks.over("communicator").cast(calls.schema["group_ranks"]),
        is_untold=True,
    )
    known = calls.with_columns(_IS_UNTOLD)
    named = known.join(groups, on=["is_untold", *_QUEUE], how="left", maintain_order="left", suffix="_told")
    told_of = (pl.coalesce(name, f"{name}_told").alias(name) for name in ("group", "group_ranks"))
    return named.with_columns(told_of).select(calls.columns), offsets.table()


class _Offsets:
    """How far the clocks of ranks are ahead of the first of those that they are known to be apart from."""

    def __init__(self, clocks: pl.DataFrame) -> None:
        self._schema = {"rank": clocks.schema["rank"], "offset_ns": pl.Int64(), "first_rank": clocks.schema["rank"]}
        self._known = {rank: (offset, first) for rank, offset, first in clocks.select(*self._schema).iter_rows()}

    def table(self) -> pl.DataFrame:
        """As of ``clock_offsets``, but not from the median rank: rank, offset_ns, first_rank."""
        rows = [(rank, *known) for rank, known in sorted(self._known.items())]
        return pl.DataFrame(rows, schema=self._schema, orient="row")

    def fits(self, rank: int, other: int, apart_ns: int, tolerance_ns: float) -> bool:
        """Whether calls of the other rank may end so much later; where nothing tells, they do from now on."""
        offset, first = self._known.setdefault(rank, (0, rank))
        own, own_first = self._known.setdefault(other, (0, other))
        if first == own_first:
            return bool(abs(offset + apart_ns - own) <= tolerance_ns)
        # All that are known to be apart from the other one are from this one, too.
        moved = offset + apart_ns - own
        for each, (ahead, of_first) in self._known.items():
            if of_first == own_first:
                self._known[each] = (ahead + moved, first)
        return True


def _communicators(calls: pl.DataFrame, offsets: _Offsets) -> pl.DataFrame:
    """The number of the communicator of each queue: rank, stream, of_rank, communicator."""
    place = pl.int_range(pl.len()).over(_QUEUE)
    left = calls.sort(*_QUEUE, "start_ns", "end_ns").filter(place < _COMPARED)
    rank_count = left["rank"].n_unique()
    left = left.filter(pl.len().over(_QUEUE) >= _LEAST)
    found = [pl.DataFrame(schema={**left.select(*_QUEUE, "of_rank").schema, "communicator": pl.Int32()})]
    while not left.is_empty():
        queues = _meeting(left, offsets)
        found.append(queues.with_columns(communicator=pl.lit(len(found))))
        left = left.join(queues, on=_QUEUE, how="anti", maintain_order="left")
    return _with_lone_ones(pl.concat(found), rank_count)


def _with_lone_ones(queues: pl.DataFrame, rank_count: int) -> pl.DataFrame:
    """The queues, those that fit no other with what most ranks meet in and theirs does not: it may have lost calls."""
    count, is_alone = pl.len().over("communicator"), pl.len().over("communicator") == 1
    most = queues.filter(count > rank_count / 2)
    members = {
        number: {*ranks} for number, ranks in most.group_by("communicator", maintain_order=True).agg("rank").iter_rows()
    }
    moved = []
    for rank, stream, of_rank, _ in queues.filter(is_alone).iter_rows():
        number = next((number for number, ranks in members.items() if rank not in ranks), None)
        if number is not None:
            members[number].add(rank)
            moved.append((rank, stream, of_rank, number))
    joined = pl.DataFrame(moved, schema=queues.schema, orient="row")
    return pl.concat([queues.join(joined, on=_QUEUE, how="anti"), joined])


def _meeting(calls: pl.DataFrame, offsets: _Offsets) -> pl.DataFrame:
    """The queue with the most calls, and those of other ranks whose calls end when its do: rank, stream, of_rank."""
    count = pl.len().over(_QUEUE)
    first = calls.sort(count, descending=True, maintain_order=True).select(*_QUEUE, "of_rank").head(1)
    rank, stream, _ = first.row(0)
    is_first = (pl.col("rank") == rank) & (pl.col("stream") == stream)
    compared = calls.filter(is_first | (pl.col("rank") != rank), count >= _SHARED_RATIO * count.max()).with_columns(
        # The calls of a queue have one order, whatever they are.
        operation=pl.lit("nccl", pl.Categorical()),
        key=pl.lit(0, pl.Int64),
        series=pl.struct(_QUEUE).rank("dense").cast(pl.Int64),
    )
    placed = call_order.placed(compared, offsets.table())
    length = pl.col("end_ns") - pl.col("start_ns")
    own = placed.filter(is_first).select("position", own_ns="end_ns", own_length_ns=length, own_kernel="kernel")
    apart = pl.col("end_ns") - pl.col("own_ns")
    tolerance = pl.max_horizontal(_TOLERANCE_NS, _TOLERANCE_RATIO * pl.min_horizontal(length, "own_length_ns"))
    is_alike = pl.col("kernel") == pl.col("own_kernel")
    most_off = pl.max_horizontal((pl.col("len") >= _OFF).cast(pl.Int64), _OFF_RATIO * pl.col("len"))
    fitting = (
        placed.filter(~is_first)
        .join(own, on="position")
        .with_columns(apart_ns=apart.median().over(_QUEUE).round().cast(pl.Int64), tolerance_ns=tolerance)
        .with_columns(off_ns=(apart - pl.col("apart_ns")).abs())
        .with_columns(is_fit=is_alike & (pl.col("off_ns") <= pl.col("tolerance_ns")))
        .group_by(_QUEUE)
        .agg(
            pl.len(),
            pl.col("of_rank", "apart_ns").first(),
            pl.col("off_ns", "tolerance_ns").median(),
            off=(~pl.col("is_fit")).sum(),
        )
        .filter(pl.col("len") >= max(_LEAST, _SHARED_RATIO * own.height), pl.col("off") <= most_off)
        # Most often all ranks number their queues alike.
        .sort(pl.col("stream") != stream, "off_ns", *_QUEUE)
        .unique("rank", keep="first", maintain_order=True)
    )
    apart_of = fitting.select("rank", "apart_ns", "tolerance_ns").iter_rows()
    return pl.concat([first, fitting.select(first.columns).filter([offsets.fits(rank, *other) for other in apart_of])])
