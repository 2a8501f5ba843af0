"""New trace events, as the JSON text that a file of them holds."""

from __future__ import annotations

import json

import polars as pl

_PLACES = ("pid", "tid", "ns")


def arrows(ends: pl.DataFrame, *, name: str) -> list[str]:
    """An arrow of a timeline per row, as texts for ``rewrite(append=)``; viewers draw it from event to event.

    Args:
        ends: from_pid, from_tid and from_ns say where an arrow begins, to_pid, to_tid and to_ns where it ends: on which
            thread and when, in nanoseconds on the clock of the file. A viewer draws it between the innermost events
            that are there. All other columns become its args.
        name: What the arrows are called; their category as well.

    Returns:
        A text per arrow, which holds its two events.
    """
    places = {f"{side}_{place}" for side in ("from", "to") for place in _PLACES}
    told = [column for column in ends.columns if column not in places]
    args = pl.struct(told).struct.json_encode() if told else pl.lit("{}")
    both = (_end(phase, side, name, args) for phase, side in (("s", "from"), ("f", "to")))
    return ends.with_row_index("_arrow").select(text=pl.concat_str(both, separator=","))["text"].to_list()


def microseconds(ns: pl.Expr) -> pl.Expr:
    """Nanoseconds as JSON in microseconds, exact: a floating-point number could not hold them."""
    digits = ns.abs().cast(pl.String).str.zfill(4)
    sign = pl.when(ns < 0).then(pl.lit("-")).otherwise(pl.lit(""))
    return pl.concat_str(sign, digits.str.head(-3), pl.lit("."), digits.str.tail(3))


def _end(phase: str, side: str, name: str, args: pl.Expr) -> pl.Expr:
    quoted = json.dumps(name)
    binding = '"bp":"e",' if phase == "f" else ""
    return pl.concat_str(
        pl.lit(f'{{"ph":"{phase}",{binding}"cat":{quoted},"name":{quoted},"id":'),
        pl.col("_arrow"),
        pl.lit(',"pid":'),
        as_written(f"{side}_pid"),
        pl.lit(',"tid":'),
        as_written(f"{side}_tid"),
        pl.lit(',"ts":'),
        microseconds(pl.col(f"{side}_ns")),
        pl.lit(',"args":'),
        args,
        pl.lit("}"),
    )


def as_written(column: str, *, always_text: bool = False) -> pl.Expr:
    """A text as JSON; a process or thread is a number where it is written as one."""
    if always_text:
        return json_text(column)
    text = pl.col(column).cast(pl.String).fill_null("")
    is_number = text.str.contains(r"^-?(0|[1-9]\d{0,17})$")
    return pl.when(is_number).then(text).otherwise(json_text(column))


def json_text(column: str) -> pl.Expr:
    """A text as JSON; an empty one where there is none."""
    text = pl.col(column).cast(pl.String).fill_null("")
    return pl.struct(text.alias("x")).struct.json_encode().str.strip_prefix('{"x":').str.strip_suffix("}")
