"""How a report does in Chromium: first paint, scrolling from its head to its end, and frames of its timeline.

Frames are told in processor time of the page's main thread, which does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_ROUNDS = 3  # the best is told, as others may be at work on the machine
_RECTANGLES = 10_000

_FIRST_PAINT = """() => new Promise((done) => new PerformanceObserver((list) => {
    const paints = list.getEntriesByName("first-contentful-paint");
    if (paints.length) done(paints[0].startTime);
}).observe({ type: "paint", buffered: true }))"""

# Scrolls half a screen in each frame, as a fast wheel does; gives the number of frames.
_SCROLL = """() => new Promise((done) => {
    let frames = 0;
    const step = () => {
        frames++;
        window.scrollBy({ top: innerHeight / 2, behavior: "instant" });
        const isEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 1;
        isEnd ? done(frames) : requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
})"""

# All rectangles of a frame are events of one window, so that each is drawn by itself.
_TIMELINE = """(count) => { const t = document.querySelector(".timeline")?.timeline;
    const rank = t?.model.ranks.findIndex((one) => one.windows.length);
    if (!t || rank < 0) return null;
    const window = t.model.ranks[rank].windows[0], { from, to } = window;
    // Some more than are to be drawn, as those at the ends may be out of sight.
    const places = Array.from({ length: count * 1.15 }, (_, i) => i), step = (to - from) / places.length;
    window.events = { lane: places.map(() => 2), name: places.map((i) => i % t.model.names.length),
        track: places.map(() => 0), from: Float64Array.from(places, (i) => from + i * step),
        to: Float64Array.from(places, (i) => from + (i + 0.9) * step) };
    t.toggle(rank); t.show(from, to);
    return true; }"""

# Gives the number of frames with as many rectangles as were asked for, of those that were drawn.
_DRAW = """(rectangles) => { const t = document.querySelector(".timeline").timeline;
    for (let i = 0; i < 60; i++) t.painter.draw(t.view);
    if (t.painter.events < rectangles) throw new Error(`only ${t.painter.events}`);
    return (60 * t.painter.events) / rectangles; }"""


def per_frame_ms(page: Page, script: str, *arguments: object) -> float:
    """Processor time of the main thread for each of the frames that a script draws."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent_s() -> float:
        metrics: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    before = spent_s()
    frames = page.evaluate(script, *arguments)
    return 1000 * (spent_s() - before) / float(frames)


def measured(page: Page, report: Path) -> dict[str, float]:
    """Milliseconds of one visit."""
    page.goto(report.as_uri())
    page.wait_for_load_state("load")
    found = {"first_paint_ms": float(page.evaluate(_FIRST_PAINT))}
    page.wait_for_timeout(500)
    found["scroll_frame_ms"] = per_frame_ms(page, _SCROLL)
    if page.evaluate(_TIMELINE, _RECTANGLES):
        page.wait_for_timeout(200)
        found["timeline_frame_ms"] = per_frame_ms(page, _DRAW, _RECTANGLES)
    page.close()
    return found


def timeline_bytes(report: Path) -> int:
    """Size of the timeline's data in the page, compressed as it stands there."""
    found = re.search(r'<script[^>]*id="timeline-data"[^>]*>([^<]*)<', report.read_text(encoding="utf-8"))
    return len(found[1]) * 3 // 4 if found else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    report: Path = parser.parse_args().report.resolve()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        visits = [measured(browser.new_page(viewport={"width": 1280, "height": 900}), report) for _ in range(_ROUNDS)]
        browser.close()
    best = {name: min(visit.get(name, float("inf")) for visit in visits) for name in visits[0]}
    print(json.dumps({"page_bytes": report.stat().st_size, "timeline_bytes": timeline_bytes(report), **best}))


if __name__ == "__main__":
    main()
