"""The timeline in a real browser: it draws, zooms, finds, sums, goes to causes, and is quick."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import holotrace
from browsers import needs_browser
from holotrace import sample
from holotrace.analyses import ALL
from holotrace.analyses.lanes.timeline import timeline
from holotrace.present.writers import ShownReport, save_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    needs_browser,
    pytest.mark.filterwarnings("ignore::holotrace.PartialDataWarning"),
]


@pytest.fixture(scope="module")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    sample.write(folder, ranks=4, steps=3, seed=1)
    out = folder / "report.html"
    save_report(ShownReport(holotrace.open(folder).run((*ALL, timeline))), out)
    return out


@pytest.fixture
def page(browser: "Browser", report_file: Path) -> Iterator["Page"]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("pageerror", lambda e: complaints.append(str(e)))
    opened.on("request", lambda r: complaints.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
    opened.goto(report_file.as_uri())
    opened.locator(".tl-box[data-ready]").wait_for()
    yield opened
    assert complaints == []
    context.close()


def view(page: "Page") -> Any:
    return page.evaluate("(({from, to}) => ({from, to}))(document.querySelector('.timeline').timeline.view)")


def length(page: "Page") -> float:
    shown = view(page)
    return float(shown["to"] - shown["from"])


def eventually(page: "Page", condition: str) -> None:
    """Wait until it holds; the page lets nobody else evaluate a text."""
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def painted(page: "Page") -> int:
    """How many colours the canvas has."""
    count = """() => { const c = document.querySelector(".tl-canvas");
        const d = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
        return new Set(d).size; }"""
    return int(page.evaluate(count))


@pytest.mark.slow
def test_it_is_drawn(page: "Page") -> None:
    eventually(page, "document.querySelector('.timeline').timeline.frames.drawn > 0")
    assert painted(page) > 10


@pytest.mark.slow
def test_keys_zoom_and_move(page: "Page") -> None:
    box, whole = page.locator(".tl-scroll"), length(page)
    box.press("w")
    assert length(page) < whole
    before = view(page)
    box.press("d")
    assert view(page)["from"] > before["from"]
    box.press("a")
    box.press("s")
    assert length(page) == pytest.approx(whole)
    for _ in range(80):
        box.press("w")
    assert length(page) >= 200
    box.press("0")
    assert length(page) == whole


@pytest.mark.slow
def test_the_wheel_scrolls_the_page_until_one_is_at_work(page: "Page") -> None:
    box = page.locator(".tl-canvas")
    box.scroll_into_view_if_needed()
    box.hover(position={"x": 600, "y": 60})
    whole = length(page)
    page.mouse.wheel(0, -120)
    page.wait_for_timeout(100)
    assert length(page) == whole
    box.click(position={"x": 600, "y": 60})
    page.mouse.wheel(0, -120)
    page.wait_for_timeout(100)
    assert length(page) < whole


@pytest.mark.slow
def test_a_click_on_a_cause_goes_there(page: "Page") -> None:
    page.locator(".tl-causes a").first.click()
    at = page.evaluate("document.querySelector('.timeline').timeline.model.marks[0].at")
    shown = view(page)
    assert shown["from"] < at < shown["to"]
    assert "Cause 1" in page.locator(".tl-said").inner_text()
    assert page.locator(".tl-scroll").evaluate("box => box === document.activeElement")
    eventually(page, "document.querySelector('.timeline').timeline.painter.events > 20")


@pytest.mark.slow
def test_a_name_is_found(page: "Page") -> None:
    search = page.locator(".tl-search")
    search.fill("dataloader")
    assert "places" in page.locator(".tl-said").inner_text()
    search.press("Enter")
    assert page.locator(".tl-said").inner_text().startswith("1 of ")
    search.fill("no such thing")
    assert page.locator(".tl-said").inner_text() == "Nothing is called so here."


@pytest.mark.slow
def test_a_selection_is_summed_and_parts_are_no_longer_than_it(page: "Page") -> None:
    page.locator(".tl-canvas").scroll_into_view_if_needed()
    box = page.locator(".tl-canvas").bounding_box()
    assert box
    page.mouse.move(box["x"] + 200, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 700, box["y"] + 120, steps=4)
    page.mouse.up()
    said = page.locator(".tl-sums li b").all_inner_texts()
    assert [text.split()[0] for text in said][:2] == ["host", "compute"]
    assert all(float(text.rsplit("(", 1)[1].rstrip("%)")) <= 100 for text in said)
    page.locator(".tl-scroll").press("Escape")
    assert page.locator(".tl-sums li").count() == 0


@pytest.mark.slow
def test_what_is_under_the_mouse_is_told_as_text(page: "Page") -> None:
    page.evaluate("document.querySelector('.timeline').timeline.model.names.fill('<b>bold</b>')")
    page.locator(".tl-canvas").hover(position={"x": 300, "y": 40})
    tip = page.locator(".tl-tip")
    assert tip.is_visible()
    assert "<b>bold</b>" in tip.inner_text() and tip.locator("b").count() == 0


@pytest.mark.slow
def test_it_follows_the_theme(page: "Page") -> None:
    dark = "document.querySelector('.timeline').timeline.painter.colors.card"
    light = page.evaluate(dark)
    page.emulate_media(color_scheme="dark")
    eventually(page, f"{dark} !== '{light}'")


@pytest.mark.slow
def test_two_fingers_zoom_and_one_moves(page: "Page") -> None:
    fingers = """([moves]) => { const c = document.querySelector(".tl-canvas"), b = c.getBoundingClientRect();
        c.setPointerCapture = () => {};
        for (const [type, id, x] of moves) c.dispatchEvent(new PointerEvent(type, { pointerId: id,
            pointerType: "touch", clientX: b.left + x, clientY: b.top + 60, bubbles: true })); }"""
    whole = length(page)
    pinch = [["pointerdown", 1, 500], ["pointerdown", 2, 600], ["pointermove", 1, 400], ["pointermove", 2, 700]]
    page.evaluate(fingers, [[*pinch, ["pointerup", 1, 400], ["pointerup", 2, 700]]])
    assert length(page) == pytest.approx(whole / 3)
    before = view(page)
    page.evaluate(fingers, [[["pointerdown", 1, 500], ["pointermove", 1, 450], ["pointerup", 1, 450]]])
    assert view(page)["from"] > before["from"]


@pytest.mark.slow
def test_a_long_name_among_the_causes_does_not_widen_a_telephones_page(page: "Page") -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    eventually(page, "document.documentElement.scrollWidth <= 390")


@pytest.mark.slow
def test_ten_thousand_rectangles_are_drawn_in_less_than_a_sixtieth_of_a_second(page: "Page") -> None:
    """What the script does for a frame; one of 300 has to, as the others have the machine's other work in them."""
    ms = page.evaluate(
        """() => { const t = document.querySelector(".timeline").timeline, window = t.model.ranks[0].windows[0];
        const count = 10000, { from, to } = window, step = (to - from) / count;
        const places = Array.from({ length: count }, (_, i) => i);
        window.events = { lane: places.map(() => 2), name: places.map((i) => i % t.model.names.length),
            track: places.map(() => 0), from: Float64Array.from(places, (i) => from + i * step),
            to: Float64Array.from(places, (i) => from + (i + 0.9) * step) };
        t.toggle(0); t.show(from, to);
        let least = Infinity;
        for (let i = 0; i < 300 && least >= 1000 / 60; i++) {
            const begun = performance.now();
            t.painter.draw(t.view);
            least = Math.min(least, performance.now() - begun); }
        if (t.painter.events < count) throw new Error(`only ${t.painter.events}`);
        return least; }"""
    )
    assert ms < 1000 / 60
