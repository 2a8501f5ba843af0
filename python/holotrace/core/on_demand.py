"""Tables whose columns are put together each time they are asked for, of the few values that many rows share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from holotrace.core.schema import Column, typed, with_nothing


@dataclass(frozen=True)
class Rows:
    """Rows with values of their own, and the numbers of rows in tables that many of them share.

    A profile has some million operations of some thousand kinds: what they share is repeated in those columns only that
    are asked for.
    """

    own: pl.DataFrame
    # By the column of ``own`` that holds the numbers of their rows; a column that several have is that of the first.
    shared: Mapping[str, pl.DataFrame]

    def __contains__(self, name: str) -> bool:
        return any(name in table.columns for table in (self.own, *self.shared.values()))

    def __getitem__(self, name: str) -> pl.Series:
        """A column, with a value for each row."""
        if name in self.own.columns:
            return self.own[name]
        number = self.sharing(name)
        return self.shared[number][name][self.own[number]]

    def sharing(self, name: str) -> str:
        """The column of numbers through which rows have a value that they share."""
        return next(number for number, table in self.shared.items() if name in table.columns)

    def select(self, *names: str, **sources: str) -> pl.DataFrame:
        """Columns by name, and columns under another name than their own."""
        wanted = {**dict.fromkeys(names), **sources}
        return pl.DataFrame({name: self[source or name] for name, source in wanted.items()})

    def only(self, names: Collection[str]) -> Rows:
        """The same without what no column of these names is made of."""
        shown = {number: [name for name in table.columns if name in names] for number, table in self.shared.items()}
        shared = {number: self.shared[number].select(columns) for number, columns in shown.items() if columns}
        return Rows(self.own.select(name for name in self.own.columns if name in names or name in shared), shared)

    def filter(self, is_kept: pl.Series) -> Rows:
        return self if is_kept.all() else replace(self, own=self.own.filter(is_kept))

    def with_own(self, *columns: pl.Series) -> Rows:
        return replace(self, own=self.own.with_columns(columns))

    def without_own(self, *names: str) -> Rows:
        return replace(self, own=self.own.drop(names))

    def with_shared(self, **tables: pl.DataFrame) -> Rows:
        return replace(self, shared={**self.shared, **tables})


@dataclass(frozen=True)
class OnDemand:
    """A table that is asked for some of its columns at a time, as a ``DataFrame`` is: ``table[["name", "start_ns"]]``.

    Several tables may be made of the same rows, each of some of them.
    """

    rows: Rows
    # The column of ``rows`` that each column shows; of those of which nothing is known, the type.
    sources: Mapping[str, str | pl.DataType]
    height: int
    # Which of the rows it has; all without.
    is_kept: pl.Series | None = None

    @classmethod
    def of(cls, rows: Rows, is_kept: pl.Series | None = None, **sources: str) -> OnDemand:
        """The table of these columns, as far as there is anything in them."""
        nothing = {name for name, column in rows.own.to_dict().items() if len(column) == column.null_count() > 0}
        there = {name: source for name, source in sources.items() if source in rows and source not in nothing}
        if is_kept is None or is_kept.all():
            return cls(rows.only(set(there.values())), there, rows.own.height)
        return cls(rows.only(set(there.values())), there, int(is_kept.sum()), is_kept)

    @property
    def columns(self) -> list[str]:
        return [*self.sources]

    def is_empty(self) -> bool:
        return not self.height

    def estimated_size(self) -> int:
        """Bytes in memory, of which other tables may need the same."""
        return int(sum(table.estimated_size() for table in (self.rows.own, *self.rows.shared.values())))

    def __getitem__(self, names: Sequence[str]) -> pl.DataFrame:
        return self.select(names)

    def select(self, names: Iterable[str]) -> pl.DataFrame:
        """These columns."""
        wanted, numbers = list(names), dict[str, pl.Series]()
        there = pl.DataFrame([self._made(name, numbers) for name in wanted if isinstance(self.sources[name], str)])
        lacking = {name: dtype for name in wanted if not isinstance(dtype := self.sources[name], str)}
        return with_nothing(there, lacking, self.height)[wanted] if lacking else there

    def where(self, names: Iterable[str], is_kept: pl.Series) -> pl.DataFrame:
        """These columns of some of its rows, of which no more than those are put together."""
        if is_kept.all():
            return self.select(names)
        rows = is_kept.arg_true()
        if self.is_kept is not None:
            rows = self.is_kept.arg_true()[rows]
        own = replace(self.rows, own=self.rows.own[rows])
        return replace(self, rows=own, is_kept=None, height=len(rows)).select(names)

    def summed(self, by: Sequence[str], is_kept: pl.Series, sums: Mapping[str, pl.Expr]) -> pl.DataFrame:
        """Some of its rows, those with the same values in ``by`` together, in the order of their firsts.

        Values that many rows share are compared once for all of these, and are numbers until there are few of them.
        """
        groups: dict[str, pl.DataFrame] = {}
        for number, table in self.rows.shared.items():
            found = [
                name for name in by if self._is_shared(name) and self.rows.sharing(str(self.sources[name])) == number
            ]
            if found:
                groups[number] = table.select(pl.col(str(self.sources[name])).alias(name) for name in found)
        known = {name for table in groups.values() for name in table.columns}
        own = [name for name in by if name not in known]
        read = dict.fromkeys(root for each in sums.values() for root in each.meta.root_names())
        numbers = {f"number of {number}": number for number in groups}
        numbered = replace(self, sources={**self.sources, **numbers})
        rows = numbered.where(dict.fromkeys((*own, *read, *numbers)), is_kept)
        values, ids = [], []
        for name, table in zip(numbers, groups.values(), strict=True):
            distinct = table.unique(maintain_order=True)
            places = table.join(
                distinct.with_row_index(name), on=table.columns, how="left", nulls_equal=True, maintain_order="left"
            )[name]
            values.append(distinct)
            ids.append(places[rows[name]])
        table = rows.with_columns(ids).group_by(*numbers, *own, maintain_order=True).agg(**sums)
        told = [
            column for name, each in zip(numbers, values, strict=True) for column in each[table[name]].get_columns()
        ]
        return table.hstack(told).select(*by, *sums)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.select(self.columns).__arrow_c_stream__(requested_schema)

    def narrowed(self, names: Iterable[str]) -> OnDemand:
        """The same without its other columns, and what only they need."""
        sources = {name: self.sources[name] for name in names if name in self.sources}
        needed = {source for source in sources.values() if isinstance(source, str)}
        return replace(self, rows=self.rows.only(needed), sources=sources)

    def filled(self, columns: Sequence[Column]) -> OnDemand:
        """Exactly ``columns``, in order and with their types; null where it lacks one."""
        found = self.narrowed(column.name for column in columns)
        own, shared = found.rows.own, dict(found.rows.shared)
        sources: dict[str, str | pl.DataType] = {}
        for column in columns:
            dtype = column.unit.dtype
            sources[column.name] = source = found.sources.get(column.name, dtype)
            if not isinstance(source, str):
                continue
            if source in own.columns:
                own = own.with_columns(typed(own[source], dtype))
            else:
                number = found.rows.sharing(source)
                shared[number] = shared[number].with_columns(typed(shared[number][source], dtype))
        return replace(found, rows=Rows(own, shared), sources=sources)

    def with_made(self, name: str, of: Sequence[str], make: Callable[[pl.DataFrame], pl.Series]) -> OnDemand:
        """With a column that follows row by row from others: made once for all rows that share those."""
        # Numbers of shared rows may have its name.
        source = f"made {name}"
        made_of = {each: self.sources.get(each, pl.Null()) for each in of}
        shown = {made for made in made_of.values() if isinstance(made, str)}
        sharing = [number for number, table in self.rows.shared.items() if shown <= {*table.columns}]
        if sharing and shown and not shown & {*self.rows.own.columns}:
            table = self.rows.shared[sharing[0]]
            known = [
                (table[made] if isinstance(made, str) else pl.repeat(None, table.height, dtype=made, eager=True)).alias(
                    each
                )
                for each, made in made_of.items()
            ]
            rows = self.rows.with_shared(**{sharing[0]: table.with_columns(make(pl.DataFrame(known)).alias(source))})
        else:
            every = replace(self, is_kept=None, height=self.rows.own.height)
            rows = self.rows.with_own(make(every.select(of)).alias(source))
        return replace(self, rows=rows, sources={**self.sources, name: source})

    def _is_shared(self, name: str) -> bool:
        source = self.sources[name]
        return isinstance(source, str) and source not in self.rows.own.columns

    def _made(self, name: str, numbers: dict[str, pl.Series]) -> pl.Series:
        """A column; ``numbers`` holds those columns of numbers that were made before."""
        source = str(self.sources[name])
        if source in self.rows.own.columns:
            return self._kept(self.rows.own[source]).alias(name)
        number = self.rows.sharing(source)
        if number not in numbers:
            numbers[number] = self._kept(self.rows.own[number])
        made = self.rows.shared[number][source][numbers[number]]
        return made.alias(name)

    def _kept(self, column: pl.Series) -> pl.Series:
        kept: pl.Series = column if self.is_kept is None else column.filter(self.is_kept)
        return kept


# A table as a rank holds it.
Held = pl.DataFrame | OnDemand


class Tables(Mapping[str, pl.DataFrame]):
    """Tables by name; those that are held on demand are put together as a whole for whoever takes them from here."""

    def __init__(self, held: Mapping[str, Held]) -> None:
        self.held = held

    def __getitem__(self, name: str) -> pl.DataFrame:
        return whole(self.held[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


def whole(table: Held) -> pl.DataFrame:
    """All its columns at once."""
    return table if isinstance(table, pl.DataFrame) else table.select(table.columns)


def narrowed(table: Held, names: Collection[str]) -> Held:
    """Those of its columns, in its order, and no more in memory than they need."""
    there = [name for name in table.columns if name in names]
    return table[there] if isinstance(table, pl.DataFrame) else table.narrowed(there)
