"""Which run of a log directory is read, and which files are its hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import holotrace
from holotrace.cli import main
from holotrace.discovery import survey
from s3 import Store
from xplane_files import Plane, space, started_at

START_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


def run(folder: Path, name: str, *hosts: str, from_s: int = 0) -> Path:
    """A run of a second in a log directory."""
    place = folder / "plugins" / "profile" / name
    place.mkdir(parents=True)
    begun = START_NS + from_s * SECOND_NS
    for host in hosts:
        (place / f"{host}.xplane.pb").write_bytes(
            space(Plane("/host:CPU"), started_at(begun, begun + SECOND_NS), hosts=[host])
        )
    return place


def files(path: Path, *, recursive: bool = False) -> list[str]:
    sources = holotrace.open(path, recursive=recursive).sources
    assert [source.rank for source in sources] == list(range(len(sources)))
    assert {source.format for source in sources} == {"xplane"}
    return [f"{source.path.parent.name}/{source.path.name}" for source in sources]


@pytest.mark.parametrize("below", ["", "plugins/profile", "plugins/profile/2026_01_01_00_00_00"])
def test_a_log_directory_and_all_below_it_lead_to_the_hosts_of_the_run(below: str, tmp_path: Path) -> None:
    run(tmp_path, "2026_01_01_00_00_00", "host10", "host9")
    expected = ["2026_01_01_00_00_00/host9.xplane.pb", "2026_01_01_00_00_00/host10.xplane.pb"]
    assert files(tmp_path / below) == expected


def test_of_several_runs_the_newest_is_read_and_the_others_are_named(tmp_path: Path) -> None:
    run(tmp_path, "2026_01_01_00_00_00", "a")
    run(tmp_path, "2026_01_02_00_00_00", "a", from_s=86_400)
    assert files(tmp_path) == ["2026_01_02_00_00_00/a.xplane.pb"]
    (row,) = survey(tmp_path).problems
    assert (row["problem"], row["count"], row["example"]) == ("several runs", 1, "2026_01_01_00_00_00")
    assert row["action"] == "the newest was read: 2026_01_02_00_00_00"


def test_a_run_is_read_by_its_name_below_the_log_directory(tmp_path: Path) -> None:
    run(tmp_path, "first", "a")
    run(tmp_path, "second", "a", from_s=86_400)
    assert files(tmp_path / "first") == ["first/a.xplane.pb"]
    with pytest.raises(holotrace.InputError, match="third does not exist"):
        holotrace.open(tmp_path / "third")


def test_runs_are_listed_with_what_they_hold(tmp_path: Path) -> None:
    run(tmp_path, "1", "a")
    run(tmp_path, "2", "a", "b", from_s=86_400)
    table = holotrace.runs(tmp_path)
    assert table.select("run", "host_count", "begun", "recorded_ns", "is_read").rows() == [
        ("1", 1, "2023-11-14 22:13:20", SECOND_NS, False),
        ("2", 2, "2023-11-15 22:13:20", SECOND_NS, True),
    ]
    assert (table["file_bytes"] > 0).all()
    shown = CliRunner().invoke(main, ["runs", str(tmp_path)])
    assert shown.exit_code == 0
    assert "2023-11-15" in shown.output
    with pytest.raises(holotrace.InputError, match="holds no run"):
        holotrace.runs(tmp_path / "plugins" / "nothing")


def test_hosts_of_one_capture_are_one_job_though_their_runs_have_two_names(tmp_path: Path) -> None:
    run(tmp_path, "2026_01_01_00_00_36", "a")
    run(tmp_path, "2026_01_01_00_00_38", "b")
    run(tmp_path, "2025_12_31_00_00_00", "b", from_s=-9)
    assert files(tmp_path) == ["2026_01_01_00_00_36/a.xplane.pb", "2026_01_01_00_00_38/b.xplane.pb"]
    assert [row["problem"] for row in survey(tmp_path).problems] == ["several runs", "hosts in several runs"]


def test_a_host_that_was_recorded_twice_is_not_merged_with_itself(tmp_path: Path) -> None:
    run(tmp_path, "1", "a")
    run(tmp_path, "2", "a")
    assert files(tmp_path) == ["2/a.xplane.pb"]


def test_every_run_is_taken_on_request(tmp_path: Path) -> None:
    run(tmp_path, "1", "a")
    run(tmp_path, "2", "a")
    assert files(tmp_path, recursive=True) == ["1/a.xplane.pb", "2/a.xplane.pb"]


def test_what_viewers_and_exports_leave_beside_a_profile_is_ignored(tmp_path: Path) -> None:
    place = run(tmp_path, "1", "a")
    for name in ("ALL_HOSTS.op_stats_v2.pb", "jit_f(5).hlo_proto.pb", "a.trace.json.gz", "a.memory_profile.json.gz"):
        (place / name).write_bytes(b"not read")
    assert files(tmp_path) == ["1/a.xplane.pb"]
    assert holotrace.open(tmp_path).problems()["problem"].to_list() == ["nothing recorded"]


def test_a_run_that_was_recorded_continuously_is_refused_with_a_way_out(tmp_path: Path) -> None:
    place = tmp_path / "plugins" / "profile" / "1"
    place.mkdir(parents=True)
    (place / "a.xplane.riegeli").write_bytes(b"x")
    for given in (tmp_path, place / "a.xplane.riegeli"):
        with pytest.raises(holotrace.InputError, match=r"a\.xplane\.riegeli is a Riegeli file.* record a profile of"):
            holotrace.open(given)


def test_a_dict_and_a_list_of_profiles_say_the_hosts_themselves(tmp_path: Path) -> None:
    place = run(tmp_path, "1", "a", "b")
    a, b = place / "a.xplane.pb", place / "b.xplane.pb"
    assert {source.rank: source.path.name for source in holotrace.open({3: b, 1: a}).sources} == {
        1: "a.xplane.pb",
        3: "b.xplane.pb",
    }
    assert [source.path.name for source in holotrace.open([b, a]).sources] == ["a.xplane.pb", "b.xplane.pb"]


@pytest.mark.parametrize("below", ["", "/", "/job", "/job/plugins/profile", "/job/plugins/profile/2026_01_02_00_00_00"])
def test_a_log_directory_in_a_store_is_what_it_is_here(below: str, store: Store, tmp_path: Path) -> None:
    run(tmp_path / "job", "2026_01_01_00_00_00", "a")
    run(tmp_path / "job", "2026_01_02_00_00_00", "host10", "host9", from_s=86_400)
    url = store.put(tmp_path, "logs/x") + below
    found = survey(url)
    assert [source.path.name for source in holotrace.open(url).sources] == ["host9.xplane.pb", "host10.xplane.pb"]
    here = survey(tmp_path / below.strip("/"))
    assert [row["problem"] for row in found.problems] == [row["problem"] for row in here.problems]
    assert [row["action"] for row in found.problems] == [row["action"] for row in here.problems]


def test_profiles_in_a_store_by_name_by_pattern_and_all_runs(store: Store, tmp_path: Path) -> None:
    run(tmp_path, "1", "a")
    run(tmp_path, "2", "a")
    url = store.put(tmp_path, "logs/named")
    assert holotrace.open(f"{url}/plugins/profile/1/a.xplane.pb").ranks == (0,)
    assert holotrace.open(f"{url}/plugins/profile/*/a.xplane.pb").ranks == (0, 1)
    assert holotrace.open(url, recursive=True).ranks == (0, 1)
    assert holotrace.open(url).run().info["event_count"].len() == 1
