"""Take the pictures of docs/images/ that show reports of runs which the repository holds. Needs Chromium."""

from __future__ import annotations

import lzma
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import holotrace
from holotrace.cli import main as main_of_cli

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "tests" / "data" / "docs"
IMAGES = ROOT / "docs" / "images"
CHANGE = "change"  # from one run to the other
# Of each picture the run, the part of its report, and how much of that from its top, in pixels.
PICTURES = {
    "xla-verdict": ("before", "#verdict", 1_000),
    "xla-timeline": ("before", "#timeline canvas", 1_000),
    "xla-gaps": ("before", "#gaps", 560),
    "xla-after": ("after", "#timeline canvas", 1_000),
    "xla-change": (CHANGE, "#verdict", 370),
}
WIDTH = 1_000
_LEFT = "nav { position: static !important }"  # so that it covers nothing


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 1_600})
        for name, (run, part, height) in PICTURES.items():
            report = Path(folder) / f"{run}.html"
            if run == CHANGE:
                _write_change(report)
            elif not report.exists():
                _write(run, report)
            _take(page, report, part, height, IMAGES / f"{name}.png")
        browser.close()


def _write(run: str, report: Path) -> None:
    holotrace.open(_profile(run, report.parent)).report(report)


def _write_change(report: Path) -> None:
    jobs = [str(_profile(run, report.parent)) for run in ("before", "after")]
    main_of_cli(["compare", *jobs, "-o", str(report)], standalone_mode=False)


def _profile(run: str, folder: Path) -> Path:
    """The profile of a run, unpacked."""
    profile = folder / f"{run}.xplane.pb"
    profile.write_bytes(lzma.decompress((RUNS / f"{run}.xplane.pb.xz").read_bytes()))
    return profile


def _take(page: Page, report: Path, part: str, height: int, to: Path) -> None:
    page.goto(report.as_uri())
    page.add_style_tag(content=_LEFT)
    element = page.locator(part).first
    element.scroll_into_view_if_needed()
    page.wait_for_timeout(500)  # the timeline is drawn in frames
    box = element.bounding_box()
    if box is None:
        raise SystemExit(f"{report.name} has no {part}; see PICTURES")
    page.screenshot(path=to, clip={**box, "height": min(box["height"], height)})
    print(f"wrote {to.relative_to(ROOT)}, {to.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
