"""A dataset that was damaged is refused: it never gives tables that are wrong."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import polars as pl
import pytest

import holotrace
from holotrace import HolotraceError
from holotrace.core.tables import ALL, RANK_INFO
from holotrace.formats.dataset.layout import is_whole, summed
from quick import every
from trace_files import write_trace

TABLES = (*ALL, RANK_INFO)
_TRIES = 300


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    write_trace(folder / "job" / "rank0.json", rank=0)
    holotrace.convert(folder / "job", folder / "dataset")
    return folder / "dataset"


def _damage(content: bytes, chance: random.Random) -> bytes:
    """The content with a bit flipped, a stretch overwritten or zeroed, a piece lost, or its end cut off."""
    at = chance.randrange(len(content))
    end = min(len(content), at + chance.randint(1, 64))
    return (
        content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :],
        content[:at] + chance.randbytes(end - at) + content[end:],
        content[:at] + bytes(end - at) + content[end:],
        content[:at] + content[end:],
        content[:at],
    )[chance.randrange(5)]


def _tables(out: Path) -> dict[str, pl.DataFrame] | None:
    """All tables, or None where the dataset is refused."""
    try:
        job = holotrace.open(out)
        found = {table.name: job.table(table.name) for table in TABLES}
    except HolotraceError:
        return None
    return found if job.ranks else None


@pytest.mark.filterwarnings("ignore::holotrace.errors.PartialDataWarning")
@pytest.mark.parametrize("kind", every(9, ["manifest", *(table.name for table in TABLES)]))
def test_a_damaged_file_is_refused_and_its_tables_are_never_wrong(dataset: Path, kind: str, tmp_path: Path) -> None:
    whole = _tables(dataset)
    assert whole is not None
    shutil.copytree(dataset, out := tmp_path / "dataset")
    file = out / ("holotrace.dataset" if kind == "manifest" else f"{kind}/rank=0/part.parquet")
    content = file.read_bytes()
    chance = random.Random(kind)
    for number in range(_TRIES // (len(TABLES) + 1)):
        file.write_bytes(damaged := _damage(content, chance))
        found = _tables(out)
        if damaged != content and kind != "manifest":
            assert found is None, f"try {number} is read as if nothing were damaged"
        if found is not None:
            assert all(found[name].equals(table) for name, table in whole.items() if name != "problems"), number


def test_every_byte_of_a_stamp_is_in_its_checksum(dataset: Path) -> None:
    content = (dataset / "rank_info/rank=0/part.parquet").read_bytes()
    assert is_whole(content)
    unnoticed = [
        at for at in range(len(content)) if is_whole(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])
    ]
    # Where the checksum is not found any more nothing else is damaged.
    begin = content.index(b"holotrace-sum:")
    assert set(unnoticed) <= set(range(begin, begin + 22))
    assert summed(content) == content


def test_a_dataset_of_a_version_without_checksums_is_read(dataset: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    shutil.copytree(dataset, out := tmp_path / "dataset")
    file = out / "rank_info/rank=0/part.parquet"
    table = parquet.ParquetFile(file).read()
    said = json.loads(table.schema.metadata[b"holotrace"])
    del said["sums"]
    parquet.write_table(table.replace_schema_metadata({"holotrace": json.dumps(said)}), file)
    manifest = json.loads((out / "holotrace.dataset").read_text())
    del manifest["sum"]
    (out / "holotrace.dataset").write_text(json.dumps(manifest))
    assert holotrace.open(out).table("device_events").equals(holotrace.open(dataset).table("device_events"))


def test_pages_have_checksums_that_other_readers_verify(dataset: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    content = (dataset / "device_events/rank=0/part.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(content)
    parquet.read_table(tmp_path / "a.parquet", page_checksum_verification=True)
    first = parquet.read_metadata(tmp_path / "a.parquet").row_group(0).column(0)
    # The last byte of the first column's pages.
    at = (first.dictionary_page_offset or first.data_page_offset) + first.total_compressed_size - 1
    (tmp_path / "a.parquet").write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(OSError, match=r"(?i)checksum|crc"):
        parquet.read_table(tmp_path / "a.parquet", page_checksum_verification=True)


def test_a_rank_whose_stamp_is_gone_is_told_and_not_just_absent(tmp_path: Path) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / "job" / f"rank{rank}.json.gz", rank=rank, world=2)
    holotrace.convert(tmp_path / "job", tmp_path / "dataset")
    (tmp_path / "dataset" / "rank_info" / "rank=0" / "part.parquet").unlink()
    job = holotrace.open(tmp_path / "dataset")
    with pytest.warns(holotrace.PartialDataWarning, match=r"file not read \(rank 0\)"):
        assert job.kernels()["rank"].unique().to_list() == [1]
    (row,) = job.problems().filter(problem="file not read").rows(named=True)
    assert (row["rank"], row["example"]) == (0, "its description is not there")
