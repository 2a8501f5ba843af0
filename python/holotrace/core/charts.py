"""What to draw, as data: a chart names columns of its analysis' table, present/figures/ draws it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chart:
    """A picture of a table; ``x`` and ``y`` are column names."""

    x: str
    """Column of the horizontal axis, or of the names of bars."""

    y: tuple[str, ...]
    """Columns that are drawn."""

    title: str = ""
    """Above the chart; the analysis' summary if empty."""

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the table that it needs."""
        return frozenset({self.x, *self.y})


@dataclass(frozen=True)
class Bar(Chart):
    """One bar per row and ``y`` column, side by side; over steps, that of the mean of a step's rows.

    Rows of no rank have no place among ranks.
    """


@dataclass(frozen=True)
class Stacked(Chart):
    """One bar per row, made of its ``y`` columns; the parts sum to the whole; over steps, the mean of a step's rows."""

    by: str | None = None
    """Column whose values are the parts of a bar: the sums of the one ``y`` over rows with that value and ``x``."""

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the table that it needs."""
        return super().columns | ({self.by} if self.by else frozenset())


@dataclass(frozen=True)
class Ranking(Chart):
    """Horizontal bars of their ``y`` columns, longest first: rows with the same ``x`` are summed, ``top`` are drawn."""

    top: int = 20
    """How many bars."""

    color: str | None = None
    """Column that bars are coloured by."""

    compares_ranks: bool = False
    """Whether a map of ranks and names is drawn beside it, where there are several ranks."""

    within: tuple[str, ...] = ()
    """Columns of what names belong to: equal names of different ones are different things."""

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the table that it needs."""
        return super().columns | ({self.color} if self.color else frozenset()) | {*self.within}


@dataclass(frozen=True)
class OverSteps(Chart):
    """One bar per ``x``, a step, of its ``y`` parts on the mean rank, and how far ranks differ in the ``whole``."""

    whole: str = ""

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the table that it needs."""
        return super().columns | {self.whole}


@dataclass(frozen=True)
class Line(Chart):
    """``y`` over ``x``, one line per value of ``by``."""

    by: str | None = None
    """Column of which each value has a line."""

    holds: bool = False
    """Whether a value holds until the next: the line then rises and falls in steps."""

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the table that it needs."""
        return super().columns | ({self.by} if self.by else frozenset())


@dataclass(frozen=True)
class Roofline(Chart):
    """A dot per row, speed over intensity on logarithmic axes, as large as its ``size``; above them the limits.

    ``peak`` and ``bandwidth`` name the columns of the device's limits.
    """

    size: str = ""
    by: str = ""
    peak: str = ""
    bandwidth: str = ""

    @property
    def columns(self) -> frozenset[str]:
        return super().columns | {self.size, self.by, self.peak, self.bandwidth}


@dataclass(frozen=True)
class Tree(Chart):
    """Boxes inside boxes: ``x`` is a path, parts with ``/`` between them, and the one of ``y`` its own size.

    ``total`` names the column of the size with all that is inside, ``rate`` that of the share that colours a box.
    """

    total: str = ""
    rate: str = ""

    @property
    def columns(self) -> frozenset[str]:
        return super().columns | {self.total, self.rate}


@dataclass(frozen=True)
class Links(Chart):
    """Bands from each value of ``x``, a rank, to those of ``to``, as wide as the sum of their rows' one ``y``."""

    to: str = ""
    """Column of the ranks that bands reach."""

    leaves: str = ""
    """What is said above the ranks that bands leave."""

    reaches: str = ""
    """What is said above those that they reach."""

    nobody: str = "no rank"
    """What rows without a rank are called."""

    @property
    def columns(self) -> frozenset[str]:
        """Columns of the table that it needs."""
        return super().columns | {self.to}
