"""Communication as a cause: slow links, and transfers that nothing hides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from holotrace.derive.collectives import BARRIER
from holotrace.derive.totals import total
from holotrace.diagnosis.job import links, over_time, tokens, unrecorded_ranks
from holotrace.diagnosis.job.backward import BUCKET_BYTES, ELEMENT_BYTES, OF_GROUP, Backward, computed
from holotrace.diagnosis.job.candidates import Candidate, Job
from holotrace.diagnosis.job.meetings import Change
from holotrace.diagnosis.job.unrecorded_ranks import ABSENT, MESSAGES
from holotrace.diagnosis.rank import account
from holotrace.diagnosis.rank.pace import USUAL_QUANTILE
from holotrace.diagnosis.words.classes import EXPOSED, SLOW_LINK, SYNCHRONIZATION

# What waiting exposes.
EXPOSES = "exposes"
# Transfers of equal size take so much longer in the steps of a link that becomes slow; what else runs at the same time
# matters less than that.
_SLOW_STEPS_RATIO = 2.0
# So much longer they take at least, where it is not known how long those take that are hidden.
_AWAITED_STEPS_RATIO = 1.5
# Devices stand still for so much at least of what is not hidden.
_LEAST_EXPOSED_RATIO = 0.1
# What starts so soon after another transfer was waiting for that.
_AT_ONCE_NS = 50_000
_WHOLE, _GATHER, _SCATTER, _REDUCE = r"(?i)all_?reduce", "(?i)gather", "(?i)scatter", "(?i)reduce"
# Evidence: how many of the gathers are followed by a scatter before the next; of parameters no more than half are.
SCATTERED, _SCATTERED_RATIO = "scattered_ratio", 0.6
# Evidence: how much of a step's computing, until its last reduction, comes before the first; at least the forward pass,
# a third of it, where gradients are reduced, and all of it where they are reduced after the backward pass.
BEFORE, IN_BACKWARD = "before_ratio", (0.3, 0.95)
# Parts of a step's gradients are not as many times smaller than others: losses and statistics are.
_SMALLER_TIMES = 1_000
# A transfer of which so much is exposed is not hidden.
_MOSTLY_RATIO = 0.5


def causes(job: Job) -> Iterator[Candidate]:
    """Slow links, and exposed transfers."""
    if job.visits.is_empty():
        return
    meetings = _transferred(replace(job, visits=job.visits.filter(pl.col("collective").cast(pl.String) != BARRIER)))
    # Programs of XLA reduce gradients whenever their compiler says.
    is_xla = not job.rows.is_empty() and account.XLA in job.of(account.WINDOW)["detail"]
    if not is_xla and max([_world_size(job), *meetings["size"]]) == len(job.ranks):
        # Of what only some have recorded, as recordings begin and end elsewhere, nobody knows when all had come.
        meetings = meetings.filter(pl.col("absent") <= 0)
    is_on_host = not job.rows.is_empty() and account.ON_HOST in job.of(account.WINDOW)["name"]
    is_timed = pl.col("is_timed") | pl.lit(not is_xla)
    slow_links = [*links.of_groups(meetings.filter(is_timed)), *links.awaited(meetings.filter(~is_timed))]
    known = [match for link in slow_links for match in link.change.transfer]
    others = meetings.filter(~pl.col("match").is_in(known))
    slow_links += [*_slow_steps(others.filter(is_timed), job.ranks), *_awaited_in_steps(others.filter(~is_timed), job)]
    # Processes that share the cores of a host move the same data in many times as long.
    waits = [*unrecorded_ranks.causes(meetings.filter(is_timed & ~pl.lit(is_on_host)), job.ranks)]
    yield from (*slow_links, *waits)
    # What these cost is no matter of hiding transfers, nor is what a rank gets beyond its share.
    slower = tokens.even_ratios(job)
    for found in (*slow_links, *waits):
        slower |= found.change.transfer
    slow = sorted(slower.items())
    ratios = pl.DataFrame(slow, schema={"match": meetings.schema["match"], "usual_ratio": pl.Float64}, orient="row")
    beside = meetings.join(ratios, on="match", how="left").with_columns(pl.col("usual_ratio").fill_null(1.0))
    beside = beside.with_columns(pl.col("exposed_transfer_ns") * pl.col("usual_ratio")).sort("match")
    late = _held_back(beside)
    yield from _synchronized(late, len(job.ranks))
    beside = beside.filter(~pl.col("match").is_in(pl.lit(late["match"]).implode()))
    # Of the schedule of a pipeline, by which its stages wait in messages, one that was recorded alone tells nothing.
    is_of_half = pl.col("collective").str.contains(MESSAGES) & (pl.col("absent") > 0)
    # What devices do in a part of a program is no share of what they do in a step.
    is_part = is_xla and job.of(account.WORK).is_empty()
    yield from _exposed(beside.filter(~is_of_half & ~pl.lit(is_part)), job, in_buckets=not is_xla)


def is_gathered(collective: object) -> bool:
    """Whether a collective of that name, or of that kernel's, gathers."""
    return re.search(_GATHER, str(collective)) is not None


def gathers_parameters(found: Candidate) -> bool:
    """Whether it gathers what is there all along, and not what was computed last, and is scattered again at once.

    Tensor parallelism with sequences in parallel does so in the forward pass, too.
    """
    return is_gathered(found.responsible) and found.evidence.get(SCATTERED, 0.0) <= _SCATTERED_RATIO


def _transferred(job: Job) -> pl.DataFrame:
    """Each meeting with how long its data took once all had come, and how much of that was exposed."""
    come = pl.col("arrival_ns").max().over("match")
    return (
        job.visits.with_columns(transfer_ns=(pl.col("left_ns") - come).clip(lower_bound=0))
        .with_columns(exposed_transfer_ns=pl.min_horizontal("exposed_ns", "transfer_ns"))
        .with_columns(hidden_ns=pl.col("transfer_ns") - pl.col("exposed_transfer_ns"))
        .group_by("match")
        .agg(
            pl.col("group_ranks", "collective", "element_type", "step", "group_size").first(),
            # An exchange lasts until the rank has its data that gets the most.
            pl.col("transfer_ns", "element_count").max(),
            pl.col("exposed_transfer_ns").min(),
            # A rank that has all its data before others has hidden nothing by that.
            pl.col("hidden_ns").max(),
            pl.col("left_ns").max(),
            start_ns=pl.col("arrival_ns").min(),
            come_ns=pl.col("arrival_ns").max(),
            member_ranks=pl.col("rank").sort(),
            # Kernels begin as their rank comes.
            is_timed=pl.col("queue").is_not_null().all() if "queue" in job.visits.columns else pl.lit(value=False),
            held_back=(pl.col("cause") == SYNCHRONIZATION).mean() if "cause" in job.visits.columns else pl.lit(0.0),
            group=pl.col("group").first().cast(pl.String) if "group" in job.visits.columns else pl.lit(None, pl.String),
            waits_in=pl.col("name").drop_nulls().first() if "name" in job.visits.columns else pl.lit(None, pl.String),
        )
        .with_columns(
            pl.col("collective").cast(pl.String),
            pl.col("element_type").cast(pl.String),
            # Members may be missing from the recording; of a group that nothing is known of, all ranks are members.
            size=pl.coalesce(
                pl.col("group_size").cast(pl.UInt32, strict=False),
                pl.when(pl.col("member_ranks").list.n_unique() == len(job.ranks)).then(_world_size(job)),
                pl.col("member_ranks").list.len(),
            ),
        )
        .with_columns(
            absent=pl.col("size").cast(pl.Int64) - pl.col("member_ranks").list.n_unique().cast(pl.Int64),
        )
        .join(links.nodes(job), on="match", how="left")
        .sort("match")
    )


def _world_size(job: Job) -> int:
    """How many ranks the job has, whether or not they were recorded."""
    known = () if job.rows.is_empty() else job.of(account.WINDOW)["count"]
    return max((len(job.ranks), *(count or 0 for count in known)))


def _slow_steps(meetings: pl.DataFrame, ranks: tuple[int, ...]) -> Iterator[Candidate]:
    """Groups whose transfers take longer in some steps than those of equal size in others."""
    alike = [*links.MEMBERS, "collective", "element_count", "element_type", "place"]
    whole = meetings.drop_nulls("step").filter(pl.col("absent") <= 0).sort("come_ns")
    # Steps send the same in the same order, where no size is known, or each has its own, as with tokens of experts.
    place = pl.int_range(pl.len()).over("step", *links.MEMBERS, "collective")
    kind = [*links.MEMBERS, "collective", "element_type"]
    times = pl.col("step").n_unique().over(*kind, "element_count").min().over(kind)
    is_of_size = pl.col("element_count").is_not_null() & (2 * times >= pl.col("step").n_unique().over(kind))
    placed = whole.with_columns(
        place=pl.when(~is_of_size).then(place),
        element_count=pl.when(is_of_size).then("element_count"),
        elements=pl.col("element_count").fill_null(1).clip(lower_bound=1),
    )
    rate = pl.col("transfer_ns") / pl.col("elements")
    usual = rate.quantile(USUAL_QUANTILE, "lower").over(alike) * pl.col("elements")
    # Of other sizes than those of other steps the rate is another.
    is_alike = (pl.col("elements") / pl.col("elements").median().over(alike)).is_between(0.5, 2)
    sized = placed.with_columns(usual_ns=pl.when(is_alike).then(usual).otherwise("transfer_ns"))
    yield from _longer_in_steps(sized.with_columns(is_told=pl.lit(value=True)), _SLOW_STEPS_RATIO, ranks)


def _awaited_in_steps(meetings: pl.DataFrame, job: Job) -> Iterator[Candidate]:
    """The same of programs of XLA, whose devices stand still for a transfer longer in some steps than in others.

    How long one takes that is hidden is not known, but that it takes no longer than until it is awaited; one that is
    hidden in all steps tells nothing.
    """
    own = [*links.MEMBERS, "collective", "group"]
    is_told = pl.col("exposed_transfer_ns").max().over(own) > _LEAST_EXPOSED_RATIO * pl.col("transfer_ns")
    usual = pl.col("exposed_transfer_ns").quantile(USUAL_QUANTILE, "lower").over(own)
    longer = (pl.col("exposed_transfer_ns") - usual).clip(lower_bound=0)
    whole = meetings.drop_nulls(["step", "group"]).filter(pl.col("absent") <= 0).sort("come_ns")
    yield from _longer_in_steps(
        whole.with_columns(usual_ns=pl.col("transfer_ns") - longer, is_told=is_told), _AWAITED_STEPS_RATIO, job.ranks
    )


def _longer_in_steps(sized: pl.DataFrame, least_ratio: float, ranks: tuple[int, ...]) -> Iterator[Candidate]:
    """Groups whose transfers take so much longer in some steps than usually, ``usual_ns``."""
    for (members,), table in sized.group_by("member_ranks", maintain_order=True):
        ratio = pl.col("transfer_ns").sum() / pl.col("usual_ns").sum()
        told = table.filter(pl.col("usual_ns") > 0, "is_told")
        ratios = dict(told.group_by("step").agg(ratio).iter_rows())
        steps = over_time.slow(ratios, least_ratio)
        longer = table.filter(pl.col("step").is_in(steps), pl.col("transfer_ns") > pl.col("usual_ns"))
        if longer.is_empty():
            continue
        longest = longer.sort("transfer_ns", "match").row(-1, named=True)
        yield Candidate(
            SLOW_LINK,
            Change(transfer=dict(longer.select("match", pl.col("usual_ns") / pl.col("transfer_ns")).iter_rows())),
            () if len(set(members)) == len(ranks) else tuple(members),
            steps,
            longest["collective"],
            start_ns=longest["start_ns"],
            evidence={
                "time_ratio": round(total(longer["transfer_ns"]) / total(longer["usual_ns"]), 3),
                "count": longer.height,
                "than": "with equal size in the other steps",
            },
        )


def _held_back(meetings: pl.DataFrame) -> pl.DataFrame:
    """Gathers that would have been on their way earlier, had most hosts not waited for their devices before them.

    The first of a step gathers what the step before has changed last, and cannot be; nor can those of what was computed
    last, which is scattered again.
    """
    gathers = _with_next(meetings).filter(pl.col("collective").str.contains(_GATHER)).sort("come_ns")
    is_first = pl.int_range(pl.len()).over("step", "group_ranks") == 0
    scattered = pl.col("is_scattered").mean().over("member_ranks", "collective", "element_count")
    of_parameters = gathers.filter(~is_first, scattered <= _SCATTERED_RATIO)
    held = of_parameters.filter(pl.col("held_back") > _MOSTLY_RATIO, pl.col("exposed_transfer_ns") > 0)
    return held.sort("match")


def _synchronized(late: pl.DataFrame, rank_count: int) -> Iterator[Candidate]:
    """Waits of hosts that expose what they launch after them."""
    for (name,), table in late.drop_nulls("waits_in").group_by("waits_in", maintain_order=True):
        hidden = 1 - pl.col("exposed_transfer_ns") / pl.col("transfer_ns")
        yield Candidate(
            SYNCHRONIZATION,
            Change(transfer=dict(table.select("match", hidden).iter_rows())),
            (),
            tuple(sorted(table["step"].drop_nulls().unique())),
            str(name),
            start_ns=table.sort("exposed_transfer_ns")["start_ns"][-1],
            evidence={"time_ns": int(table["exposed_transfer_ns"].sum()), "count": rank_count * table.height}
            | {EXPOSES: table["collective"][0]},
        )


def _exposed(meetings: pl.DataFrame, job: Job, *, in_buckets: bool) -> Iterator[Candidate]:
    """Collectives whose transfer nothing hides."""
    ranks = job.ranks if len(job.ranks) == 1 else ()
    # What devices of a host compute while others of it communicate is no measure for programs of XLA.
    beside = computed(job if in_buckets else replace(job, rows=job.rows.clear()))
    # A server has no steps.
    turns = max(() if job.rows.is_empty() else job.of(account.TURNS)["count"].to_list(), default=0)
    # Gathers of other sizes are of other parameters, which may be prefetched where these are not.
    is_gather = pl.col("collective").str.contains(_GATHER)
    sized = _with_next(meetings).with_columns(
        size=pl.when(is_gather).then("element_count"),
        parallel=pl.when(is_gather | pl.col("collective").str.contains(_REDUCE)).then(_parallel()),
    )
    for (name, _, _), alike in sized.group_by("collective", "size", "parallel", maintain_order=True):
        is_reduced = re.search(_REDUCE, str(name)) is not None
        is_reduction = in_buckets and is_reduced
        every = _of_gradients(alike) if is_reduction else alike
        if is_reduced:
            hideable = _but_the_last(every) if in_buckets else _before_the_last(every)
        else:
            hideable = _since_the_last(every) if is_gathered(name) else every
        backward = Backward(job, every)
        room = backward.room() if is_reduction else beside
        table = _within_what_hides(hideable, every, room).filter(pl.col("exposed_transfer_ns") > 0)
        if table.is_empty():
            continue
        hidden = {
            match: 1 - exposed / transfer if transfer else 1.0
            for match, exposed, transfer in table.select("match", "exposed_transfer_ns", "transfer_ns").iter_rows()
        }
        absent = max(0, int(table.sort("exposed_transfer_ns")["absent"][-1]))
        # What waits in a row for a slow link would not without it.
        usually = every.filter(pl.col("usual_ratio") == 1.0)
        usually = every if usually.is_empty() else usually
        mostly = usually.filter(pl.col("exposed_transfer_ns") > _MOSTLY_RATIO * pl.col("transfer_ns"))
        yield Candidate(
            EXPOSED,
            Change(transfer=hidden),
            ranks,
            tuple(sorted(table["step"].drop_nulls().unique())),
            str(name),
            start_ns=table.sort("exposed_transfer_ns")["start_ns"][-1],
            evidence={
                "time_ns": int(table["exposed_transfer_ns"].sum()),
                "count": table.height,
                "per_step_count": _of_one(every, job) / max(1, every["step"].n_unique(), turns),
                "exposed_ratio": round(mostly.height / usually.height, 3),
                **({ABSENT: absent} if absent else {}),
                **({SCATTERED: round(usually["is_scattered"].sum() / usually.height, 3)} if is_gathered(name) else {}),
                **(
                    {
                        "in_a_row_ratio": round(_in_a_row(usually), 3),
                        "bucket_count": _buckets(usually),
                        BEFORE: round(backward.before_ratio(), 3),
                    }
                    if is_reduction
                    else {}
                ),
            },
        )


def _parallel() -> pl.Expr:
    """What tells groups of one kind of parallelism from those of others: how many ranks they have, and how far apart.

    Of tensor and of data parallelism both reduce, but gradients wait for nobody.
    """
    ranks = pl.col("member_ranks").list.unique(maintain_order=True)
    first, second = (ranks.list.get(place, null_on_oob=True).cast(pl.Int64) for place in (0, 1))
    return pl.struct(pl.col("size").cast(pl.Int64), apart=second - first)


def _with_next(meetings: pl.DataFrame) -> pl.DataFrame:
    """The meetings, and whether what each group gathers or scatters next in the step is scattered."""
    both = meetings.filter(pl.col("collective").str.contains(f"{_GATHER}|{_SCATTER}")).sort("come_ns")
    is_scatter = pl.col("collective").str.contains(_SCATTER)
    then = both.select("match", is_scattered=is_scatter.shift(-1).over("step", *links.MEMBERS).fill_null(value=False))
    return meetings.join(then, on="match", how="left", maintain_order="left")


def _of_one(meetings: pl.DataFrame, job: Job) -> float:
    """How many of the meetings one device of one of their ranks takes part in, on average."""
    members = meetings["member_ranks"].explode()
    device = pl.col("device").n_unique() if "device" in job.visits.columns else pl.lit(1).alias("device")
    count: int = max(job.visits.group_by("rank").agg(device)["device"])
    return len(members) / max(1, members.n_unique() * count)


def _within_what_hides(hideable: pl.DataFrame, every: pl.DataFrame, room: pl.DataFrame) -> pl.DataFrame:
    """What could be hidden, no more in a step than the ``room`` of its computing that hides none of them yet."""
    hidden = every.group_by(*OF_GROUP).agg(pl.col("hidden_ns").sum())
    known = (
        hideable.drop("hidden_ns")
        .join(hidden, on=OF_GROUP, how="left", nulls_equal=True)
        .join(room, on="step", how="left", nulls_equal=True)
    )
    left = (pl.col("computed_ns") - pl.col("hidden_ns")).clip(lower_bound=0)
    part = (left / pl.col("exposed_transfer_ns").sum().over(OF_GROUP)).clip(upper_bound=1).fill_nan(1)
    # Of a step that computes nothing, as one of which the recording has the end only, nothing hides any.
    unknown = 0 if room.height else 1
    return known.with_columns(pl.col("exposed_transfer_ns") * part.fill_null(unknown)).sort("match")


def _since_the_last(gathers: pl.DataFrame) -> pl.DataFrame:
    """Gathers as far as something can hide them: they come one after the other, so only what runs between two can."""
    ordered = gathers.sort("come_ns")
    between = pl.col("come_ns") - pl.col("left_ns").shift(1).over(OF_GROUP)
    hideable = pl.min_horizontal("exposed_transfer_ns", between.clip(lower_bound=0))
    return ordered.with_columns(exposed_transfer_ns=hideable).sort("match")


def _of_gradients(reductions: pl.DataFrame) -> pl.DataFrame:
    """Reductions without those of a loss or of statistics, which are small and may come last."""
    size = pl.col("element_count")
    return reductions.filter((_SMALLER_TIMES * size >= size.max().over(OF_GROUP)).fill_null(value=True))


def _but_the_last(reductions: pl.DataFrame) -> pl.DataFrame:
    """Reductions without what nothing can hide: the last bucket of a step, whose gradients are computed last."""
    size = pl.col("element_count").cast(pl.Float64) * ELEMENT_BYTES
    # What is reduced as a whole can be cut into buckets; several are as large as the job has them.
    is_whole = pl.len().over(OF_GROUP) == 1
    bucket = pl.when(is_whole).then((BUCKET_BYTES / size).clip(0, 1)).otherwise(1.0)
    is_last = pl.col("come_ns") == pl.col("come_ns").max().over(OF_GROUP)
    left = pl.when(is_last).then(bucket.fill_null(1.0)).otherwise(0.0)
    hideable = pl.col("exposed_transfer_ns") - (left * pl.col("transfer_ns"))
    return reductions.with_columns(exposed_transfer_ns=hideable.clip(lower_bound=0))


def _before_the_last(reductions: pl.DataFrame) -> pl.DataFrame:
    """Reductions of programs, without what is awaited when the last of a step has begun: nothing is left to hide it.

    Loops run one instruction several times in a step. Before the first step a recording may have several runs.
    """
    again = pl.int_range(pl.len()).over("step", *links.MEMBERS, "group", order_by="come_ns", descending=True)
    run = [*OF_GROUP, "run"]
    numbered = reductions.with_columns(run=pl.when(pl.col("step").is_null()).then(again))
    last_ns = pl.col("come_ns").max().over(*run, *links.MEMBERS, "group").min().over(*run, "group").max().over(run)
    are_several = pl.len().over(*run, *links.MEMBERS) > 1
    is_hideable = ~are_several | (pl.col("left_ns") < last_ns - _AT_ONCE_NS)
    hideable = pl.when(is_hideable).then("exposed_transfer_ns").otherwise(0)
    return numbered.with_columns(exposed_transfer_ns=hideable).drop("run")


def _buckets(reductions: pl.DataFrame) -> int:
    """How many buckets the only reduction of most steps could be; what is scattered is of units of the model."""
    is_whole = pl.col("collective").str.contains(_WHOLE)
    alone = reductions.filter(pl.len().over(OF_GROUP) == 1, is_whole)
    if 2 * alone.height < reductions.height:
        return 1
    count = alone["element_count"].drop_nulls().median()
    return max(1, int(count * ELEMENT_BYTES // BUCKET_BYTES)) if isinstance(count, (int, float)) else 1


def _in_a_row(reductions: pl.DataFrame) -> float:
    """How many of the reductions that follow another in their step begin as soon as it ends."""
    before = pl.col("left_ns").shift(1).over(OF_GROUP)
    after = reductions.sort("come_ns").select("transfer_ns", after_ns=pl.col("come_ns") - before).drop_nulls("after_ns")
    # Where transfers are as short as that, something may have been computed between them.
    soon = after.filter(pl.col("after_ns") < _AT_ONCE_NS, pl.col("after_ns") < _MOSTLY_RATIO * pl.col("transfer_ns"))
    return soon.height / max(1, after.height)
