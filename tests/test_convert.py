"""A dataset is what its traces are: it answers alike, grows, and is never half there."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from errno import EACCES, ENOSPC
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import holotrace
from drawing import draw
from holotrace import InputError, UsageError, stores
from holotrace.cli import main
from holotrace.core import schema, tables
from holotrace.core.native import native
from holotrace.core.schema import Column, Table, Unit
from holotrace.core.tables import DEVICE_EVENTS, RANK_INFO
from holotrace.formats.dataset import read as dataset_read
from holotrace.formats.dataset.read import TABLES
from holotrace.sample import write as write_sample
from holotrace.stores import Place
from pages import page
from s3 import BUCKET, Store
from trace_files import EVENTS, REAL_TRACES, needs_real_traces, write_trace
from xplane_files import capture


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    for rank in (0, 1, 2):
        write_trace(tmp_path / "job" / f"rank{rank}.json.gz", rank=rank, world=4)
    (tmp_path / "job" / "notes.json").write_text("{}")
    return tmp_path / "job"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "dataset"


def assert_alike(traces: Path, out: Path | str) -> None:
    """Every table, answer, finding and problem of both is the same."""
    assert_same_tables(traces, out)
    before, after = holotrace.open(traces).run(), holotrace.open(out).run()
    for name, frame in before.tables.items():
        assert_frame_equal(after.tables[name], frame, check_exact=True)
    assert (after.title, after.findings) == (before.title, before.findings)
    assert_frame_equal(after.info.drop("load_ns"), before.info.drop("load_ns"))
    assert page(after) == page(before)


def assert_same_tables(traces: Path, out: Path | str) -> None:
    """Every table of both is the same: what answers are made of."""
    there, here = holotrace.open(traces), holotrace.open(out)
    for table in tables.ALL:
        assert_frame_equal(here.table(table), there.table(table), check_exact=True)


def test_a_dataset_answers_as_its_traces_do(traces: Path, out: Path) -> None:
    done = holotrace.convert(traces, out)
    assert (done.path, done.written, done.kept) == (out, (0, 1, 2), ())
    assert_alike(traces, out)


def test_what_is_known_of_the_job_is_restored(traces: Path, out: Path) -> None:
    holotrace.convert(traces, out)
    assert holotrace.open(out).problems().select("problem", "example").rows() == [
        ("file left out", "not a trace"),
        ("ranks missing", "1 of 4: rank 3"),
    ]
    (metadata,) = holotrace.open(out).only(1).map(lambda rank: rank.metadata, [])
    assert metadata["distributedInfo"] == {"backend": "nccl", "rank": 1, "world_size": 4}


def test_problems_are_those_of_reading_everything(tmp_path: Path, out: Path) -> None:
    event = {**EVENTS[2], "args": {"correlation": 7, "queued": "a lot"}}
    traces = write_trace(tmp_path / "a.json", events=[event])
    holotrace.convert(traces, out)
    # No analysis reads that column.
    for path in (traces, out):
        assert holotrace.open(path).problems()["problem"].to_list() == ["argument is no number"]


@pytest.mark.slow
def test_a_sample_with_every_kind_of_event_stays_as_it_is(tmp_path: Path, out: Path) -> None:
    write_sample(tmp_path / "sample", ranks=2, steps=3)
    holotrace.convert(tmp_path / "sample", out)
    assert_alike(tmp_path / "sample", out)


@pytest.mark.parametrize("name", ["jax_cpu_gaps", "torch_xla_cpu_gaps"])
@pytest.mark.slow
def test_a_profile_of_xla_stays_as_it_is(tmp_path: Path, out: Path, name: str) -> None:
    profile = capture(name, tmp_path)
    holotrace.convert(profile, out)
    assert_alike(profile, out)


@needs_real_traces
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "hta/tests/data/ns_resolution_trace",
        "tracelens/tests/traces/b200/eager_trace.json.gz",
        "param/et_replay/tests/inputs/resnet_kineto.json.gz",
    ],
)
def test_real_traces_stay_as_they_are_and_get_smaller(name: str, out: Path) -> None:
    traces = REAL_TRACES / name
    holotrace.convert(traces, out)
    assert_alike(traces, out)
    # Also the answers that it keeps.
    written = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    assert written <= sum(Path(str(source.path)).stat().st_size for source in holotrace.open(traces).sources)


def test_ranks_can_be_added(traces: Path, out: Path) -> None:
    holotrace.convert(traces / "rank2.json.gz", out)
    done = holotrace.convert(holotrace.open(traces).only(0, 1), out)
    assert (done.written, done.kept) == ((0, 1), ())
    assert holotrace.open(out).ranks == (0, 1, 2)


def test_converting_again_changes_nothing(traces: Path, out: Path) -> None:
    holotrace.convert(traces, out)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.rglob("*.parquet")}
    done = holotrace.convert(traces, out)
    assert (done.written, done.kept) == ((), (0, 1, 2))
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in out.rglob("*.parquet")} == before


def test_another_file_for_a_rank_is_refused_until_overwritten(traces: Path, out: Path) -> None:
    holotrace.convert(traces, out)
    write_trace(traces / "rank1.json.gz", rank=1, world=4, events=EVENTS[:3])
    with pytest.raises(InputError, match=r"has rank 1 already, .*overwrite=True"):
        holotrace.convert(traces, out)
    assert holotrace.open(out).table("device_events", rank=1).height == 2
    holotrace.convert(traces, out, overwrite=True)
    assert_same_tables(traces, out)


# In the middle of the files of a rank.
_FEW = (len(TABLES) // 2,)


@pytest.mark.parametrize(
    "files", [*_FEW, *(pytest.param(n, marks=pytest.mark.slow) for n in range(len(TABLES)) if n not in _FEW)]
)
def test_an_interrupted_conversion_leaves_whole_ranks_only_and_goes_on(
    traces: Path, out: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    replace, renamed = Path.replace, []

    def interrupted(path: Path, target: Path) -> Path:
        if target.name == "part.parquet" and target.parent.name == "rank=1":
            renamed.append(path)
            if len(renamed) > files:
                raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            for rank in (0, 1, 2):
                holotrace.convert(holotrace.open(traces).only(rank), out)
    assert holotrace.open(out).ranks == (0,)
    done = holotrace.convert(traces, out)
    assert (done.written, done.kept) == ((1, 2), (0,))
    assert_same_tables(traces, out)
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]


def test_a_rank_that_is_replaced_is_gone_until_the_new_one_is_whole(
    traces: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holotrace.convert(traces, out)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stores, "move", interrupted)
    with pytest.raises(KeyboardInterrupt):
        holotrace.convert(holotrace.open(traces).only(1), out, overwrite=True)
    assert holotrace.open(out).ranks == (0, 2)


def test_a_disk_that_is_full_costs_nothing_that_was_there(
    traces: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holotrace.convert(traces, out)

    def full(*_: object, **__: object) -> int:
        raise OSError(ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(native, "write_parquet", full)
        with pytest.raises(UsageError, match="cannot be written: No space left on device; name a folder that can"):
            holotrace.convert(holotrace.open(traces).only(1), out, overwrite=True)
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]
    assert_same_tables(traces, out)


def test_what_a_conversion_that_was_killed_left_goes_the_next_time(traces: Path, out: Path) -> None:
    holotrace.convert(traces, out)
    left, others = out / ".rank=1.0123", out / ".rank=2.4567"
    for making in (left, others):
        making.mkdir()
        (making / "events").write_text("PAR1")
    an_hour_ago = time.time() - 3700
    os.utime(left, (an_hour_ago, an_hour_ago))
    holotrace.convert(traces, out)
    # The other one may be at work.
    assert [path.name for path in out.iterdir() if path.name.startswith(".")] == [others.name]


def test_several_may_convert_into_one_folder_at_once(traces: Path, out: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        given = [traces, *(holotrace.open(traces).only(rank) for rank in (0, 1, 2))] * 2
        done = list(pool.map(lambda job: holotrace.convert(job, out), given))
    assert [conversion.problems.height for conversion in done] == [0] * 8
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]
    assert_same_tables(traces, out)


def test_a_dataset_is_not_overwritten_with_itself(traces: Path, out: Path) -> None:
    holotrace.convert(traces, out)
    with pytest.raises(UsageError, match="cannot be overwritten with itself"):
        holotrace.convert(out, out.parent / "job" / ".." / out.name, overwrite=True)
    assert holotrace.convert(out, out, answers=True).kept == (0, 1, 2)
    assert_same_tables(traces, out)


def test_a_rank_that_cannot_be_read_is_a_problem_until_it_can(traces: Path, out: Path) -> None:
    whole = (traces / "rank1.json.gz").read_bytes()
    (traces / "rank1.json.gz").write_bytes(gzip.compress(b'["ph", "and no event"]'))
    done = holotrace.convert(traces, out)
    assert done.written == (0, 2)
    assert done.problems.select("rank", "problem").rows() == [(1, "file not read")]
    assert "file not read" in holotrace.open(out).problems()["problem"].to_list()
    (traces / "rank1.json.gz").write_bytes(whole)
    assert holotrace.convert(traces, out).written == (1,)
    assert_same_tables(traces, out)


@pytest.mark.slow
def test_workers_of_other_processes_write_the_same(traces: Path, out: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        holotrace.convert(traces, out, executor=executor)
    assert_same_tables(traces, out)


def test_a_dataset_becomes_a_dataset(traces: Path, out: Path, tmp_path: Path) -> None:
    holotrace.convert(traces, out)
    holotrace.convert(out, tmp_path / "copy")
    assert_same_tables(traces, tmp_path / "copy")
    # Both know the traces they come from.
    assert holotrace.convert(traces, tmp_path / "copy").kept == (0, 1, 2)


def test_a_job_in_memory_becomes_a_dataset(out: Path) -> None:
    job = draw("step |1122|\nhost |A...|\ncompute |.A.B|", "compute |AA.B|")
    holotrace.convert(job, out)
    assert holotrace.open(out).run().findings == job.run().findings
    assert_frame_equal(holotrace.open(out).time_breakdown(), job.time_breakdown())
    with pytest.raises(InputError, match="from memory"):
        holotrace.convert(job, out)


def test_only_a_new_folder_or_a_dataset_is_written_to(traces: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not empty and no dataset"):
        holotrace.convert(traces, traces)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        holotrace.convert(traces, tmp_path / "file")
    with pytest.raises(UsageError, match="web server, which takes no folders"):
        holotrace.convert(traces, "https://127.0.0.1:1/dataset")


def test_a_folder_that_may_not_be_written_to_is_one_sentence(
    traces: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise OSError(EACCES, "Permission denied")

    monkeypatch.setattr(Path, "write_bytes", forbidden)
    with pytest.raises(UsageError, match="dataset cannot be written: Permission denied; name a folder that can"):
        holotrace.convert(traces, out)


def test_a_lost_manifest_is_written_again_and_ranks_are_kept(traces: Path, out: Path) -> None:
    holotrace.convert(traces, out)
    (out / "holotrace.dataset").write_text("{")
    with pytest.raises(InputError, match="is damaged; remove it"):
        holotrace.convert(traces, out)
    (out / "holotrace.dataset").unlink()
    assert holotrace.convert(traces, out).kept == (0, 1, 2)
    assert_same_tables(traces, out)


def test_what_only_the_traces_have_is_asked_of_them(traces: Path, out: Path) -> None:
    holotrace.convert(traces, out)
    mine = Table(DEVICE_EVENTS.name, "", (Column("mine", Unit.NUMBER, "A counter of mine", arg="my counter"),))
    with pytest.raises(InputError, match="holds no mine of device_events; ask the traces"):
        holotrace.open(out).table(mine)


def test_columns_that_are_not_asked_for_are_not_read(traces: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holotrace.convert(traces, out)
    seen: list[list[str]] = []

    def noted(frame: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
        seen.append(frame.columns)
        return schema.filled(frame, columns)

    monkeypatch.setattr(dataset_read, "filled", noted)
    holotrace.open(out, cache_bytes=0).table("device_events", columns=["name"], rank=0)
    assert {names for names in map(tuple, seen) if "problem" not in names} == {("event_id", "name")}


def test_other_engines_read_it_as_it_is(traces: Path, out: Path) -> None:
    holotrace.convert(traces, out)
    expected = [(rank, kind, 20_000) for rank in (0, 1, 2) for kind in ("communication", "compute")]
    files = f"'{out}/device_events/*/*.parquet'"
    query = f"SELECT rank, kind, sum(end_ns - start_ns)::BIGINT FROM {files} GROUP BY ALL ORDER BY ALL"
    assert duckdb.execute(query).fetchall() == expected
    scanned = pl.scan_parquet(out / "device_events").group_by("rank", "kind")
    found = scanned.agg((pl.col("end_ns") - pl.col("start_ns")).sum()).cast({"kind": pl.String()}).collect()
    assert sorted(found.rows()) == expected
    frame = pd.read_parquet(out / "device_events", columns=["rank", "kind", "start_ns", "end_ns"])
    assert (
        sorted(zip(frame["rank"].astype(int), frame["kind"], frame["end_ns"] - frame["start_ns"], strict=True))
        == expected
    )
    for table in (*tables.ALL, RANK_INFO):
        described = duckdb.execute(f"DESCRIBE SELECT * FROM '{out}/{table.name}/*/*.parquet'").fetchall()
        assert sorted(row[0] for row in described) == sorted({*table.column_names, "rank"})


def test_rows_are_by_time_and_row_groups_say_which(tmp_path: Path, out: Path) -> None:
    from pyarrow import parquet

    late, early = ({**EVENTS[2], "ts": ts} for ts in (900, 100))
    holotrace.convert(write_trace(tmp_path / "a.json", events=[late, early]), out)
    stored = parquet.ParquetFile(out / "device_events/rank=0/part.parquet")
    assert stored.read(["start_ns"])["start_ns"].to_pylist() == [100_000, 900_000]
    names = stored.schema_arrow.names
    statistics = stored.metadata.row_group(0).column(names.index("start_ns")).statistics
    assert (statistics.min, statistics.max) == (100_000, 900_000)
    assert holotrace.open(out).table("device_events")["start_ns"].to_list() == [900_000, 100_000]


def test_the_command_says_what_it_did(traces: Path, out: Path) -> None:
    first = CliRunner().invoke(main, ["convert", str(traces), str(out), "--rank", "1"])
    assert (first.exit_code, first.stderr.splitlines()[1:]) == (0, [f"wrote rank 1: {out}"])
    assert "Note: not everything could be read as it was recorded: file left out (not a trace)." in first.stderr
    again = CliRunner().invoke(main, ["convert", str(traces), str(out)])
    assert again.stderr.splitlines()[-1] == f"wrote rank 0, 2, kept rank 1: {out}"
    shown = [
        CliRunner().invoke(main, ["show", "kernels", str(path), "--format", "csv"]).stdout for path in (traces, out)
    ]
    assert shown[0] == shown[1]
    shutil.rmtree(out / "events")
    said = CliRunner().invoke(main, ["show", "events", str(out)])
    assert (said.exit_code, said.stderr.count("\n")) == (3, 1)
    assert "convert rank 0 again with overwrite=True (--overwrite)" in said.stderr


@pytest.mark.slow
def test_a_dataset_in_a_store_is_what_it_is_here(traces: Path, store: Store) -> None:
    url = f"s3://{BUCKET}/sets/a%20one"
    done = holotrace.convert(traces, url)
    assert (str(done.path), done.written, done.kept) == (url, (0, 1, 2), ())
    assert_same_tables(traces, url)
    before = store.changed("sets/a%20one")
    assert set(before) == {"holotrace.dataset"} | {
        f"{table.name}/rank={rank}/part.parquet" for table in TABLES for rank in (0, 1, 2)
    }
    assert holotrace.convert(traces, f"{url}/").kept == (0, 1, 2)
    after = store.changed("sets/a%20one")
    assert {**before, "holotrace.dataset": ""} == {**after, "holotrace.dataset": ""}


@pytest.mark.slow
def test_a_conversion_into_a_store_that_was_interrupted_goes_on(
    traces: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://{BUCKET}/sets/interrupted"
    move, moved = stores.move, []

    def interrupted(file: Path, where: Place) -> None:
        moved.append(where)
        # The second rank's stamp.
        if len(moved) == 2 * len(TABLES):
            raise KeyboardInterrupt
        move(file, where)

    with monkeypatch.context() as patched:
        patched.setattr(stores, "move", interrupted)
        with pytest.raises(KeyboardInterrupt):
            for rank in (0, 1):
                holotrace.convert(holotrace.open(traces).only(rank), url)
    assert holotrace.open(url).ranks == (0,)
    done = holotrace.convert(traces, url)
    assert (done.written, done.kept) == ((1, 2), (0,))
    assert_same_tables(traces, url)
    write_trace(traces / "rank1.json.gz", rank=1, world=4, events=EVENTS[:3])
    with pytest.raises(InputError, match=r"has rank 1 already, .*overwrite=True"):
        holotrace.convert(traces, url)
    holotrace.convert(traces, url, overwrite=True)
    assert_same_tables(traces, url)


@pytest.mark.slow
def test_a_remote_folder_that_is_no_dataset_is_not_written_to(traces: Path, store: Store) -> None:
    url = store.put(traces, "sets/traces")
    with pytest.raises(UsageError, match="not empty and no dataset"):
        holotrace.convert(traces, url)
    with pytest.raises(InputError, match="there is no nobucket"):
        holotrace.convert(traces, "s3://nobucket/dataset")
    done = CliRunner().invoke(main, ["convert", str(traces), f"s3://{BUCKET}/sets/told"])
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (0, f"wrote rank 0-2: s3://{BUCKET}/sets/told")
    with pytest.raises(InputError, match="is a dataset, which is opened alone"):
        holotrace.open([url, f"s3://{BUCKET}/sets/told"])


@pytest.mark.slow
def test_a_table_that_is_gone_from_a_store_is_one_sentence(traces: Path, store: Store) -> None:
    url = f"s3://{BUCKET}/sets/gone"
    holotrace.convert(traces, url)
    store.client.delete_object(Bucket=BUCKET, Key="sets/gone/steps/rank=0/part.parquet")
    with pytest.raises(InputError) as caught:
        holotrace.open(url).table("steps", rank=0)
    assert "\n" not in str(caught.value)
    assert "check the network, or convert rank 0 again with overwrite=True" in str(caught.value)
