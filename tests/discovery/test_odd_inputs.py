"""Archives, pipes, and files of other programs: read as what they are, or refused at once with a way out."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import holotrace
from holotrace import InputError
from holotrace.cli import main
from holotrace.discovery import survey
from holotrace.stores import archives
from quick import every
from trace_files import EVENTS, write_trace
from xplane_files import capture

TRACES = {
    f"job/rank_{rank}.json.gz": gzip.compress(json.dumps({"traceEvents": EVENTS}).encode()) for rank in (0, 3, 12)
} | {"job/notes.txt": b"nothing", "__MACOSX/job/._rank_0.json.gz": b"no trace"}


def zipped(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, files: dict[str, bytes]) -> Path:
    mode = {".gz": "w:gz", ".tgz": "w:gz", ".xz": "w:xz", ".bz2": "w:bz2"}.get(path.suffix, "w")
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]  # any mode
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tgz", "a.tar.xz", "a.tar.bz2", "without-ending"])
def test_an_archive_is_read_member_by_member_with_ranks_from_their_names(tmp_path: Path, name: str) -> None:
    write = zipped if name.endswith(("zip", "ending")) else tarred
    archive = write(tmp_path / name, TRACES)
    job = holotrace.open(archive)
    assert job.ranks == (0, 3, 12)
    assert job.table("device_events").group_by("rank").len()["len"].to_list() == [2, 2, 2]
    assert job.sources[2].path.name == "rank_12.json.gz"
    assert f"{archive}/job/rank_12.json.gz" in job.info()["file"].to_list()
    assert {one.path.name for one in job.found.left_out} >= {"notes.txt"}


def test_an_archive_of_a_log_directory_of_xla_is_its_newest_run(tmp_path: Path) -> None:
    folder = capture("jax_cpu_gaps", tmp_path / "logs")
    files = {str(path.relative_to(tmp_path)): path.read_bytes() for path in folder.rglob("*.pb")}
    older = {name.replace("2026_11_21", "2026_11_20"): content for name, content in files.items()}
    expected = holotrace.open(folder).table("events").height
    job = holotrace.open(tarred(tmp_path / "logs.tar.gz", older | files))
    assert job.ranks == (0,)
    assert job.table("events").height == expected > 0
    assert [row["problem"] for row in job.found.problems] == ["several runs"]


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".gz", gzip.compress),
        pytest.param(".xz", lzma.compress, marks=pytest.mark.slow),
        pytest.param(".bz2", bz2.compress, marks=pytest.mark.slow),
    ],
)
def test_a_packed_file_of_either_format_is_read(tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    text = json.dumps({"traceEvents": EVENTS}).encode()
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / f"rank5.json{suffix}").write_bytes(pack(text))
    for given in (tmp_path / "traces", tmp_path / "traces" / f"rank5.json{suffix}"):
        job = holotrace.open(given)
        assert job.ranks == (5,)
        assert job.table("device_events").height == 2
    profile = next(capture("jax_cpu_gaps", tmp_path / "logs").rglob("*.pb"))
    (tmp_path / "runs").mkdir()
    packed = tmp_path / "runs" / f"{profile.name}{suffix}"
    packed.write_bytes(pack(profile.read_bytes()))
    for path in (packed, tmp_path / "runs"):
        assert holotrace.open(path).table("events").height == holotrace.open(profile).table("events").height


def test_a_packed_profile_that_is_cut_off_or_altered_has_what_came_before_and_says_so(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    profile = next(capture("jax_cpu_gaps", tmp_path / "logs").rglob("*.pb"))
    packed = tmp_path / "a.xplane.pb.zst"
    packed.write_bytes(zstandard.compress(profile.read_bytes()))
    assert holotrace.open(packed).table("events").height == holotrace.open(profile).table("events").height
    packed.write_bytes(packed.read_bytes()[:-500])
    cut = tmp_path / "a.xplane.pb.gz"
    cut.write_bytes(gzip.compress(profile.read_bytes())[:-500])
    for path in (packed, cut):
        job = holotrace.open(path)
        assert 0 < job.table("events").height <= holotrace.open(profile).table("events").height
        assert "file cut off" in job.problems()["problem"].to_list()
    altered = bytearray(gzip.compress(profile.read_bytes()))
    altered[-6] ^= 1
    cut.write_bytes(altered)
    job = holotrace.open(cut)
    assert job.table("events").height == holotrace.open(profile).table("events").height
    assert "compressed stream damaged" in job.problems()["problem"].to_list()


def test_archives_are_read_where_a_folder_holds_no_other_trace_and_named_where_it_does(tmp_path: Path) -> None:
    zipped(tmp_path / "backup.zip", TRACES)
    assert holotrace.open(tmp_path).ranks == (0, 3, 12)
    write_trace(tmp_path / "rank7.json", rank=7)
    job = holotrace.open(tmp_path)
    assert job.ranks == (7,)
    assert [(one.path.name, one.reason) for one in job.found.left_out] == [
        ("backup.zip", "an archive beside other traces; name it by itself to read it")
    ]


def test_names_that_lead_out_of_an_archive_are_names_only(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    content = TRACES["job/rank_0.json.gz"]
    for archive in (zipped, tarred):
        files = {"../../outside/rank1.json.gz": content, "/etc/rank2.json.gz": content}
        job = holotrace.open(archive(tmp_path / "job" / "a", files))
        assert job.ranks == (1, 2)
        assert job.table("device_events").height == 4
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "job"]


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    secret = write_trace(tmp_path / "secret.json", rank=1)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        entry = tarfile.TarInfo("rank1.json")
        entry.type, entry.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(entry)
    with pytest.raises(InputError, match="an archive of 0 files"):
        holotrace.open(tmp_path / "a.tar")


def test_a_member_that_inflates_beyond_measure_is_refused_with_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "ANY_GROWTH_BYTES", 1 << 22)
    bomb = zipped(tmp_path / "bomb.zip", {"rank0.json": b'{"traceEvents": [' + b" " * (1 << 26)})
    with pytest.raises(InputError, match="inflates to more than 200 times its size"):
        holotrace.open(bomb).table("events")


def test_a_header_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("././@LongLink")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 1 << 33
    (tmp_path / "a.tar").write_bytes(entry.tobuf(tarfile.GNU_FORMAT) + b"\0" * 1024)
    with pytest.raises(InputError, match=r"a\.tar cannot be read.*unpack it with another program"):
        holotrace.open(tmp_path / "a.tar")


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tar.xz"])
@pytest.mark.parametrize("kept", [0, 3, 100, 600, 0.5, 0.9, 0.999])
def test_an_archive_that_is_cut_off_is_one_sentence_or_read_as_far_as_it_is_whole(
    tmp_path: Path, name: str, kept: float
) -> None:
    archive = (zipped if name.endswith("zip") else tarred)(tmp_path / name, TRACES)
    whole = archive.read_bytes()
    archive.write_bytes(whole[: kept if isinstance(kept, int) else int(kept * len(whole))])
    done = CliRunner().invoke(main, ["info", str(archive)])
    assert done.exit_code in (0, 3), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.parametrize("behind", [3, 6], ids=["length", "checksum"])
def test_a_packed_archive_is_held_against_its_checksum_whichever_members_are_read(tmp_path: Path, behind: int) -> None:
    """Of archives with a flipped bit some gave other figures without a word."""
    archive = tarred(tmp_path / "a.tar.gz", TRACES)
    content = bytearray(archive.read_bytes())
    content[-behind] ^= 1
    archive.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.tar\.gz cannot be read: .*; unpack it with another program"):
        holotrace.open(archive)


def test_what_stands_behind_the_members_of_an_archive_is_not_read_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "ANY_GROWTH_BYTES", 1 << 22)
    archive = tarred(tmp_path / "a.tar.gz", TRACES)
    archive.write_bytes(archive.read_bytes() + gzip.compress(b"\0" * (1 << 25)))
    with pytest.raises(InputError, match=r"it goes on for more than a gigabyte behind its last member; unpack it"):
        holotrace.open(archive)


def test_an_archive_in_an_archive_is_left_out_and_an_empty_one_is_an_error(tmp_path: Path) -> None:
    inner = zipped(tmp_path / "inner.zip", TRACES).read_bytes()
    job = holotrace.open(zipped(tmp_path / "outer.zip", TRACES | {"inner.zip": inner}))
    assert ("inner.zip", "an archive in an archive; unpack it") in {
        (one.path.name, one.reason) for one in job.found.left_out
    }
    for archive in (zipped(tmp_path / "empty.zip", {}), zipped(tmp_path / "only.zip", {"inner.zip": inner})):
        with pytest.raises(InputError, match="none of which is called like a trace"):
            holotrace.open(archive)


def test_overlays_timelines_and_datasets_are_made_of_an_archive(tmp_path: Path) -> None:
    job = holotrace.open(zipped(tmp_path / "a.zip", TRACES))
    assert [path.name for path in job.write_overlay(tmp_path / "copies", counters=True)][:1] == [
        "rank-0-with-counters.json.gz"
    ]
    job.write_timeline(tmp_path / "all.json.gz")
    assert holotrace.convert(job, tmp_path / "dataset").written == (0, 3, 12)
    assert holotrace.convert(tmp_path / "a.zip", tmp_path / "dataset").kept == (0, 3, 12)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank0.json")
    with pytest.raises(InputError, match="is a named pipe, which is not read; write what comes through it into a file"):
        holotrace.open(tmp_path / "rank0.json")
    with pytest.raises(InputError, match="holds no trace"):
        holotrace.open(tmp_path)
    write_trace(tmp_path / "rank1.json", rank=1)
    assert [(one.path.name, one.reason) for one in survey(tmp_path).left_out] == [("rank0.json", "a named pipe")]


def piped(command: str, content: bytes, folder: Path) -> subprocess.CompletedProcess[bytes]:
    holo = f"{sys.executable} -m holotrace"
    return subprocess.run(
        ["bash", "-c", command.replace("HOLO", holo)],
        input=content,
        capture_output=True,
        check=False,
        cwd=folder,
        timeout=120,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize(
    "command",
    every(
        5, ["HOLO info -", "HOLO info /dev/stdin", "HOLO info <(cat)", "HOLO show kernels -", "HOLO report - -o r.html"]
    ),
)
def test_a_trace_is_read_from_a_pipe(tmp_path: Path, command: str) -> None:
    done = piped(command, TRACES["job/rank_0.json.gz"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param("yes | HOLO info -", b"stdin is no trace", marks=pytest.mark.slow),
        ("HOLO info /dev/zero", b"/dev/zero is a device, which is not read"),
        pytest.param("HOLO info - < /dev/null", b"stdin is empty", marks=pytest.mark.slow),
        pytest.param("HOLO info - <&-", b"stdin cannot be read", marks=pytest.mark.slow),
    ],
)
def test_a_pipe_that_holds_no_trace_is_refused_without_reading_on(tmp_path: Path, command: str, said: bytes) -> None:
    done = piped(command, b"", tmp_path)
    assert (done.returncode, said in done.stderr) == (3, True), done.stderr


def database(path: Path, *tables: str) -> None:
    connection = sqlite3.connect(path)
    for table in tables:
        connection.execute(f"CREATE TABLE {table} (id INTEGER)")
    connection.commit()
    connection.close()


OTHERS: dict[str, tuple[bytes, str]] = {
    "a.sqlite": (b"", "a database that Nsight Systems exported"),
    "b.db": (b"", "a rocpd database"),
    "c.db": (b"", "an SQLite database"),
    "report.nsys-rep": (b"\x00\x01binary", "a report of Nsight Systems"),
    "trace.pftrace": (b"\x0a\x04\x40\x01\x50\x01", "a trace in Perfetto's protobuf"),
    "snapshot.pickle": (pickle.dumps({"segments": [], "device_traces": []}), "a pickle, which is never loaded"),
    "snapshot.json.gz": (gzip.compress(pickle.dumps({})), "a pickle, which is never loaded"),
    "page.html": (b'\n<!DOCTYPE html><html><body>"ph"</body>', "a page in HTML"),
    "et.json": (b'{"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": [', "an execution trace of PyTorch"),
    "memory.raw.json": (b"[[-1, 0, 512, 3], [10, 1, 512, 3]]", "a memory timeline of PyTorch"),
    "part.parquet": (b"PAR1....", "a Parquet file"),
    "a.7z": (b"7z\xbc\xaf\x27\x1c....", "an archive that is not read"),
    "a.out": (b"\x7fELF....", "a program or library"),
    "empty.json": (b"", "empty"),
    "broken.json.gz": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff", "damaged from its beginning on"),
    "nothing.json": (b" {} ", "a trace without any event"),
    "none.json": (b"[]\n", "a trace without any event"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_programs_are_named_with_a_way_out(tmp_path: Path, name: str) -> None:
    content, said = OTHERS[name]
    tables = {"a.sqlite": ("StringIds", "CUPTI_ACTIVITY_KIND_KERNEL"), "b.db": ("rocpd_string",), "c.db": ("mine",)}
    if name in tables:
        database(tmp_path / name, *tables[name])
    else:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as raised:
        holotrace.open(tmp_path / name)
    assert f"{name} is {said}" in str(raised.value)
    assert ";" in str(raised.value)
    # In a folder it is left out, with the same words.
    write_trace(tmp_path / "rank0.json", rank=0)
    assert [one.path.name for one in survey(tmp_path).left_out] == [name]


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
            return (os.mkdir, (str(tmp_path / "run"),))

    (tmp_path / "trace.json").write_bytes(pickle.dumps(Evil()))
    done = CliRunner().invoke(main, ["report", str(tmp_path / "trace.json"), "-o", str(tmp_path / "r.html")])
    assert done.exit_code == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.json"]


def test_info_names_what_it_left_out_and_why(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json", rank=0)
    (tmp_path / "config.json").write_text('{"hidden_size": 4096}')
    (tmp_path / "log.txt").write_text("x")
    done = CliRunner().invoke(main, ["info", str(tmp_path)], terminal_width=200)
    assert "config.json: not a trace" in done.output
    assert "log.txt: not called like a trace" in done.output
    shown = json.loads(CliRunner().invoke(main, ["info", str(tmp_path), "--format", "json"]).stdout)
    assert {(Path(row["file"]).name, row["example"]) for row in shown["problems"]} == {
        ("config.json", "not a trace"),
        ("log.txt", "not called like a trace"),
    }


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_in_circles_and_to_nowhere_and_folders_called_like_traces_are_named_and_cost_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "circle.json").symlink_to(tmp_path / "circle.json")
    (tmp_path / "nowhere.json").symlink_to(tmp_path / "is-not-there")
    (tmp_path / "below").symlink_to(tmp_path)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError, match="holds no trace"):
        holotrace.open(tmp_path)
    with pytest.raises(InputError, match="holds no trace"):
        holotrace.open(tmp_path / "folder.json")
    for name, said in (
        ("circle.json", "levels of symbolic links|Symlink loop|does not exist"),
        ("nowhere.json", "does not exist"),
    ):
        with pytest.raises(InputError, match=said):
            holotrace.open(tmp_path / name)
    write_trace(tmp_path / "rank1.json", rank=1)
    assert holotrace.open(tmp_path, recursive=True).ranks == (1,)
    assert {one.path.name for one in survey(tmp_path).left_out} == {"circle.json", "nowhere.json"}


def test_thousands_of_files_beside_a_trace_are_counted_and_twenty_of_them_named(tmp_path: Path) -> None:
    write_trace(tmp_path / "rank0.json", rank=0)
    for number in range(3000):
        (tmp_path / f"{number}.log").write_bytes(b"")
    done = CliRunner().invoke(main, ["info", str(tmp_path)])
    assert done.stdout.count("not called like a trace") == 20
    assert "2,980 other files" in done.stdout


@pytest.mark.slow
def test_a_name_beyond_measure_is_cut_in_a_page_and_told_in_little_time(tmp_path: Path) -> None:
    events = [{**EVENTS[2], "name": "g" * 1_000_000}, *EVENTS]
    write_trace(tmp_path / "rank0.json", rank=0, events=events)
    done = CliRunner().invoke(main, ["report", str(tmp_path), "-o", str(tmp_path / "r.html")])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "r.html").read_text()
    assert "g" * 1000 in page
    assert "g" * 5000 not in page
