"""A notebook in a live JupyterLab, in a real browser: tables, findings and charts are seen, and nothing complains."""

import json
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browsers import needs_browser
from holotrace import sample

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [
    needs_browser,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("jupyterlab") is None, reason="a live JupyterLab; pip install --group dev"),
]

CELLS = (
    "import holotrace\njob = holotrace.open('job')\njob",
    "job.run()",
    "job.causes()",
    "job.overlap().figure()",
    "job.findings()",
)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """The address of a server over a folder with a job and a notebook."""
    import nbformat

    sample.write(tmp_path / "job", ranks=2, steps=2, seed=1, missing_ranks=())
    cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]  # type: ignore[no-untyped-call]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})  # type: ignore[no-untyped-call]
    nbformat.write(book, tmp_path / "book.ipynb")  # type: ignore[no-untyped-call]
    token, port = secrets.token_hex(16), _free_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--allow-root"]
    server = subprocess.Popen(
        [*command, f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={tmp_path}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/api/status?token={token}", server)
        yield f"http://127.0.0.1:{port}/lab/tree/book.ipynb?token={token}&reset"
    finally:
        server.terminate()
        server.wait(30)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_for(address: str, server: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                assert "started" in json.load(answer)
                return
        except OSError:
            time.sleep(0.3)
    pytest.fail("JupyterLab did not start")


def test_a_job_is_seen_in_a_live_jupyterlab(lab: str, browser: "Browser") -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 1600})
    page.goto(lab)
    page.locator(".jp-Notebook .jp-CodeCell").nth(len(CELLS) - 1).wait_for(timeout=60_000)
    _run_all(page)
    outputs = page.locator(".jp-Cell-outputArea")
    outputs.nth(4).locator(".holotrace").wait_for(timeout=120_000)
    assert "Ranks 0-1" in outputs.nth(0).inner_text()
    assert "compute" in outputs.nth(1).inner_text() and "<progress" not in outputs.nth(1).inner_html()
    assert "Cost ms" in outputs.nth(2).locator("thead").inner_text().replace("\n", " ")
    assert outputs.nth(3).locator(".js-plotly-plot .bars path").count() >= 4
    assert "Worth up to" in outputs.nth(4).inner_text()
    assert "Traceback" not in page.locator(".jp-Notebook").inner_text()
    _fits(page)
    page.close()


def _run_all(page: "Page") -> None:
    """Runs all cells; what is asked of a kernel that is not connected yet is forgotten, and is asked again."""
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').first.wait_for(timeout=60_000)
    begun = page.locator(".jp-InputPrompt").filter(has_text=re.compile(r"\[(\*|\d+)\]"))
    until = time.monotonic() + 60
    while not begun.count() and time.monotonic() < until:
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        page.wait_for_timeout(3_000)


def _fits(page: "Page") -> None:
    """No output is wider than the cell that it stands in."""
    for drawn in page.locator(".jp-Cell-outputArea .holotrace").all():
        inner, outer = drawn.bounding_box(), page.locator(".jp-Notebook").bounding_box()
        assert inner is not None and outer is not None and inner["width"] <= outer["width"]
