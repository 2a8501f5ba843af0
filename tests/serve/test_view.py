"""The page from a server of this machine: what it tells whom, and that it has every event."""

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import polars as pl
import pytest

import holotrace
from browsers import chromium, needs_browser
from holotrace import sample
from holotrace.analyses.lanes.timeline import timeline
from holotrace.serve import tiles
from holotrace.serve.view import View

pytest.importorskip("starlette", reason="the extra view is not installed")
pytest.importorskip("uvicorn", reason="the extra view is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("job")
    sample.write(made, ranks=3, steps=2, seed=1, missing_ranks=())
    return made


@pytest.fixture(scope="module")
def job(folder: Path) -> Iterator[holotrace.Job]:
    with holotrace.open(folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def view(job: holotrace.Job) -> Iterator[View]:
    with job.view() as shown:
        yield shown


def got(url: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urlopen(Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


def tile(view: View, rank: int, start_ns: int, end_ns: int, pieces: int = 100) -> Any:
    status, content = got(f"{view.url}tile?rank={rank}&from={start_ns}&to={end_ns}&pieces={pieces}")
    assert status == 200
    return json.loads(content)


def test_it_listens_on_this_machine_only(view: View) -> None:
    assert view.url.startswith("http://127.0.0.1:")
    assert view._socket.getsockname()[0] == "127.0.0.1"


def test_without_the_token_there_is_nothing(view: View) -> None:
    origin = view.url.rsplit("/", 2)[0]
    for path in ("/", "/page", f"/{'x' * 32}/", f"/{'x' * 32}/tile?rank=0&from=0&to=9&pieces=1", "/../etc/passwd"):
        assert got(origin + path)[0] == 404
    assert len(view.url.split("/")[3]) >= 32


def test_a_page_elsewhere_that_leads_here_by_a_name_of_its_own_reads_nothing(view: View) -> None:
    """DNS rebinding: the browser asks this machine, in the name of another."""
    assert got(view.url, Host="evil.example")[0] == 421
    assert got(f"{view.url}trace", Host="evil.example:80")[0] == 421
    port = view.url.split(":")[2].split("/")[0]
    assert got(view.url, Host=f"localhost:{port}")[0] == 200


def test_no_other_page_may_frame_it_or_read_it(view: View) -> None:
    with urlopen(view.url, timeout=60) as answer:
        headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_its_page_asks_nobody_else(view: View) -> None:
    text = got(view.url)[1].decode()
    assert "default-src 'none'; connect-src 'self';" in text
    assert "Open in Perfetto" in text


def test_a_tile_has_every_event_of_its_time(view: View, job: holotrace.Job) -> None:
    recorded = timeline(job).filter(row="rank", rank=1).row(0, named=True)
    begin = recorded["start_ns"] + 10_000_000
    found = tile(view, 1, begin, begin + 2_000_000)
    lanes, names, starts, lengths, _ = found["events"]
    told = {
        (found["names"][name][:99], begin + start, length)
        for lane, name, start, length in zip(lanes, names, starts, lengths, strict=True)
        if lane == 2
    }
    events = job.table("device_events", rank=1, columns=["name", "kind", "start_ns", "end_ns"])
    steps = job.table("steps", rank=1, columns=["start_ns", "end_ns"])
    first = pl.concat([events.select("start_ns"), steps.select("start_ns")])["start_ns"].min()
    on_clock = pl.col("start_ns", "end_ns") - first + recorded["start_ns"]
    there = (
        events.filter(pl.col("kind") == "compute")
        .with_columns(on_clock)
        .filter(pl.col("start_ns") < begin + 2_000_000, pl.col("end_ns") > begin)
    )
    expected = {
        (str(name)[:99], start, end - start)
        for name, start, end in there.select("name", "start_ns", "end_ns").iter_rows()
    }
    assert told == expected and told


def test_a_tile_of_too_much_is_told_in_pieces(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "MOST_EVENTS", 10)
    found = tile(view, 0, 0, 40_000_000)
    assert found["events"] is None
    assert sum(found["pieces"]["compute"][1]) > 10


def test_what_is_no_tile_is_not_found(view: View) -> None:
    for query in (
        "",
        "rank=0",
        "rank=99&from=0&to=9&pieces=5",
        "rank=0&from=9&to=0&pieces=5",
        f"rank=0&from=0&to={10**30}&pieces=1",
    ):
        assert got(f"{view.url}tile?{query}")[0] == 404


def test_the_merged_trace_has_all_ranks(view: View) -> None:
    status, content = got(f"{view.url}trace")
    assert status == 200
    events = json.loads(gzip.decompress(content))["traceEvents"]
    names = {event["args"]["name"] for event in events if event.get("name") == "process_name"}
    assert all(any(name.lower().startswith(f"rank {rank}") for name in names) for rank in range(3))


def test_it_stops_when_nobody_looks(job: holotrace.Job) -> None:
    shown = job.view(idle_s=0.3)
    shown.wait()
    assert not shown.is_open
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(shown.url.split(":")[2].split("/")[0])), timeout=1)
    assert not shown._folder.exists()


@pytest.mark.slow
def test_a_process_that_ends_with_an_open_view_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    script = "import sys, holotrace; shown = holotrace.open(sys.argv[1]).view(); print(shown._folder.exists())"
    command = [sys.executable, "-W", "ignore", "-c", script, str(folder)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    assert said.strip() == "True"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_command_says_the_address_and_stops_with_ctrl_c(folder: Path) -> None:
    command = [sys.executable, "-m", "holotrace", "view", str(folder), "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as run:
        assert run.stdout is not None and run.stderr is not None
        url = run.stdout.readline().strip()
        assert got(url)[0] == 200
        time.sleep(0.2)
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=30) == 0
        said = run.stderr.read()
    assert "stopped" in said and "Traceback" not in said


@needs_browser
@pytest.mark.slow
def test_zooming_in_brings_events_from_the_server(view: View) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        complaints: list[str] = []
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.goto(view.url)
        page.locator(".tl-box[data-ready]").wait_for()
        page.evaluate("(t => { t.toggle(1); t.show(20e6, 22e6); })(document.querySelector('.timeline').timeline)")
        for _ in range(200):
            if page.evaluate("document.querySelector('.timeline').timeline.model.ranks[1].fine?.isExact"):
                break
            page.wait_for_timeout(50)
        assert page.evaluate("document.querySelector('.timeline').timeline.model.ranks[1].fine.isExact")
        page.wait_for_timeout(200)
        assert page.evaluate("document.querySelector('.timeline').timeline.painter.events") > 20
        assert complaints == []


@needs_browser
@pytest.mark.slow
def test_perfetto_is_handed_the_merged_trace_from_window_to_window(view: View) -> None:
    """A page in the place of Perfetto's answers as that does."""
    stand_in = """<title>waits</title><script>addEventListener("message", (event) => {
        if (event.data === "PING") event.source.postMessage("PONG", event.origin);
        else document.title = "got " + event.data.perfetto.buffer.byteLength; });</script>"""
    with chromium() as browser:
        context = browser.new_context()
        context.route(
            "https://ui.perfetto.dev/**", lambda route: route.fulfill(body=stand_in, content_type="text/html")
        )
        page = context.new_page()
        page.goto(view.url)
        page.locator(".tl-box[data-ready]").wait_for()
        with context.expect_page() as opened:
            page.locator(".tl-perfetto").click()
        for _ in range(400):
            if opened.value.title().startswith("got"):
                break
            page.wait_for_timeout(50)
        assert opened.value.title() == f"got {len(got(f'{view.url}trace')[1])}"
        assert page.locator(".tl-said").inner_text() == "Perfetto has the merged trace."
