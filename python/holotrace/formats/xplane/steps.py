"""Steps of a profile: marked on the host, by the device, or inferred from a program that runs again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from holotrace.core.tables import STEPS
from holotrace.formats.xplane.profile import Profile

# A program is the step's own if it ran so often, makes up so much of its device's work, and did so in so much of the
# time.
_LEAST_RUNS = 3
_LEAST_SHARE = 0.5
# Its variants ran at most so often in its place.
_MOST_VARIANTS = 0.5


@dataclass(frozen=True)
class Steps:
    """Steps, where they were found, and how programs find theirs."""

    # event_id, step, start_ns, end_ns; by start.
    frame: pl.DataFrame
    # host, device, inferred or none.
    kind: str
    # What the steps were inferred from, in words.
    rule: str = ""
    # module_id and step of executions, on whatever device they ran; null of those that are in none.
    runs: pl.DataFrame | None = None
    # Whether the program numbered them itself, so that a number is the same step in every profile of the job.
    are_numbered: bool = False
    # What they are called, and what others are called that had some of their numbers.
    name: str = ""
    others: tuple[str, ...] = ()

    def at(self, time_ns: pl.Series) -> pl.Series:
        """The step in which each time lies; null outside of all."""
        points = pl.DataFrame({"time_ns": time_ns}).with_row_index("point").sort("time_ns")
        found = points.join_asof(
            self.frame.select("step", "start_ns", "end_ns").sort("start_ns"), left_on="time_ns", right_on="start_ns"
        ).sort("point")
        return found.select(pl.when(pl.col("time_ns") < pl.col("end_ns")).then("step")).to_series()

    def of(self, modules: pl.DataFrame) -> pl.Series:
        """The step of each execution of a program."""
        if self.kind == "host":
            numbers = self.frame.select("step", root="event_id")
            by_root = modules.select("root").join(numbers, on="root", how="left", maintain_order="left")["step"]
            step: pl.Series = by_root.zip_with(by_root.is_not_null(), self.at(modules["launch_ns"]))
            return step
        if self.runs is None:
            return self.at(modules["start_ns"])
        # Devices begin a step at slightly different times: of the program that makes the steps, the order decides.
        by_order = modules.select("module_id").join(self.runs, on="module_id", how="left", maintain_order="left")[
            "step"
        ]
        is_told = modules["module_id"].is_in(self.runs["module_id"].implode())
        known: pl.Series = by_order.zip_with(is_told, self.at(modules["start_ns"]))
        return known


def _steps(found: pl.DataFrame, kind: str, rule: str = "") -> Steps:
    frame = found.select(pl.col("event_id").cast(pl.UInt32), pl.col("step").cast(pl.Int64), "start_ns", "end_ns").sort(
        "start_ns"
    )
    return Steps(frame, kind if frame.height else "none", rule)


def marked(profile: Profile) -> Steps:
    """Steps that the host marked: spans that are a root and have a number, whatever their name.

    What is marked within a step is a part of it. Where numbers occur twice, the steps are those of the name that takes
    most of the time, e.g. training and not evaluation; if they still do, as where each epoch begins with 0, the order
    numbers them.
    """
    columns = ("event_id", "line", "name", "start_ns", "end_ns", "_r", "step_num", "iter_num", "hlo_op")
    roots = profile.events(columns, "host", having="_r").filter(pl.col("_r") == 1).sort("start_ns")
    before_ns = pl.col("end_ns").cum_max().shift(1).over("line")
    roots = roots.filter((pl.col("start_ns") >= before_ns).fill_null(True))
    own, order = pl.coalesce("step_num", "iter_num"), pl.int_range(pl.len())
    are_numbered = bool(roots.height) and not roots.select(own.is_null().any()).item()
    roots = roots.with_columns(step=pl.coalesce(own, order), name=pl.col("name").cast(pl.String))
    name, others = "", list[str]()
    if roots["step"].is_duplicated().any():
        taken = roots.group_by("name").agg(took_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        name, *others = taken.sort("took_ns", "name", descending=[True, False])["name"]
        roots = roots.filter(name=name)
        if roots["step"].is_duplicated().any():
            roots, are_numbered = roots.with_columns(step=order), False
    found = _steps(roots, "host")
    return replace(found, are_numbered=are_numbered, name=name, others=tuple(others))


def of_device(profile: Profile, modules: pl.DataFrame) -> Steps:
    """Steps that the first device's line Steps shows; what ran on another device is in the steps of its own line.

    Devices begin a step at slightly different times, so that the first one's times would put a program that another
    begins a moment earlier into the step before.
    """
    found = profile.events(["event_id", "line", "name", "start_ns", "end_ns"], "steps")
    number = pl.col("name").cast(pl.String).str.extract(r"(\d+)").cast(pl.Int64)
    found = found.with_columns(step=number).filter(pl.col("step").is_not_null()).sort("start_ns")
    lines = profile.lines.select("line", plane=pl.col("plane_name").cast(pl.Categorical()))
    own = found.join(lines, on="line").select("plane", own_step="step", from_ns="start_ns", until_ns="end_ns")
    begun = modules.select("module_id", "plane", "start_ns").sort("start_ns")
    runs = (
        begun.join_asof(own.sort("from_ns"), left_on="start_ns", right_on="from_ns", by="plane", check_sortedness=False)
        .filter(pl.col("start_ns") < pl.col("until_ns"))
        .select("module_id", step="own_step")
    )
    return replace(_steps(found.filter(pl.col("line") == pl.col("line").min()), "device"), runs=runs)


def inferred(modules: pl.DataFrame) -> Steps:
    """A step for each execution of the program that makes up most of the first device's work.

    It lasts from the start of one execution to that of the next: the host may have launched all of them at once. To the
    last one belong programs that came after it in other steps, too.
    """
    first = modules.filter(pl.col("device") == pl.col("device").min())
    span_ns = pl.col("end_ns").max() - pl.col("start_ns").min()
    work = first.group_by("module", "program").agg(
        runs=pl.len(), busy_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(), span_ns=span_ns
    )
    main = work.filter(
        pl.col("runs") >= _LEAST_RUNS,
        pl.col("busy_ns") >= _LEAST_SHARE * pl.col("busy_ns").sum(),
        pl.col("span_ns") >= _LEAST_SHARE * (first.select(span_ns).item() or 0),
    ).sort("busy_ns", descending=True)
    if main.is_empty():
        return Steps(STEPS.empty(), "none")
    of_steps = pl.concat([main.head(1), _variants(main.row(0, named=True), work)])
    of_all = modules.join(of_steps, on=["module", "program"], how="semi", nulls_equal=True)
    of_all = of_all.sort("start_ns").with_columns(step=pl.int_range(pl.len(), dtype=pl.Int64).over("device", "plane"))
    runs = of_all.filter(pl.col("device") == first["device"][0], pl.col("plane") == first["plane"][0])
    spans = runs.select(
        "step",
        "start_ns",
        event_id="launch_id",
        end_ns=pl.col("start_ns").shift(-1).fill_null(_end_ns(runs, first)),
    )
    # A device that was recorded for a shorter or longer time began in the middle of the others' steps.
    counts = of_all.group_by("device", "plane").len()
    whole = counts.filter(pl.col("len") == spans.height).select("device", "plane")
    in_order = of_all.join(whole, on=["device", "plane"], how="semi", nulls_equal=True).select("module_id", "step")
    others = of_all.join(whole, on=["device", "plane"], how="anti", nulls_equal=True)
    known = pl.concat([in_order, _nearest(others.drop("step"), runs)])
    name = main["module"].cast(pl.String)[0]
    found = _steps(spans, "inferred", f"{spans.height} executions of {name}")
    return replace(found, runs=known)


def _nearest(others: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """module_id and step of runs on other devices, those of the runs that began nearest; null if half a step apart."""
    begun = runs.select("step", "start_ns", begun_ns="start_ns").sort("start_ns")
    usual_ns = begun["begun_ns"].diff().median()
    near = others.sort("start_ns").join_asof(begun, on="start_ns", strategy="nearest", check_sortedness=False)
    apart_ns = (pl.col("start_ns") - pl.col("begun_ns")).abs()
    return near.select("module_id", pl.when(2 * apart_ns < pl.lit(usual_ns)).then("step").alias("step"))


def _end_ns(runs: pl.DataFrame, modules: pl.DataFrame) -> int:
    """When the last of the steps that begin with ``runs`` is over, of all ``modules`` of the device."""
    starts = runs["start_ns"].sort()
    begun, usual_ns = int(starts[-1]), starts.diff().median()
    known = modules.filter(pl.col("start_ns").is_between(starts[0], begun, closed="left"))
    later = modules.filter(pl.col("start_ns") >= begun, pl.col("start_ns") - begun < pl.lit(usual_ns))
    alike = later.join(known, on=["module", "program"], how="semi", nulls_equal=True)
    return int(pl.concat([runs["end_ns"], alike["end_ns"], starts]).max())


def _variants(main: Mapping[str, object], work: pl.DataFrame) -> pl.DataFrame:
    """Other programs of the main one's name that ran now and then in its place: it was compiled again for other inputs.

    Those that run as often are parts of the same step.
    """
    module, program = (pl.lit(main[name], work[name].dtype) for name in ("module", "program"))
    others = work.filter(pl.col("module").eq_missing(module), pl.col("program").ne_missing(program))
    return others.filter(pl.col("runs").sum() <= _MOST_VARIANTS * pl.lit(main["runs"]))
