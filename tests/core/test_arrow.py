"""Frames that are handed over and written."""

from __future__ import annotations

import subprocess
import sys

# What waits for ever holds the interpreter, so that only another process can end it.
ASKED_MEANWHILE = """
import threading
import polars as pl
from holotrace.core import arrow

frame, is_written = pl.DataFrame({"number": range(300_000)}), threading.Event()

def ask():
    while not is_written.is_set():
        frame.estimated_size()

asking = threading.Thread(target=ask)
asking.start()
for _ in range(20):
    arrow.stream(frame)
is_written.set()
asking.join()
"""


def test_a_frame_that_is_asked_for_something_while_it_is_written_is_written() -> None:
    """Two ranks had the same empty answer; one was kept while the other was looked at, and both stood still."""
    subprocess.run([sys.executable, "-c", ASKED_MEANWHILE], check=True, timeout=60)
