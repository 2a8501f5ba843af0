"""Tables as files and for other programs: JSON in one versioned envelope, CSV, Parquet."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import polars as pl

from holotrace.core.analysis import Finding
from holotrace.core.schema import Column, Unit
from holotrace.core.tables import FINDINGS
from holotrace.present.wording import sentence

# Grows when a field changes its meaning or goes; new fields may come without.
SCHEMA = "holotrace.table/1"


def json_text(
    table: pl.DataFrame, columns: Sequence[Column], *, name: str, source: str, version: str, total: int | None = None
) -> str:
    """The table in an envelope that says what it is; rows are objects with the declared column names.

    Args:
        total: Rows there are, where ``table`` holds only the first of them.
    """
    envelope = {
        "schema": SCHEMA,
        "name": name,
        "source": source,
        "holotrace": version,
        "columns": [{"name": c.name, "unit": c.unit.name.lower(), "meaning": c.meaning} for c in columns],
        "data": {
            "count": table.height,
            "total": table.height if total is None else total,
            "rows": [{key: _plain(value) for key, value in row.items()} for row in table.iter_rows(named=True)],
        },
    }
    return json.dumps(envelope, indent=2, ensure_ascii=False, allow_nan=False)


def csv_text(table: pl.DataFrame, columns: Sequence[Column]) -> str:
    """The table as CSV with a head; lists of ranks are joined by blanks."""
    lists = [column.name for column in columns if column.unit is Unit.RANKS]
    return table.with_columns(pl.col(lists).cast(pl.List(pl.String())).list.join(" ")).write_csv()


def parquet_bytes(table: pl.DataFrame) -> bytes:
    """The table as a Parquet file."""
    buffer = BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


def findings_table(findings: Sequence[Finding]) -> pl.DataFrame:
    """Findings as a table, in their order."""
    rows = [
        {
            **{name: getattr(finding, name) for name in ("severity", "rule", "analysis", "cost_ns", "step_cost_ns")},
            "message": sentence(finding),
            "ranks": list(finding.ranks),
            "values": json.dumps(dict(finding.values), ensure_ascii=False),
        }
        for finding in findings
    ]
    return pl.DataFrame(rows, schema=FINDINGS.empty().schema)


def _plain(value: Any) -> Any:
    # JSON knows no infinity and no NaN.
    return None if isinstance(value, float) and not math.isfinite(value) else value
