"""The timeline's section of a page: its data, its words, what it leaves out."""

import base64
import json
import re
import zlib
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from drawing import described, draw, trace
from holotrace.analyses import ALL
from holotrace.analyses.lanes import DRAWN
from holotrace.analyses.lanes.timeline import timeline
from holotrace.job import Job
from holotrace.present import html, page_frame
from holotrace.present.timeline import payload, section

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x00"
DRAWING = """
    step    |111111111111222222222222|
    op      |OOOOOO......OO..........|
    host    |A..........B............|
    compute |.AAAA...........BBBB....|
    comm    |....CCCC................|
"""


def unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_data_comes_back_as_it_was() -> None:
    data = payload.payload(timeline(draw(DRAWING)))
    assert unpacked(payload.packed(data)) == json.loads(json.dumps(data))


def test_pieces_of_the_data_are_those_of_the_table() -> None:
    table = timeline(draw(DRAWING))
    (rank,) = payload.payload(table)["ranks"]
    before, count, level, _ = rank["pieces"]["compute"]
    assert sum(before) + sum(count) <= (rank["end"] - rank["start"]) // rank["piece"] + 1
    told = sum(c * one for c, one in zip(count, level, strict=True)) * rank["piece"] / payload.LEVELS
    assert told == pytest.approx(8_000, rel=0.001)
    assert rank["steps"] == [["1", 0, 12_000], ["2", 12_000, 12_000]]


def test_what_reaches_into_two_windows_is_as_deep_in_each_as_what_else_that_has() -> None:
    """It was drawn at both depths in both, over other calls."""
    table = timeline(draw(DRAWING))
    windows = [{"row": "window", "start_ns": 10_000 * at, "end_ns": 10_000 * at + 4_000, "track": at} for at in (0, 1)]
    events = [
        {"row": "event", "lane": "host", "name": "loop", "start_ns": 0, "end_ns": 24_000, "track": 2 * at, "count": at}
        for at in (0, 1)
    ]
    rows = pl.DataFrame([{**row, "rank": 0} for row in (*windows, *events)], infer_schema_length=None)
    own = table.filter(~pl.col("row").is_in(["window", "event"]))
    made = pl.concat([own, rows.cast({name: table.schema[name] for name in rows.columns})], how="diagonal")
    found = payload.payload(made)["windows"]
    assert {window["start"]: window["events"][-1] for window in found} == {0: [0], 10_000: [2]}


def test_a_cause_is_marked_on_the_clock_of_the_job() -> None:
    ranks = {n: described(trace(DRAWING, n), group="0", group_ranks="[0, 1]", sequence=[1]) for n in (0, 1)}
    table = timeline(Job.from_ranks(ranks)).with_columns(
        clock_offset_ns=pl.when(pl.col("row") == "rank", pl.col("rank") == 1).then(700).otherwise("clock_offset_ns")
    )
    row = {"rank": 1, "where_ns": 5_700, "cause": "input", "message": HOSTILE, "cost_ns": 3_000}
    causes = pl.DataFrame([{**row, "ranks": [1], "steps": [2]}])
    (mark,) = payload.payload(table, causes)["marks"]
    assert (mark["rank"], mark["at"], mark["worth"]) == (1, 5_700, "3.00 µs")


def test_what_recording_takes_is_nowhere_and_worth_nothing() -> None:
    """It stood among the causes of the timeline, "worth up to 0 ns"."""
    row = {"rank": None, "where_ns": None, "cause": "recording", "message": "recording takes 3 ms", "cost_ns": 0}
    causes = pl.DataFrame([{**row, "ranks": [], "steps": []}])
    assert payload.payload(timeline(draw(DRAWING)), causes)["marks"] == []


def test_a_cause_of_no_rank_is_placed_without_one() -> None:
    row = {"rank": None, "where_ns": 5_700, "cause": "exposed-transfer", "message": "slow", "cost_ns": 3_000}
    result = draw(DRAWING).run((*ALL, timeline))
    one = pl.DataFrame([row], schema_overrides={"rank": pl.Int32})
    causes = pl.concat([result.tables["causes"].clear(), one], how="diagonal_relaxed")
    told = html.page(replace(result, tables={**result.tables, "causes": causes}))
    assert re.search(r"\(worth up to 3\.00 µs\)</a>, at ", told)


def test_no_more_events_and_pieces_than_a_page_can_hold(monkeypatch: Any) -> None:
    table = timeline(draw(DRAWING, DRAWING, DRAWING))
    whole = payload.payload(table)
    runs, events = payload.sizes(whole)
    monkeypatch.setattr(payload, "MOST_PIECES", runs - 1)
    monkeypatch.setattr(payload, "MOST_EVENTS", events - 1)
    less = payload.payload(table)
    assert [rank["rank"] for rank in less["ranks"]] == [0, 1] and less["leftOut"] == 1
    assert payload.sizes(less)[1] < events
    shown = section.view({"timeline": table})
    assert shown is not None and any("left out" in sentence for sentence in shown.words)


def test_most_names_have_a_number_and_others_share_one(monkeypatch: Any) -> None:
    monkeypatch.setattr(payload, "MOST_NAMES", 1)
    data = payload.payload(timeline(draw(DRAWING)))
    assert len(data["names"]) == 2
    assert data["names"][1] == "(other names)"


def test_hostile_names_stay_text() -> None:
    job = draw(f"{DRAWING}\n")
    result = job.run((*ALL, timeline))
    table = result.tables["timeline"].with_columns(name=pl.when(pl.col("name").is_not_null()).then(pl.lit(HOSTILE)))
    shown = section.view({"timeline": table})
    assert shown is not None
    assert set(shown.data) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
    assert all("\u202e" not in name and "\x00" not in name for name in unpacked(shown.data)["names"])


def test_the_section_says_in_words_what_is_drawn() -> None:
    shown = section.view(draw(DRAWING).run((timeline,)).tables)
    assert shown is not None
    assert "compute 33%, communication 17%" in shown.words[0]
    assert "pieces of" in shown.words[1]


def test_the_critical_path_is_on_the_clock_of_the_timeline() -> None:
    result = draw("step |11....|\nhost |A.....|\ncompute |.AAAA.|").run(DRAWN)
    data = unpacked((section.view(result.tables) or pytest.fail("no timeline")).data)
    rank, bound, name, start, length = data["path"]["parts"]
    told = {
        data["names"][n]: (s, d, data["path"]["kinds"][b])
        for n, s, d, b in zip(name, start, length, bound, strict=True)
    }
    assert told["A"] == (1_000, 4_000, "compute")
    assert set(rank) == {0}


def test_a_result_without_a_timeline_has_no_section() -> None:
    result = draw(DRAWING).run()
    assert section.view(result.tables) is None
    assert 'id="timeline"' not in html.page(result)


def test_the_page_may_run_the_script_of_the_timeline() -> None:
    text = html.page(draw(DRAWING).run((*ALL, timeline)))
    assert page_frame._hash(section.script()) in text
    assert 'href="#timeline"' in text


def test_64_ranks_take_less_than_a_megabyte_and_a_half() -> None:
    """A piece differs from the next in every lane, which is the worst that there is."""
    pieces = (1 << 17) // 64
    rank, at = pl.int_range(64, eager=True), pl.int_range(pieces, eager=True)
    grid = pl.DataFrame({"rank": rank}).join(pl.DataFrame({"at": at}), how="cross")
    lanes = pl.DataFrame({"lane": ["host", "compute", "communication", "idle"]})
    noise = pl.struct("rank", "at", "lane").hash(seed=1)
    bins = grid.join(lanes, how="cross").select(
        pl.col("rank").cast(pl.Int32),
        "lane",
        row=pl.lit("bin"),
        name=pl.lit("kernel ") + (noise // 16 % 8).cast(pl.String),
        start_ns=pl.col("at") * 1000,
        end_ns=pl.col("at") * 1000 + 1000,
        busy_ns=(noise % 16).cast(pl.Int64) * 60 + 1,
    )
    whole = pl.DataFrame(
        {"rank": rank.cast(pl.Int32), "row": "rank", "start_ns": 0, "end_ns": pieces * 1000, "busy_ns": 1000}
    )
    table = pl.concat([timeline.nothing, whole, bins], how="diagonal_relaxed").select(timeline.nothing.columns)
    shown = section.view({"timeline": table.filter(pl.col("rank").is_not_null())})
    assert shown is not None
    assert shown.rank_count == 64
    assert len(shown.data) < 1_500_000
