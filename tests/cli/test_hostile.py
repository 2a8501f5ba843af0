"""Files cut off at every kind of place, full disks and little memory: a sentence, and never a part without a word."""

from __future__ import annotations

import gzip
import json
import random
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holotrace.cli import main
from holotrace.sample import write
from quick import every

COMMANDS = (
    "show overlap JOB",
    "show stragglers JOB",
    "show device-events JOB --limit 2",
    "show findings JOB",
    "show clocks JOB",
    "show problems JOB",
    "query SQL JOB",
    "compare WHOLE JOB --limit 2",
    "what-if JOB --scale compute=0.5",
    "report JOB --format json",
    "timeline JOB -o OUT/all.json",
    "overlay JOB --counters --critical-path -o OUT/copies",
    "convert JOB OUT/dataset",
    "info JOB",
)
LOADER_GAVE_UP = 127
WORDS = ("file cut off", "compressed stream damaged", "file left out", "file not read", "Problem")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "job"
    write(folder, ranks=2, steps=2, compress=False)
    return folder


def places(text: bytes) -> list[int]:
    """Where a file may end: nowhere, in its head, around its events, in a kernel, anywhere, and close to the end."""
    begin, kernel = text.index(b'"traceEvents"'), text.index(b'"kernel"')
    anywhere = random.Random(5).sample(range(len(text)), 4)
    return [0, 1, 40, begin + 3, begin + 14, begin + 17, kernel + 3, kernel + 30, *anywhere, len(text) - 20]


@pytest.mark.slow
def test_a_file_cut_off_anywhere_is_told_or_refused_by_every_command(whole: Path, tmp_path: Path) -> None:
    first, second, *_ = sorted(whole.glob("rank-*"))
    text = second.read_bytes()
    packed = gzip.compress(text)
    cuts = [("json", text[:at]) for at in places(text)] + [("json.gz", packed[:at]) for at in (5, 40, 9_000, -5)]
    commands = random.Random(7)
    for number, (suffix, content) in enumerate(cuts):
        job = tmp_path / f"job{number}"
        job.mkdir()
        shutil.copy(first, job)
        (job / f"rank1.{suffix}").write_bytes(content)
        for command in commands.sample(COMMANDS, 4):
            said = {"JOB": str(job), "WHOLE": str(whole), "SQL": "SELECT count(*) AS n FROM device_events"}
            words = [said.get(word) or word.replace("OUT", str(tmp_path / f"out{number}")) for word in command.split()]
            (tmp_path / f"out{number}").mkdir(exist_ok=True)
            done = CliRunner().invoke(main, words)
            what = f"{command} of {len(content)} bytes of {suffix}: {done.output}"
            assert done.exit_code in (0, 2, 3), what
            assert "Traceback" not in done.output, what
            assert any(word in done.output for word in (WORDS if done.exit_code == 0 else ("Error: ",))), what


ODD: tuple[Any, ...] = (
    *(float("nan"), float("inf"), -1, 0, 0.1, -1e300, 1e300, 2**63, 2**64, 10**40),
    *("12", "abc", "", None, True, [], {}, "[" * 5_000, "ProfilerStep#-1"),
)
FIELDS = ("ts", "dur", "ph", "pid", "tid", "name", "cat", "args")


def with_odd_values(text: bytes, chance: random.Random) -> bytes:
    """The trace with a value of its events, or of their arguments, replaced in one, some or all of them."""
    trace = json.loads(text)
    field, share = chance.choice(FIELDS), chance.choice((0.001, 0.1, 1))
    for event in trace["traceEvents"]:
        if chance.random() < share:
            holder = event.get("args") if chance.random() < 0.5 else event
            key = chance.choice(list(holder)) if holder and holder is not event else field
            (holder or event)[key] = chance.choice(ODD)
    return json.dumps(trace).encode()


def no_number(constant: str) -> None:
    raise AssertionError(f"{constant} in JSON")


@pytest.mark.slow
def test_events_with_odd_values_are_read_or_refused_by_every_command(whole: Path, tmp_path: Path) -> None:
    first, second, *_ = sorted(whole.glob("rank-*"))
    chance = random.Random(11)
    for number in range(24):
        job, out = tmp_path / f"job{number}", tmp_path / f"out{number}"
        for folder in (job, out):
            folder.mkdir()
        shutil.copy(first, job)
        (job / "rank1.json").write_bytes(with_odd_values(second.read_bytes(), chance))
        for command in ("report JOB --format json", *chance.sample(COMMANDS, 2)):
            said = {"JOB": str(job), "WHOLE": str(whole), "SQL": "SELECT cause, cost_ns FROM causes"}
            words = [said.get(word) or word.replace("OUT", str(out)) for word in command.split()]
            done = CliRunner().invoke(main, words)
            assert done.exit_code in (0, 2, 3), f"{number} {command}: {done.output}"
            if done.exit_code == 0 and "json" in words:
                json.loads(done.stdout, parse_constant=no_number)


OUTPUTS = (
    ("show", "device-events", "out.csv"),
    ("show", "device-events", "out.parquet"),
    ("show", "device-events", "out.json"),
    ("report", "out.html"),
    ("report", "out.md"),
    ("timeline", "out.json"),
    ("overlay", "--counters", "out"),
    ("convert", "out"),
)


@pytest.mark.parametrize("asked", every(4, OUTPUTS), ids=" ".join)
def test_a_full_disk_leaves_no_half_file_under_its_name(whole: Path, tmp_path: Path, asked: tuple[str, ...]) -> None:
    *command, name = asked
    out = tmp_path / name
    where = [str(whole), str(out)] if command == ["convert"] else [str(whole), "-o", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "holotrace", *command, *where],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)),  # no threads yet
    )
    assert done.returncode in (2, 3), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("Error: ")
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size >= 500]
    assert not left
    assert not out.is_file()


def test_without_memory_there_is_one_sentence(whole: Path) -> None:
    code = (
        "import holotrace.job as jobs, holotrace.cli as cli\n"
        "def starve(*_, **__): raise MemoryError\n"
        "jobs.Job.run = starve\n"
        f"cli.main(['info', {str(whole)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "there is not enough memory" in done.stderr


def aborted(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that a library aborts, which says something itself before it does."""
    code = (
        "import os, sys; from holotrace.cli.errors import prepare_for_abort; prepare_for_abort()\n"
        "print('Note: 1 of 2', file=sys.stderr); os.write(2, b'memory allocation of 13 bytes failed\\n'); os.abort()"
    )
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_a_process_that_a_library_aborts_says_one_sentence() -> None:
    done = aborted()
    note, error = done.stderr.splitlines()
    assert (done.returncode, note) == (3, "Note: 1 of 2")
    assert error.startswith("Error: there is not enough memory; choose ranks")


def test_what_the_library_said_is_shown_for_debugging() -> None:
    assert "memory allocation of 13 bytes failed" in aborted("--debug").stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
@pytest.mark.parametrize("megabytes", [500, 600, 700, 800, 1000])
def test_little_memory_ends_in_a_sentence_at_any_place(whole: Path, tmp_path: Path, megabytes: int) -> None:
    """Also where a library aborts the process; what Python and the libraries take themselves is there.

    One end cannot be caught, and is tried again: where a new thread's own variables have no room, the loader of the C
    library ends the process without a signal (seen in 1 of 400 runs).
    """
    page = tmp_path / "page.html"
    for _ in range(3):
        done = with_address_space(megabytes, "report", str(whole), "--output", str(page))
        if done.returncode != LOADER_GAVE_UP:
            break
    if done.returncode == 0:
        assert page.is_file()
    else:
        assert done.returncode == 3, done.stderr[-500:]
        (error,) = (line for line in done.stderr.splitlines() if not line.startswith("Note: "))
        assert error.startswith("Error: ")


def with_address_space(megabytes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    limit = megabytes << 20
    return subprocess.run(
        [sys.executable, "-m", "holotrace", *arguments],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),  # no threads yet
    )


def test_without_memory_the_process_ends_before_the_interpreter_needs_some(whole: Path, tmp_path: Path) -> None:
    """Its end failed with another exit code once, as a library could not be loaded any more."""
    script = (
        "import atexit, sys, holotrace.job as jobs, holotrace.cli as cli\n"
        "def fail(*_, **__): raise MemoryError\n"
        "jobs.Job.run = fail\n"
        "atexit.register(print, 'the interpreter ended')\n"
        f"sys.argv = ['holotrace', 'report', {str(whole)!r}, '--output', {str(tmp_path / 'page.html')!r}]\n"
        "cli.start()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)


@pytest.mark.parametrize(
    ("panic", "said", "code"),
    [
        ('Err value: Os { code: 11, message: "Resource temporarily unavailable" }', "there is not enough memory", 3),
        ("mmap failed to allocate stack: Cannot allocate memory", "there is not enough memory", 3),
        ("index out of bounds", "unexpected PanicException: index out of bounds", 1),
    ],
)
def test_a_panic_of_a_library_ends_in_one_sentence(whole: Path, panic: str, said: str, code: int) -> None:
    script = (
        "import holotrace.job as jobs, holotrace.cli as cli\n"
        "from polars.exceptions import PanicException\n"
        f"def panic(*_, **__): raise PanicException({panic!r})\n"
        "jobs.Job.run = panic\n"
        f"cli.main(['info', {str(whole)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert done.stderr.startswith(f"Error: {said}")
