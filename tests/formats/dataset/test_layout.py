"""A dataset is opened only if this version can, and leads nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import holotrace
from holotrace import InputError
from holotrace.formats.dataset.layout import SCHEMA
from trace_files import write_trace


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write_trace(tmp_path / "job" / "rank0.json", rank=0)
    holotrace.convert(tmp_path / "job", tmp_path / "dataset")
    return tmp_path / "dataset"


def _restamp(out: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Write the stamp of rank 0 anew, without a checksum of its own."""
    from pyarrow import parquet

    stamp = out / "rank_info/rank=0/part.parquet"
    table = parquet.ParquetFile(stamp).read()
    said = json.loads(table.schema.metadata[b"holotrace"])
    change(said)
    parquet.write_table(table.replace_schema_metadata({"holotrace": json.dumps(said)}), stamp)


def test_a_newer_schema_is_one_sentence(out: Path) -> None:
    manifest = json.loads((out / "holotrace.dataset").read_text())
    (out / "holotrace.dataset").write_text(json.dumps({**manifest, "schema": SCHEMA + 1, "holotrace": "9.9"}))
    with pytest.raises(InputError) as said:
        holotrace.open(out)
    assert str(said.value) == (
        f"{out} has schema {SCHEMA + 1}, written by holotrace 9.9, and this version reads up to {SCHEMA}; "
        "update holotrace, or convert the traces again"
    )


def test_what_an_older_version_did_not_write_is_empty_or_null(out: Path) -> None:
    from pyarrow import parquet

    path = out / "device_events/rank=0/part.parquet"
    parquet.write_table(parquet.ParquetFile(path).read().drop_columns(["kind"]), path)
    _restamp(out, lambda said: (said.pop("sums"), said["rows"].pop("counters")))
    (out / "counters/rank=0/part.parquet").unlink()
    job = holotrace.open(out)
    assert job.table("device_events")["kind"].to_list() == [None, None]
    assert job.table("counters").is_empty()


DAMAGED: dict[str, Callable[[Path], object]] = {
    "no JSON": lambda out: (out / "holotrace.dataset").write_text("{"),
    "deep JSON": lambda out: (out / "holotrace.dataset").write_text("[" * 100_000),
    "no object": lambda out: (out / "holotrace.dataset").write_text("[]"),
    "odd problems": lambda out: (out / "holotrace.dataset").write_text('{"schema": 1, "title": "", "problems": [3]}'),
    "no Parquet": lambda out: (out / "rank_info/rank=0/part.parquet").write_bytes(b"PAR1" * 9),
    "no stamp": lambda out: pl.DataFrame({"a": [1]}).write_parquet(out / "rank_info/rank=0/part.parquet"),
    "other types": lambda out: pl.DataFrame({"start_ns": ["now"]}).write_parquet(out / "steps/rank=0/part.parquet"),
    "cut off": lambda out: (out / "steps/rank=0/part.parquet").write_bytes(b"PAR1"),
    "no table": lambda out: (out / "steps/rank=0/part.parquet").unlink(),
    "no rank": lambda out: (out / "rank_info/rank=0/part.parquet").unlink(),
}


@pytest.mark.parametrize("name", ["rank_info", "steps"])
def test_a_damaged_rank_can_be_written_again(out: Path, tmp_path: Path, name: str) -> None:
    (out / name / "rank=0/part.parquet").write_bytes(b"PAR1")
    holotrace.convert(tmp_path / "job", out, overwrite=True)
    assert holotrace.open(out).table("steps").height == 1


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_damage_is_one_sentence_with_a_way_out(out: Path, damage: Callable[[Path], object]) -> None:
    damage(out)
    with pytest.raises(InputError) as said:
        holotrace.open(out).table("steps", columns=["start_ns"])
    assert str(out) in str(said.value)
    assert "again" in str(said.value)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("table", "column"), [("events", "event_id"), ("events", "start_ns"), ("events", "end_ns"), ("steps", "step")]
)
def test_rows_without_what_every_event_has_are_noticed(out: Path, table: str, column: str) -> None:
    path = out / table / "rank=0/part.parquet"
    whole = pl.read_parquet(path, hive_partitioning=False)
    _restamp(out, lambda said: said.pop("sums"))
    for damaged in (whole.with_columns(pl.lit(None, whole.schema[column]).alias(column)), whole.drop(column)):
        damaged.write_parquet(path)
        with pytest.raises(InputError, match=f"has rows without {column}; convert rank 0 again"):
            holotrace.open(out).table(table)


def test_a_rank_that_is_damaged_costs_no_other_and_is_written_again(out: Path, tmp_path: Path) -> None:
    write_trace(tmp_path / "job" / "rank1.json", rank=1)
    holotrace.convert(tmp_path / "job", out)
    (out / "rank_info/rank=1/part.parquet").write_bytes(b"PAR1" * 9)
    job = holotrace.open(out)
    assert job.ranks == (0,)
    (left_out,) = job.problems().rows(named=True)
    assert (left_out["rank"], left_out["problem"], left_out["action"]) == (1, "file not read", "rank left out")
    assert left_out["example"].endswith("is damaged; convert rank 1 again")
    job.overlap()
    assert left_out in job.noticed().to_dicts()
    assert holotrace.convert(tmp_path / "job", out).written == (1,)
    assert holotrace.open(out).problems().is_empty()


def test_rows_that_are_missing_are_noticed(out: Path) -> None:
    path = out / "device_events/rank=0/part.parquet"
    pl.read_parquet(path, hive_partitioning=False).head(1).write_parquet(path)
    _restamp(out, lambda said: said.pop("sums"))
    with pytest.raises(InputError, match="has 1 rows and not the 2"):
        holotrace.open(out).overlap()


def test_a_link_out_of_the_folder_is_not_followed(out: Path, tmp_path: Path) -> None:
    (out / "steps/rank=0").rename(tmp_path / "elsewhere")
    (out / "steps/rank=0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="leads out of its dataset"):
        holotrace.open(out).table("steps")
    with pytest.raises(InputError, match="leads out of its dataset"):
        holotrace.convert(tmp_path / "job", out, overwrite=True)


def test_a_dataset_is_opened_alone_and_is_no_folder_of_traces(out: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a dataset, which is opened alone"):
        holotrace.open([out, tmp_path / "job"])
    # Nor are its files taken for traces.
    assert holotrace.open(tmp_path, recursive=True).problems().is_empty()
