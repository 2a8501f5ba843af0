"""Which communication kernels of different ranks are the same collective operation."""

from __future__ import annotations

import json
from collections.abc import Iterator

import polars as pl

from holotrace.core.plans import done
from holotrace.core.schema import Column, Unit, filled
from holotrace.core.tables import COLLECTIVES, DEVICE_EVENTS
from holotrace.core.trace import RankTrace
from holotrace.derive import (
    asked_collectives,
    busy,
    call_order,
    clock_offsets,
    grouped_messages,
    groups,
    intervals,
    untold_groups,
)
from holotrace.derive.call_shifts import KEY
from holotrace.derive.epoch import base_ns
from holotrace.derive.kernel_kinds import COMMUNICATION, COMPUTE
from holotrace.efficiency.arguments import listed

_EVENTS = DEVICE_EVENTS.only(
    *("event_id", "name", "kind", "device", "stream", "start_ns", "end_ns", "step", "launch_id")
)
_KNOWN = COLLECTIVES.only(
    *("event_id", "collective", "sequence", "group", "group_description", "group_ranks", "group_size"),
    *("in_elements", "out_elements", "element_type", "arrived_ns", "source_rank", "destination_rank"),
)
READS = (_EVENTS, _KNOWN, *asked_collectives.READS, *grouped_messages.READS)
CALLS = (
    Column("group", Unit.LABEL, "Process group; null if unknown"),
    Column("group_ranks", Unit.LABEL, "Ranks in the group, JSON; null if unknown"),
    Column("group_description", Unit.LABEL, "What the group is for; null if unknown"),
    Column("group_size", Unit.NUMBER, "Ranks in the group; null if unknown"),
    Column("collective", Unit.LABEL, "Operation, e.g. allreduce; the kernel's name if unknown"),
    Column("operation", Unit.LABEL, "Collective where its number is known, else mostly the kernel's name"),
    Column("kernel", Unit.LABEL, "Name of its kernel"),
    Column("stream", Unit.NUMBER, "Queue of the device that it ran on"),
    Column("sequence", Unit.NUMBER, "Number within the process group; null if unknown"),
    Column("element_type", Unit.LABEL, "Type of an element; null if unknown"),
    Column("element_count", Unit.COUNT, "Elements of its input or output, whichever has more; null if unknown"),
    Column("step", Unit.STEP, "Step that launched it; null outside of all steps"),
    Column("device", Unit.NUMBER, "Device it ran on; null where the rank communicates on one only"),
    Column("start_ns", Unit.NS, "Start of its kernel, since 1970 if the file says so, on the rank's own clock"),
    Column("end_ns", Unit.NS, "End of its kernel, exclusive"),
    Column("exposed_ns", Unit.NS, "Part of the kernel's time during which the rank did not compute"),
    Column("event_id", Unit.EVENT, "Its kernel"),
    Column("peer_rank", Unit.NUMBER, "Rank at the other end of a message; null for collectives, and if unknown"),
)

# Where the cores of a TPU meet before a program that exchanges data begins, as its profile calls it.
BARRIER = "barrier-cores"
# Who meets in what cores leave a barrier for.
OF_BARRIER = "cores at a barrier"
# A message of a kernel of several, which ends with the last of them: its end tells nothing of clocks.
GROUPED = "send/recv in a group"
# A kernel of several, by what starts it in PyTorch.
BATCHED = "batch_isend_irecv"
# Operations that a rank can leave before others have come to it, so that ends say nothing of clocks.
_ONE_SIDED = (
    rf"^(send|recv|{BATCHED}|gather|scatter|_?(broadcast|reduce)(_oop)?)$|kernel_(broadcast|reduce)_|permute|in a group"
)
# Of these all may stand still for the one that sends, which tells by when they end.
BUT_BROADCASTS = rf"^(send|recv|{BATCHED}|gather|scatter|_?reduce(_oop)?)$|kernel_reduce_|permute"
# The kernel that RCCL runs for all its operations.
_OF_ALL = "(?i)generic"
# Several groups of members, or pairs of them.
_SEVERAL = r"^\[\[.*\],\["
# What pairs of members send in one operation, as it is compared.
IS_PERMUTED = (pl.col("operation").cast(pl.String) == GROUPED).fill_null(value=False)
SEND, RECEIVE = grouped_messages.SEND, grouped_messages.RECEIVE


def calls(rank: RankTrace) -> pl.DataFrame:
    """One rank's communication kernels with what is known of each."""
    found = (
        rank.where(_EVENTS, pl.col("kind") == COMMUNICATION)
        .lazy()
        .join(_known(rank), on="event_id", how="left")
        .with_columns(
            # A kernel that was launched before the recording has no args, but its queue serves one group.
            *(_of_queue(column) for column in ("group", "group_ranks", "group_description", "group_size")),
            collective=pl.coalesce("collective", "name"),
            element_count=_element_count(),
        )
        .with_columns(peer_rank=_peer(rank.rank), kernel="name")
        .with_columns(operation=pl.when(pl.col("sequence").is_null()).then(_unnumbered()).otherwise("collective"))
        .sort("start_ns", "end_ns", "event_id")
    )
    # Cores that leave a barrier for it have all come to that, whatever groups they reduce in.
    is_met = pl.col("arrived_ns").is_not_null()
    met = done(
        found.with_columns(
            start_ns=pl.coalesce("arrived_ns", "start_ns"),
            group_ranks=pl.when(~is_met).then("group_ranks"),
            group_description=pl.when(is_met).then(pl.lit(OF_BARRIER, pl.Categorical())).otherwise("group_description"),
        ).with_columns(device=pl.when(pl.col("device").n_unique() > 1).then("device"))
    )
    exposed = pl.concat(_with_exposed(met, rank))[:, [column.name for column in CALLS]].lazy()
    # Ranks of one job may count from different moments.
    since_1970 = pl.col("start_ns", "end_ns") + base_ns(rank.metadata)
    return done(exposed.sort("start_ns", "end_ns", "event_id").with_columns(since_1970))


def _known(rank: RankTrace) -> pl.LazyFrame:
    """What is recorded of each operation, of kernels that are a group of messages by what the host asked for."""
    known = asked_collectives.known(rank, _KNOWN).lazy()
    messages = rank.cached(grouped_messages.of_rank)
    if messages.is_empty():
        return known
    is_one, is_sent = pl.len() == 1, pl.col("source_rank").first() == rank.rank
    one = pl.when(is_sent).then(pl.lit(SEND)).otherwise(pl.lit(RECEIVE))
    kernels = messages.group_by("event_id", maintain_order=True).agg(
        pl.col("group", "group_ranks", "group_description", "group_size", "element_type").first(),
        collective=pl.when(is_one).then(one).otherwise(pl.lit(BATCHED)),
        in_elements=pl.col("element_count").filter(pl.col("source_rank") == rank.rank).sum(),
        out_elements=pl.col("element_count").filter(pl.col("source_rank") != rank.rank).sum(),
        source_rank=pl.when(is_one & ~is_sent).then(pl.col("source_rank").first()),
        destination_rank=pl.when(is_one & is_sent).then(pl.col("destination_rank").first()),
    )
    schema = rank[_KNOWN].schema
    told = kernels.select(pl.col(name).cast(schema[name]) for name in kernels.columns)
    return pl.concat([known, told.lazy()], how="diagonal")


def barriers(rank: RankTrace) -> pl.DataFrame:
    """Barriers at which cores met before they did something else than to communicate, as ``calls`` has collectives."""
    own = rank.cached(calls)
    met = rank.where(_EVENTS, pl.col("name") == BARRIER)
    if met.is_empty():
        return own.clear()
    taken = own.select("device", start_ns=pl.col("start_ns") - base_ns(rank.metadata))
    found = (
        met.with_columns(device=pl.when(pl.col("device").n_unique() > 1).then("device"))
        .join(taken, on=["device", "start_ns"], how="anti", nulls_equal=True)
        .with_columns(
            pl.col("start_ns", "end_ns") + base_ns(rank.metadata),
            exposed_ns=pl.col("end_ns") - pl.col("start_ns"),
            collective=pl.lit(BARRIER),
            operation=pl.lit(BARRIER),
        )
    )
    return filled(found, CALLS).sort("start_ns", "end_ns", "event_id")


def _with_exposed(calls: pl.DataFrame, rank: RankTrace) -> Iterator[pl.DataFrame]:
    """The calls of each device with how long it did not compute in them."""
    computing = rank.cached(busy.of).computing
    for of_one in [calls.clear(), *calls.partition_by("device", maintain_order=True)]:
        if not of_one.is_empty() and (device := of_one["device"][0]) is not None:
            is_computing = (pl.col("kind") == COMPUTE) & (pl.col("device") == device)
            computing = rank.where(_EVENTS.only("start_ns", "end_ns"), is_computing)
        yield of_one.hstack([intervals.uncovered_ns(of_one, computing).alias("exposed_ns")])


def comparable(calls: pl.DataFrame, one_sided: str = _ONE_SIDED) -> pl.DataFrame:
    """Those calls that all of a group's ranks must have come to before any can leave: none that is ``one_sided``."""
    return calls.filter(
        (pl.col("group_size") > 1).fill_null(True),
        # Without a number the operation is the kernel's name, which may be that of messages and collectives alike.
        *(
            ~pl.col(column).cast(pl.String).str.to_lowercase().str.contains(one_sided).fill_null(False)
            for column in ("operation", "collective")
        ),
    )


def by_member(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls with each device as a rank of its own, ``of_rank`` is the one it belongs to; groups are the members'.

    A collective of XLA may join several groups of replicas; which device is which is known where all were recorded. A
    permutation is a message between the members of each pair.
    """
    member = pl.struct("rank", pl.col("device").fill_null(-1)).rank("dense").cast(pl.Int32)
    numbered = calls.with_columns(of_rank="rank", rank=member)
    keys = ["group", "group_ranks", "rank"]
    is_several = pl.col("group_ranks").cast(pl.String).str.contains(_SEVERAL).fill_null(value=False)
    taking_part = numbered.filter(is_several).select(*keys, is_permuted=IS_PERMUTED).unique().sort(keys)
    if taking_part.is_empty():
        return numbered
    own: list[list[str]] = []
    for (_, text), members in taking_part.group_by("group", "group_ranks", maintain_order=True):
        own += _groups_of(str(text), members["rank"].to_list(), is_permuted=members["is_permuted"][0])
    placed = taking_part.select(keys).with_columns(own=pl.Series(own, dtype=pl.List(pl.Categorical())))
    joined = numbered.join(placed, on=keys, how="left", nulls_equal=True, maintain_order="left").explode("own")
    return joined.with_columns(group_ranks=pl.coalesce("own", "group_ranks")).drop("own")


def _groups_of(groups: str, members: list[int], *, is_permuted: bool) -> list[list[str]]:
    """The one of several groups that each replica is in, or all its pairs; where not all are known, one of its own."""
    known = [group for group in listed(groups) if isinstance(group, list)]
    told = [replica for group in known for replica in group]
    if is_permuted:
        told = [*dict.fromkeys(told)]
    if sorted(told) != [*range(len(members))]:
        return [[f"{groups} of {member}"] for member in members]
    own: list[list[str]] = [[] for _ in members]
    for group in known:
        for replica in dict.fromkeys(group):
            own[replica].append(json.dumps(group))
    return own


def matched(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls of all members (``by_member``) that belong together, those of one collective with the same ``match``.

    Collectives that not all ranks of their group have recorded are left out, and those of groups that only one rank
    recorded.
    """
    known = _keyed(_with_groups_of_others(calls))
    numbered = _by_sequence(known)
    has_number = pl.col("sequence").is_not_null()
    unnumbered = known.filter(~has_number.any().over("key"))
    together = ["key", "position", "occurrence"]
    every = [numbered]
    if not unnumbered.is_empty():
        met = numbered.select("rank", "end_ns", match=pl.struct(together).rank("dense"))
        told, clocks = untold_groups.told(unnumbered, clock_offsets.of_ends(met))
        every.append(_by_order(_keyed(told, after=known.height), clocks))
    found = pl.concat(every)
    ordered = groups.ordered(found, [*together, "rank"]).with_columns(match=pl.struct(together).rle_id())
    members = pl.col("rank").n_unique().over("key")
    return (
        ordered.filter(members > 1, pl.len().over("match") == members)
        .with_columns(match=pl.col("match").rle_id())
        .drop(together)
    )


def _keyed(calls: pl.DataFrame, after: int = 0) -> pl.DataFrame:
    """The calls with a number for each operation of a group, ``key``, and each rank's calls of one, ``series``.

    Numbers, which come ``after`` one, are compared faster than labels.
    """
    key = groups.numbered(calls, KEY).rank("dense").cast(pl.Int64) + after
    return calls.with_columns(key.alias("key"), series=key * (pl.col("rank").max() + 1) + pl.col("rank"))


def _with_groups_of_others(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls, those of ranks of which no operators were recorded in the groups that others have in the same queue.

    What is in a group with them has no numbers either.
    """
    is_told = pl.col("group").is_not_null()
    untold = calls.filter(~is_told.any().over("of_rank"))
    told = calls.filter(is_told)
    if untold.is_empty() or told.is_empty():
        return calls
    members = pl.col("group_ranks").cast(pl.String).str.extract_all(r"\d+").list.eval(pl.element().cast(pl.Int64))
    place, of_group = ["stream", "kernel"], ["group", "group_ranks", "group_description", "group_size", "collective"]
    groups = told.select(*place, *of_group, member=members.cast(pl.List(calls.schema["of_rank"])))
    groups = groups.unique(maintain_order=True)
    own = (
        untold.select("of_rank", *place)
        .unique()
        .join(groups.explode("member"), left_on=["of_rank", *place], right_on=["member", *place])
        .unique(["of_rank", *place, "group", "group_ranks"], keep="first", maintain_order=True)
        .filter(pl.len().over("of_rank", *place) == 1)
    )
    filled = calls.join(own, on=["of_rank", *place], how="left", maintain_order="left", suffix="_of_others")
    is_filled = pl.col("group").is_null() & pl.col("group_of_others").is_not_null()
    known = filled.with_columns(
        *(pl.when(is_filled).then(f"{name}_of_others").otherwise(name).alias(name) for name in of_group),
        is_filled=is_filled,
    ).drop(f"{name}_of_others" for name in of_group)
    is_unnumbered = pl.col("is_filled").any().over("group", "group_ranks") & pl.col("group").is_not_null()
    return known.with_columns(
        operation=pl.when(is_unnumbered).then("kernel").otherwise("operation"),
        sequence=pl.when(~is_unnumbered).then("sequence"),
    ).drop("is_filled")


def _element_count() -> pl.Expr:
    """Elements of the whole message; of a scatter whose input is not known, of all ranks' outputs."""
    scattered = pl.col("collective").cast(pl.String).str.contains("scatter")
    whole = pl.when(scattered).then(pl.col("out_elements") * pl.col("group_size"))
    return pl.max_horizontal(pl.coalesce("in_elements", whole), "out_elements")


def _unnumbered() -> pl.Expr:
    """The operation of a call without a number: its kernel's name, which a graph of the device replays in turn.

    A kernel for all operations does not tell which it is, and those of several queues begin in another order on each
    rank. Where others of its queue have numbers, one that was launched before the recording has lost its own; as one of
    theirs it cannot be counted.
    """
    numbered = pl.col("collective").filter(pl.col("sequence").is_not_null()).first().over("stream")
    is_of_all = pl.col("name").cast(pl.String).str.contains(_OF_ALL).fill_null(value=False)
    is_sided = pl.col("collective").cast(pl.String).str.contains(_ONE_SIDED).fill_null(value=False)
    told = pl.when(is_of_all & ~is_sided).then("collective")
    return pl.coalesce(pl.when(pl.col("launch_id").is_null()).then(numbered), told, "name")


def _peer(rank: int) -> pl.Expr:
    """The other end of a message: as recorded, or the other one of a group of two."""
    name = pl.col("collective").cast(pl.String)
    known = pl.when(name == SEND).then("destination_rank").when(name == RECEIVE).then("source_rank")
    pair = pl.col("group_ranks").cast(pl.String).str.extract_groups(r"^\[\s*(\d+),\s*(\d+)\s*\]$")
    first, second = (pair.struct[number].cast(pl.Int64, strict=False) for number in (0, 1))
    other = pl.when(first == rank).then(second).when(second == rank).then(first)
    return pl.when(name.is_in((SEND, RECEIVE))).then(pl.coalesce(known, other))


def _of_queue(column: str) -> pl.Expr:
    """The column, where no group is known that of the other calls on the same queue if these agree."""
    one = pl.col(column).drop_nulls()
    is_one = pl.col("group").is_null() & (one.n_unique().over("stream") == 1)
    return pl.coalesce(column, pl.when(is_one).then(one.first().over("stream")))


def _by_sequence(calls: pl.DataFrame) -> pl.DataFrame:
    """Calls with a number: those with the same number belong together."""
    return (
        calls.filter(pl.col("sequence").is_not_null())
        .sort("rank", "start_ns", "end_ns")
        .with_columns(
            position=pl.col("sequence"),
            # Operations that were issued as one share a number.
            occurrence=pl.int_range(pl.len(), dtype=pl.Int64()).over("series", "sequence"),
        )
        .drop("series")
    )


def _by_order(calls: pl.DataFrame, clocks: pl.DataFrame) -> pl.DataFrame:
    """Calls of operations without numbers: their order counts, from where all ranks recorded them."""
    return call_order.placed(calls, clocks).with_columns(occurrence=pl.lit(0, pl.Int64())).drop("series")
