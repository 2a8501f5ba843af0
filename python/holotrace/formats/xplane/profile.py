"""One XPlane profile: its lines, what each of them is, and its events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import polars as pl

from holotrace.core.arrow import frame
from holotrace.core.native import native
from holotrace.core.schema import in_order
from holotrace.formats.xplane.exported import ExportedSpace

SERIES = ("% util", "fills", "spills")

# Lines that xprof adds when it has processed a profile; they repeat what others hold.
_DERIVED = (
    r"^(Launch Stats|Framework Name Scope|Framework Ops|TensorFlow Name Scope|TensorFlow Ops|Source code)$| - from #"
)
_DERIVED_IDS = (3_735_928_559, -559_038_737)  # 0xdeadbeef, as 64 and as 32 bits; a few follow it
_DERIVED_COUNT = 64
_DERIVED_OF_GPU = ("Steps", "XLA Modules", "XLA Ops")

_ACCELERATOR = r"^/device:(TPU|GPU):(\d+)(?: (SparseCore) (\d+))?$"
# What each line of a TPU or SparseCore is.
_ROLES = {
    "Steps": "steps",
    "XLA Modules": "modules",
    "XLA Ops": "ops",
    "Async XLA Ops": "async",
    "XLA TraceMe": "waits",
    "_counters_": "counters",
    "Sparse Core Steps": "steps",
    "Sparse Core Modules": "modules",
    "Sparse Core Ops": "ops",
}
# Events of the line XLA TraceMe that are waits; the others are stages inside a kernel.
WAITS = ("barrier-cores", "dependency-wait")


class Profile:
    """The lines and events of one file; frames are made when they are first asked for."""

    def __init__(self, space: native.Space | ExportedSpace, *, is_damaged: bool = False) -> None:
        self.space = space
        # What the file was packed with says that some of it is wrong.
        self.is_damaged = is_damaged

    @cached_property
    def planes(self) -> pl.DataFrame:
        """plane, name, and of accelerators device_kind and device."""
        parts = pl.col("name").str.extract_groups(_ACCELERATOR)
        return pl.DataFrame(self.space.planes()).with_columns(
            device_kind=pl.coalesce(parts.struct[2], parts.struct[0]), device=parts.struct[1].cast(pl.Int64)
        )

    @cached_property
    def stats(self) -> pl.DataFrame:
        """plane, key, whole, number, text of each plane's stats."""
        return pl.DataFrame(self.space.plane_stats())

    @cached_property
    def lines(self) -> pl.DataFrame:
        """line, plane, plane_name, device_kind, device, id, label, role."""
        planes = self.planes.select("plane", "device_kind", "device", plane_name="name")
        name, identity = pl.col("name"), pl.col("id")
        shown = pl.when(pl.col("display") != "").then("display").otherwise("name")
        first, first32 = _DERIVED_IDS
        is_derived = (
            name.str.contains(_DERIVED)
            | identity.is_between(first, first + _DERIVED_COUNT)
            | identity.is_between(first32, first32 + _DERIVED_COUNT)
            | ((pl.col("device_kind") == "GPU") & name.is_in(_DERIVED_OF_GPU))
        )
        role = (
            pl.when(is_derived.fill_null(False))
            .then(pl.lit("derived"))
            .when(pl.col("device_kind") == "GPU")
            .then(pl.when(name.str.starts_with("Stream #")).then(pl.lit("stream")).otherwise(pl.lit("other")))
            .when(pl.col("device_kind").is_not_null())
            .then(name.replace_strict(_ROLES, default="other", return_dtype=pl.String))
            .when(pl.col("plane_name").str.starts_with("/host:") & (pl.col("plane_name") != "/host:metadata"))
            .then(pl.lit("host"))
            .otherwise(pl.lit("other"))
        )
        found = (
            pl.DataFrame(self.space.lines())
            .join(planes, on="plane", how="left", maintain_order="left")
            .with_columns(label=pl.when(shown == "").then(pl.col("id").cast(pl.String)).otherwise(shown), role=role)
        )
        # Two threads may have one name; a line that is there twice, in files put together, is one thread.
        several = pl.struct("plane_name", "id").n_unique().over("plane_name", "label") > 1
        numbered = pl.concat_str("label", pl.lit("/"), pl.col("id").cast(pl.String))
        return found.with_columns(label=pl.when(several).then(numbered).otherwise("label"), process=self._process())

    def _process(self) -> pl.Expr:
        """What stands for the process: its id where the profile knows it, else the host's name."""
        ids = self.stats.filter(key="process_id").unique("plane", keep="first")
        host = next(iter(self.space.hostnames), "host")
        process = pl.col("plane").replace_strict(
            ids["plane"], ids["whole"].cast(pl.String), default=host, return_dtype=pl.String
        )
        return pl.when(pl.col("role") == "host").then(process).otherwise("plane_name").cast(pl.Categorical())

    def numbers(self, *roles: str) -> list[int]:
        """Numbers of the lines of these roles."""
        return self.lines.filter(pl.col("role").is_in(roles))["line"].to_list()

    def events(
        self,
        columns: Sequence[str],
        *roles: str,
        having: str | None = None,
        lacking: str | None = None,
        names: Sequence[str] | None = None,
        lasts: bool = False,
    ) -> pl.DataFrame:
        """Events of the lines of these roles, in file order: with a stat, without one, of these names, that last."""
        lines = self.numbers(*roles)
        found = self.space.events(
            list(columns),
            lines=lines,
            having=having,
            lacking=lacking,
            names=names,
            lasting=lines if lasts else [],
        )
        return in_order(frame(found))

    def of_lines(self, columns: Sequence[str], lines: Sequence[int], lasting: Sequence[int]) -> pl.DataFrame:
        """Events of these lines, of the lines ``lasting`` only those that end after they began."""
        return in_order(frame(self.space.events(list(columns), lines=lines, lasting=lasting)))

    def of_rows(self, columns: Sequence[str], rows: pl.DataFrame) -> pl.DataFrame:
        """The events whose event_id is in ``rows``, in file order."""
        return in_order(frame(self.space.events(list(columns), rows=rows)))

    def named(self, pattern: str) -> pl.DataFrame:
        """event_id of the host's events whose name has a match of ``pattern``."""
        names = pl.DataFrame(self.space.names())["name"].cast(pl.String)
        return self.events(["event_id"], "host", names=names.filter(names.str.contains(pattern)).to_list())

    @cached_property
    def has_accelerators(self) -> bool:
        """Whether a device of its own has events; without, operations run on the host's threads."""
        lines = self.lines.filter(pl.col("device_kind").is_not_null(), pl.col("role") != "derived")
        return bool(lines["event_count"].sum())
