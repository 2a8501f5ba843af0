"""What took the host of an XLA profile so long that it launched too late: also before its devices had nothing to do."""

from __future__ import annotations

import polars as pl

from holotrace.core.plans import done
from holotrace.derive import intervals
from holotrace.diagnosis.words.classes import COMPILATION, FUNCTION, LAUNCH, QUEUED, SYNCHRONIZATION

# Waiting is of the devices, not of the host, and what compiles in a gap does nothing else.
_WAITING, _FIXED = (SYNCHRONIZATION, QUEUED), (SYNCHRONIZATION, QUEUED, COMPILATION)
# So soon a thread goes on that waited for a device.
SOON_NS, _MOSTLY_RATIO = 100_000, 0.8
# Over so many launches of short programs a way is looked at: each has all of the way before it.
_MOST_LAUNCHES = 64


def begun(
    gaps: pl.DataFrame, stops: pl.Series, own: pl.DataFrame, waits: pl.DataFrame, done_ns: pl.Series
) -> pl.DataFrame:
    """The time before each gap in which the host was on its way to the launch that ends it: window, start_ns, end_ns.

    It is since it launched something else, or went on after waiting for a device. Where what it is in ends as soon as
    the device has nothing to do, or nothing is recorded of it until then, it waited for the device, as it did where it
    was in one of its waits then; but for what mostly ends while devices work.

    Args:
        gaps: ``window``, ``start_ns``, ``end_ns`` and ``launch_ns``, when what ended it was launched.
        stops: When the host launched programs or went on after waits.
        own: What it did.
        waits: ``began_ns`` and ``returned_ns`` of its waits for devices, none within another.
        done_ns: When programs of devices were over.
    """
    late = gaps.filter(pl.col("launch_ns") > pl.col("start_ns")).sort("start_ns")
    since = stops.unique().sort().to_frame("since_ns").with_columns(at_ns="since_ns")
    ended = _with_ends(own, pl.concat([done_ns, late["start_ns"]])).sort("returns_ns")
    # What reads a result that is there takes some time, too.
    waited = waits.select(waited_ns=pl.col("began_ns") + SOON_NS, until_ns="returned_ns").sort("waited_ns")
    begins = own.select(next_ns="start_ns").sort("next_ns")
    over = own.select(over_ns="end_ns").sort("over_ns")
    known = (
        late.join_asof(since, left_on="start_ns", right_on="at_ns", check_sortedness=False)
        .join_asof(ended, left_on="start_ns", right_on="returns_ns", strategy="forward", check_sortedness=False)
        .join_asof(begins, left_on="start_ns", right_on="next_ns", strategy="forward", check_sortedness=False)
        .join_asof(over, left_on="start_ns", right_on="over_ns", check_sortedness=False)
        .join_asof(waited, left_on="start_ns", right_on="waited_ns", check_sortedness=False)
        .with_columns(
            pl.max_horizontal(
                pl.col("since_ns").fill_null(own["start_ns"].min() if own.height else 0),
                pl.col("start_ns").shift(_MOST_LAUNCHES),
            ),
            soon_ns=pl.col("start_ns") + SOON_NS,
        )
    )
    is_open = (pl.col("began_ns") < pl.col("start_ns")).fill_null(value=False)
    from_ns = pl.when(is_open).then("began_ns").otherwise(pl.max_horizontal("over_ns", "since_ns"))
    until_ns = pl.when(is_open).then("returns_ns").otherwise("next_ns")
    # Where it waited only for a part of the way, what it did before took longer.
    is_long = 2 * (until_ns - from_ns) >= pl.col("start_ns") - pl.col("since_ns")
    is_soon = ((until_ns < pl.col("soon_ns")) & is_long).fill_null(value=False)
    # What is over so soon only now and then is so by chance.
    is_wait = is_soon & (is_soon.mean().over(is_open) >= _MOSTLY_RATIO)
    is_wait &= ~is_open | (pl.col("waiting_ratio") >= _MOSTLY_RATIO)
    return (
        known.filter(~is_wait, pl.col("since_ns") < pl.col("start_ns"))
        .filter((pl.col("until_ns") <= pl.col("start_ns")).fill_null(value=True))
        .select("window", start_ns="since_ns", end_ns="start_ns")
        .sort("window")
    )


def _with_ends(own: pl.DataFrame, done_ns: pl.Series) -> pl.DataFrame:
    """``began_ns`` and ``returns_ns`` of what it did, and how often what has its name ends as programs are over."""
    since = done_ns.unique().sort().to_frame("over_ns").with_columns(at_ns="over_ns")
    known = own.sort("end_ns").join_asof(since, left_on="end_ns", right_on="at_ns", check_sortedness=False)
    is_soon = (pl.col("end_ns") - pl.col("over_ns") < SOON_NS).fill_null(value=False)
    return known.select(began_ns="start_ns", returns_ns="end_ns", waiting_ratio=is_soon.mean().over("name"))


def laid_to_longest(shares: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Lays each gap to what took longest of all that the host did on its way to the launch that ended it.

    What it does last is what the devices happen to stand still for: without what took longest, that would be hidden.

    Args:
        shares: Parts of gaps: ``window``, ``cause``, ``responsible``, ``share_ns`` and whatever else.
        before: The same of the time before them.
    """
    is_laid = ~pl.col("cause").is_in(_FIXED)
    own = shares.filter(is_laid)
    if before.is_empty() or own.is_empty():
        return shares
    # Starting programs is one cause, whatever is started.
    named = pl.when(pl.col("cause") != LAUNCH).then("responsible")
    keys = ["window", "cause", "named"]
    earlier = before.filter(~pl.col("cause").is_in(_WAITING)).select(shares.columns)
    both = pl.concat([own, earlier]).with_columns(named=named)
    room = own.lazy().group_by("window").agg(room_ns=pl.col("share_ns").sum(), gap_end_ns=pl.col("end_ns").first())
    taken = pl.col("total_ns").cum_sum().over("window") - pl.col("total_ns")
    # Of what is both in the gap and before it, the gap's part tells when.
    first = pl.exclude(*keys, "share_ns", "place", "responsible").first()
    # Of what starts programs it is named what takes longest, as the program's own code where graphs are collected.
    longest = pl.col("responsible").sort_by("share_ns", descending=True, maintain_order=True).first()
    found = (
        both.lazy()
        .with_row_index("place")
        .group_by(keys, maintain_order=True)
        .agg(first, longest, pl.col("place").first(), total_ns=pl.col("share_ns").sum())
        .join(room, on="window")
        .sort("window", "total_ns", "place", descending=[False, True, False])
        .with_columns(share_ns=pl.min_horizontal("total_ns", (pl.col("room_ns") - taken).clip(lower_bound=0)))
        # Whenever it was done, devices stood still for it until the gap ended.
        .with_columns(end_ns="gap_end_ns")
        .filter(pl.col("share_ns") > 0)
        .select(shares.columns)
    )
    return pl.concat([shares.filter(~is_laid), done(found)])


def by_function(shares: pl.DataFrame, inside: pl.DataFrame) -> pl.DataFrame:
    """The shares, those of functions of the program by each of several that a gap has; of one name they would be one's.

    Args:
        shares: Parts of gaps, as of ``laid_to_longest``.
        inside: The same of pieces of the gaps, each of which has no more than one.
    """
    is_function = pl.col("cause") == FUNCTION
    keys = ["window", "responsible"]
    told = inside.filter(is_function).group_by(keys, maintain_order=True).agg(pl.col("share_ns").sum(), "when_ns")
    told = told.with_columns(
        pl.col("when_ns").list.last(), ratio=pl.col("share_ns") / pl.col("share_ns").sum().over("window")
    )
    known = shares.filter(is_function)
    split = known.join(told.drop("share_ns"), on="window", maintain_order="left", suffix="_told").with_columns(
        share_ns=(pl.col("share_ns") * pl.col("ratio")).round().cast(pl.Int64),
        responsible="responsible_told",
        when_ns="when_ns_told",
    )
    rest = known.join(told, on="window", how="anti", maintain_order="left")
    return pl.concat([shares.filter(~is_function), rest, split.select(shares.columns)])


def cut(spans: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """The spans in pieces, each in one of what the host did, or between these: window, start_ns, end_ns.

    Args:
        spans: ``window``, ``start_ns``, ``end_ns``.
        own: What it did, none within another.
    """
    edges = pl.concat([own["start_ns"], own["end_ns"]]).unique().sort()
    first, after = (
        pl.Series(edges.search_sorted(spans[name], side=side)).cast(pl.Int64)
        for name, side in (("start_ns", "right"), ("end_ns", "left"))
    )
    inside = spans.select("window", place=pl.int_ranges(first, after)).explode("place").drop_nulls("place")
    cuts = inside.select("window", start_ns=edges[inside["place"]])
    pieces = pl.concat([spans.select("window", "start_ns"), cuts]).sort("window", "start_ns")
    ended = pieces.join(spans.select("window", "end_ns"), on="window", how="left", maintain_order="left")
    return ended.with_columns(pl.coalesce(pl.col("start_ns").shift(-1).over("window"), "end_ns").alias("end_ns"))


def between(launches: pl.Series, *waited: pl.DataFrame) -> pl.DataFrame:
    """The time in which a host was on its way from one launch, or wait, to the next: window, start_ns, end_ns.

    Args:
        launches: When it launched programs, and when its recording began.
        waited: ``began_ns`` and ``returned_ns`` of several kinds of waits.
    """
    waits = pl.concat([each.select("began_ns", "returned_ns") for each in waited])
    stops = pl.concat([launches, waits["began_ns"], waits["returned_ns"]]).unique().sort()
    spans = pl.DataFrame({"start_ns": stops[:-1], "end_ns": stops[1:]})
    waiting = intervals.union(waits.select(start_ns="began_ns", end_ns="returned_ns"))
    return spans.filter(intervals.uncovered_ns(spans, waiting) > 0).with_row_index("window")
