"""Traces are read from object stores and reports written to them, also over a network that fails."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl
import pytest
import zstandard
from click.testing import CliRunner, Result
from polars.testing import assert_frame_equal

import holotrace
from holotrace import InputError, MissingExtraError, sample, stores
from holotrace._native import read_ends, read_trace_event
from holotrace.cli import main
from holotrace.stores import Remote, place
from s3 import BUCKET, FlakyNetwork, Store, forget
from trace_files import write_trace


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    sample.write(folder, ranks=3, steps=3, seed=1)
    return folder


@pytest.fixture
def url(store: Store, folder: Path) -> str:
    return store.put(folder, "runs/a job")


def run(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def test_a_folder_in_a_store_gives_what_the_same_folder_here_gives(url: str, folder: Path) -> None:
    there, here = holotrace.open(url), holotrace.open(folder)
    assert (there.ranks, there.found.title, there.found.origin) == (here.ranks, "a job", url)
    one, other = there.run(), here.run()
    for name, table in other.tables.items():
        assert_frame_equal(one.tables[name], table)
    assert one.findings == other.findings
    assert_frame_equal(one.info.drop("load_ns", "file"), other.info.drop("load_ns", "file"))
    assert one.info["file"][0].startswith(f"{url}/")


@pytest.mark.parametrize("form", ["json", "json.gz", "json.zst"])
def test_each_form_is_inflated_as_it_arrives(store: Store, tmp_path: Path, form: str) -> None:
    path = write_trace(tmp_path / f"trace.{form}", rank=5, world=6)
    if form == "json.zst":
        path.write_bytes(zstandard.compress(path.read_bytes()))
    url = store.put(tmp_path, f"forms/{form.replace('.', '-')}")
    for what in (url, f"{url}/", f"{url}/trace.{form}", [f"{url}/trace.{form}"]):
        assert holotrace.open(what).overlap()["rank"].to_list() == [5]
    assert holotrace.open({7: f"{url}/trace.{form}"}).ranks == (7,)


def test_the_rank_at_the_end_of_a_file_is_found(store: Store, tmp_path: Path) -> None:
    for form in ("json", "json.gz"):
        write_trace(tmp_path / form / f"a.{form}", rank=3, world=4, at_the_end=True)
        write_trace(tmp_path / form / f"b.{form}", rank=1, world=4, at_the_end=True)
        assert holotrace.open(store.put(tmp_path / form, f"ends/{form.replace('.', '-')}")).ranks == (1, 3)


def test_patterns_and_subfolders(url: str, store: Store, folder: Path) -> None:
    store.put(folder, "runs/deep/er")
    assert holotrace.open("s3://traces/runs/*job/*rank?*.json.gz").ranks == (0, 1, 2)
    assert holotrace.open("s3://traces/runs/deep", recursive=True).ranks == (0, 1, 2)
    assert holotrace.open("s3://traces/runs/d**/*.json.gz").ranks == (0, 1, 2)
    with pytest.raises(InputError, match=r"its subfolders hold 3; give one of them, e\.g\. s3://traces/runs/deep/er"):
        holotrace.open("s3://traces/runs/deep")
    with pytest.raises(InputError, match="matches no file"):
        holotrace.open("s3://traces/runs/*/none*.json")


@pytest.mark.slow
def test_a_report_goes_from_a_store_to_a_store(url: str, store: Store) -> None:
    done = run("report", url, "-o", f"s3://{BUCKET}/out/report.html")
    assert done.exit_code == 0, done.output
    assert store.get("out/report.html").lower().startswith(b"<!doctype html>")
    assert store.client.head_object(Bucket=BUCKET, Key="out/report.html")["ContentType"].startswith("text/html")
    assert run("show", "overlap", url, "-o", f"s3://{BUCKET}/out/overlap.csv").exit_code == 0
    assert store.get("out/overlap.csv").startswith(b"rank,comm_ns")


@pytest.mark.slow
def test_a_timeline_of_traces_in_a_store_is_that_of_the_same_traces_here(
    url: str, folder: Path, tmp_path: Path
) -> None:
    there = holotrace.open(url).write_timeline(tmp_path / "there.json.gz")
    here = holotrace.open(folder).write_timeline(tmp_path / "here.json.gz")
    assert (tmp_path / "there.json.gz").read_bytes() == (tmp_path / "here.json.gz").read_bytes()
    assert_frame_equal(there.ranks, here.ranks)


def test_a_connection_that_breaks_is_tried_again(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample.write(tmp_path, ranks=1, events=60_000)
    url = store.put(tmp_path, "runs/large")
    address = urlsplit(store.endpoint)
    assert address.hostname and address.port
    with FlakyNetwork((address.hostname, address.port)).up() as network:
        monkeypatch.setenv("AWS_ENDPOINT_URL", network.endpoint)
        forget()
        job = holotrace.open(url)
        network.cuts = 3
        assert job.info()["event_count"].to_list() == [60_000]
        assert network.made == 3
        assert "cut" not in " ".join(job.problems()["problem"])


def test_of_a_parquet_file_the_columns_come_that_are_asked_for_and_again_where_they_break(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Random bytes, which nothing compresses.
    frame = pl.DataFrame({"number": range(1000), "content": [os.urandom(4096) for _ in range(1000)]})
    frame.write_parquet(tmp_path / "part.parquet")
    remote = Remote(store.put(tmp_path, "columns")) / "part.parquet"
    address = urlsplit(store.endpoint)
    assert address.hostname and address.port
    with FlakyNetwork((address.hostname, address.port), most_bytes=1 << 20).up() as network:
        monkeypatch.setenv("AWS_ENDPOINT_URL", network.endpoint)
        forget()
        assert_frame_equal(stores.scan(remote).select("number").collect(), frame.select("number"))
        assert 0 < network.answered_bytes < 1 << 20
        network.cuts = 1
        assert_frame_equal(stores.scan(remote).collect(), frame)
        assert network.made == 1


def test_bytes_that_stay_away_are_no_damage_of_the_file(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "rank0.json", rank=0)

    def pieces() -> Iterator[bytes]:
        yield path.read_bytes()[:300]
        raise InputError("the network is down")

    stream = stores.Stream("s3://b/rank0.json", pieces(), path.stat().st_size)
    with pytest.raises(InputError, match="the network is down"):
        read_trace_event(stream, tables=["steps"], args=[])
    with pytest.raises(InputError, match="the network is down"):
        read_ends(stores.Stream("s3://b/rank0.json", pieces(), 1), head_bytes=1 << 20, tail_bytes=0)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("s3://traces/runs/none.json", "it does not exist; check the name, or give its folder"),
        ("s3://traces/nothing", "holds no trace"),
        ("s3://nobucket/rank0.json", "there is no nobucket; check its name"),
        ("s3://nobucket/folder", "there is no nobucket; check its name"),
        ("https://127.0.0.1:1/folder/", "web servers list no files; give the URLs of the files"),
        ("az://container/rank0.json", "set AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_what_is_not_there_is_one_sentence_and_a_way_out(store: Store, what: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        holotrace.open(what)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert run("info", what).exit_code == 3


def test_without_credentials_or_permission_it_says_how_to_log_in(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    # What a machine without a role, a profile or a home has.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    forget()
    # The server keeps unsigned requests out: 403.
    with pytest.raises(InputError, match="not allowed with the credentials at hand; log in with 'aws configure'"):
        holotrace.open(url).run(())
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    forget()
    with pytest.raises(InputError, match=r"profile \(nobody\) could not be found"):
        holotrace.open(url)


def test_credentials_of_a_profile_are_used(url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    file.write_text("[mine]\naws_access_key_id = me\naws_secret_access_key = secret\nregion = us-east-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    forget()
    assert holotrace.open(url).ranks == (0, 1, 2)


def test_files_of_a_web_server(folder: Path) -> None:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: Quiet(*args, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        names = sorted(path.name for path in folder.glob("*.json.gz"))
        urls = [f"http://127.0.0.1:{server.server_port}/{name}?signature=x" for name in names]
        job = holotrace.open(urls)
        assert job.ranks == (0, 1, 2)
        assert_frame_equal(job.overlap(), holotrace.open(folder).overlap())
        with pytest.raises(InputError, match="it does not exist"):
            holotrace.open(f"http://127.0.0.1:{server.server_port}/none.json")
        server.shutdown()


def test_a_url_is_named_like_a_path() -> None:
    remote = Remote("s3://bucket/job/rank0.json.gz")
    assert (remote.name, remote.suffix, str(remote.parent)) == ("rank0.json.gz", ".gz", "s3://bucket/job")
    assert str(Remote("s3://bucket/job/").parent / "x") == "s3://bucket/x"
    assert Remote("https://host/a/b.json?sig=x/y.z").name == "b.json"
    assert place("S3://bucket/x") == Remote("S3://bucket/x")
    assert place("s3:/bucket/x") == Path("s3:/bucket/x")


SIGNED = "http://me:secret@127.0.0.1:{}/{}?X-Amz-Signature=secret&sig=secret"


@pytest.mark.slow
def test_who_asks_a_web_server_is_told_to_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    for rank in (0, 1, 2):
        write_trace(folder / f"rank{rank}.json.gz", rank=rank, world=3)

    class Asked(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            assert "sig=secret" in self.path
            super().do_GET()

    # A file that is cut off is among the problems, by its address.
    broken = folder / "rank2.json.gz"
    broken.write_bytes(broken.read_bytes()[:-20])
    with ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: Asked(*args, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        urls = [SIGNED.format(server.server_port, path.name) for path in sorted(folder.glob("*.json.gz"))]
        runs = [run("report", *urls, "-o", str(tmp_path / "report.html")), run("convert", *urls, str(tmp_path / "out"))]
        runs += [run("info", *urls), run("show", "problems", *urls, "--format", "json")]
        assert [done.exit_code for done in runs] == [0] * 4
        runs += [run("info", SIGNED.format(server.server_port, "none.json")), run("info", SIGNED.format(1, "a.json"))]
        server.shutdown()
    assert "problems" in runs[3].output
    said = "".join(done.output for done in runs)
    assert "secret" not in said
    assert "rank0.json.gz?..." in said
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"secret" not in path.read_bytes(), path


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'holotrace\[remote\]'"):
        holotrace.open("s3://bucket/rank0.json")
