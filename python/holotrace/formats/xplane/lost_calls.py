"""Which calls execute operations of CPU devices whose way back to a call is lost, or leads to another's."""

from __future__ import annotations

import polars as pl

from holotrace.core.on_demand import Rows


def continued(operations: Rows, mark: pl.Series) -> pl.Series:
    """With that of the execution under way for operations that lead back to no call, as some versions of XLA have them.

    What goes on in another thread after a wait may have lost where it came from. Executions of one program that are
    under way at once, on several devices, leave open whose such an operation is.
    """
    if not mark.null_count() or mark.null_count() == len(mark):
        return mark
    rows = operations.select("program_id", "start_ns").with_columns(mark).with_row_index("at").sort("start_ns")
    spans = _alone(rows)
    lost = rows.filter(pl.col("mark").is_null()).drop("mark")
    found = lost.join_asof(
        spans, left_on="start_ns", right_on="begun_ns", by="program_id", check_sortedness=False
    ).drop_nulls("mark")
    return mark.scatter(found["at"], found["mark"])


def _alone(rows: pl.DataFrame) -> pl.DataFrame:
    """When executions began, ``program_id``, ``mark`` and ``begun_ns``: of programs that run one after the other."""
    spans = (
        rows.drop_nulls("mark")
        .group_by("program_id", "mark")
        .agg(begun_ns=pl.col("start_ns").min(), last_ns=pl.col("start_ns").max())
        .sort("begun_ns", "mark")
    )
    before_ns = pl.col("last_ns").cum_max().shift(1).over("program_id")
    return spans.filter((pl.col("begun_ns") > before_ns).fill_null(value=True).all().over("program_id"))


def begun_before(operations: Rows, mark: pl.Series, calls: pl.DataFrame) -> pl.Series:
    """With the call of executions at the beginning that lead back to a call from before the recording.

    They waited for an execution that was under way then. They begin with the operation with which the later ones of
    their program do; the first calls, which seem to execute nothing, are theirs, if there are just as many.
    """
    if not mark.null_count() or mark.null_count() == len(mark):
        return mark
    columns = ("program_id", "instruction", "start_ns", "end_ns")
    rows = operations.select(*columns).with_columns(mark).with_row_index("at")
    rows = rows.sort("start_ns", "end_ns", descending=[False, True])
    known = rows.join(_alone(rows), on=["program_id", "mark"], how="semi", maintain_order="left")
    firsts = known.unique("mark", keep="first", maintain_order=True).select("program_id", "instruction").unique()
    firsts = firsts.filter(pl.len().over("program_id") == 1)
    lost = rows.filter(pl.col("mark").is_null()).select("at", "program_id", "instruction", "start_ns")
    begins = lost.join(firsts, on=["program_id", "instruction"], how="semi", maintain_order="left")
    used = calls.join(rows.select(event_id="mark").drop_nulls(), on="event_id", how="semi")["start_ns"].min()
    idle = calls.filter(pl.col("start_ns") < used).sort("start_ns")
    if begins.height != idle.height or (begins["start_ns"] < idle["start_ns"]).any():
        return mark
    begins = begins.select("program_id", "start_ns").hstack([idle["event_id"].alias("call")])
    found = lost.join_asof(begins, on="start_ns", by="program_id", check_sortedness=False).drop_nulls("call")
    return mark.scatter(found["at"], found["call"])


def turns(kernels: pl.DataFrame) -> pl.Series:
    """How many executions of their program have begun up to each of the kernels without one; null for all others.

    They were launched before the recording. An execution begins with the operation with which all do of which the call
    is known, if that runs once in each of these.
    """
    own = ["device", "program_id"]
    rows = kernels.select(*own, "execution", "instruction", "start_ns").with_row_index("at").sort("start_ns", "at")
    known = rows.drop_nulls("execution")
    firsts = known.unique([*own, "execution"], keep="first", maintain_order=True).select(*own, "instruction")
    counts = known.join(firsts.unique(), on=[*own, "instruction"], how="semi").group_by(own).len()
    begin = firsts.group_by(own).agg(pl.len().alias("times"), pl.col("instruction").unique()).join(counts, on=own)
    begin = begin.filter(pl.col("instruction").list.len() == 1, pl.col("times") == pl.col("len"))
    lost = rows.filter(pl.col("execution").is_null())
    begins = lost.join(begin.select(*own, first=pl.col("instruction").list.first()), on=own, how="left")
    begun = (pl.col("instruction") == pl.col("first")).fill_null(value=False)
    told = begins.sort("start_ns", "at").select("at", turn=begun.cum_sum().over(own))
    turn = pl.repeat(None, kernels.height, dtype=told.schema["turn"], eager=True)
    return turn.scatter(told["at"], told["turn"]).alias("turn")


def of_each_execution(operations: Rows, mark: pl.Series, calls: pl.DataFrame) -> pl.Series:
    """With a call for each execution of a program, where those that wait for it lead back to the call of the first.

    An execution begins with the operation that was the very first of its program, which is in no loop and so runs once
    in each. The calls that seem to execute nothing are, in their order, those of the executions after the first, if
    there are just as many.

    Args:
        operations: Those of CPU devices.
        mark: The call that each leads back to.
        calls: All calls that execute programs: event_id, start_ns.
    """
    columns = ("program_id", "instruction", "start_ns", "end_ns")
    rows = operations.select(*columns).with_columns(mark).with_row_index("at").drop_nulls("mark")
    used = calls.join(rows.select(event_id="mark"), on="event_id", how="semi").sort("start_ns")
    idle = calls.join(used, on="event_id", how="anti").sort("start_ns")
    if idle.is_empty() or used.is_empty():
        return mark
    # What contains others begins before them, or with them and ends later.
    rows = rows.sort("start_ns", "end_ns", descending=[False, True])
    firsts = rows.unique(["mark", "program_id"], keep="first", maintain_order=True)
    firsts = firsts.select("mark", "program_id", "instruction")
    begins = rows.join(firsts, on=["mark", "program_id", "instruction"], how="semi", maintain_order="left")
    begins = begins.select("mark", "program_id", "start_ns", place=pl.int_range(pl.len()).over("mark"))
    owners = used.select("start_ns", mark="event_id")
    own = idle.join_asof(owners, on="start_ns").select("mark", call="event_id").drop_nulls()
    own = own.with_columns(place=pl.int_range(1, pl.len() + 1).over("mark"))
    counts = begins.group_by("mark").agg(begun=pl.len())
    whole = own.group_by("mark").agg(known=pl.len() + 1).join(counts, on="mark")
    own = own.join(whole.filter(pl.col("known") == pl.col("begun")), on="mark", how="semi")
    asked = rows.drop("end_ns").join(own, on="mark", how="semi").sort("start_ns")
    once = _in_turn(asked, begins)
    others = asked.drop("instruction").join(once, on="at", how="anti", maintain_order="left")
    placed = others.join_asof(begins, on="start_ns", by=["mark", "program_id"], check_sortedness=False)
    found = pl.concat([once, placed.select(once.columns)]).join(own, on=["mark", "place"])
    return mark.scatter(found["at"], found["call"])


def _in_turn(asked: pl.DataFrame, begins: pl.DataFrame) -> pl.DataFrame:
    """at, mark and place of operations that run once in each execution: threads begin some before the first.

    Args:
        asked: Operations by start.
        begins: When each execution begins: mark, program_id, place, start_ns. Two at once have no order.
    """
    program, turn = ["mark", "program_id"], pl.int_range(pl.len())
    ordered = begins.filter(~pl.col("start_ns").is_duplicated().any().over(program))
    turns = ordered.select(*program, "place", turn=turn.over(program))
    of_each = [*program, "instruction"]
    # Of millions of operations in loops no more is needed than how many there are.
    counts = asked.group_by(of_each).len().join(ordered.group_by(program).agg(times=pl.len()), on=program)
    once = asked.join(counts.filter(pl.col("len") == pl.col("times")), on=of_each, how="semi", maintain_order="left")
    return once.with_columns(turn=turn.over(of_each)).join(turns, on=[*program, "turn"]).select("at", "mark", "place")


def in_order(operations: Rows, mark: pl.Series, calls: pl.DataFrame) -> pl.Series:
    """With the calls in the order of the executions, where no operation leads back to any: threads do not tell.

    Executions begin with the very first operation of their program. They are known if there are as many as calls, and
    those of a program have equally many operations: on several devices at once they would not.
    """
    if calls.is_empty() or mark.null_count() < len(mark):
        return mark
    rows = operations.select("program_id", "instruction", "start_ns", "end_ns").with_row_index("at")
    rows = rows.sort("start_ns", "end_ns", descending=[False, True])
    firsts = rows.unique("program_id", keep="first", maintain_order=True).select("program_id", "instruction")
    begins = rows.join(firsts, on=["program_id", "instruction"], how="semi", maintain_order="left")
    calls = calls.sort("start_ns")
    if begins.height != calls.height or (begins["start_ns"] < calls["start_ns"]).any():
        return mark
    begins = begins.select("program_id", "start_ns").hstack([calls["event_id"].alias("call")])
    found = rows.join_asof(begins, on="start_ns", by="program_id", check_sortedness=False)
    sizes = found.group_by("program_id", "call").len().group_by("program_id").agg(pl.col("len").n_unique())
    return mark.scatter(found["at"], found["call"]) if (sizes["len"] == 1).all() else mark
