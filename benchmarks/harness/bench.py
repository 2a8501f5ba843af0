"""What a question has at hand: traces, peers and our own programs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.inputs import Inputs, TraceFile
from harness.measure import Measurement
from harness.peers import Peers


@dataclass(frozen=True)
class Bench:
    """Traces, peers and our own programs."""

    inputs: Inputs
    peers: Peers
    cores: int

    # What a load is asked for, and how the table calls it.
    columns: ClassVar[dict[str, str]] = {
        "analyses": "columns of the analyses",
        "ten": "ten columns of all events",
        "every": "every declared column",
    }

    @property
    def importing(self) -> Measurement:
        return self.ours("import holotrace", "import")

    def load(self, trace: TraceFile, form: str, columns: str) -> Measurement:
        path = trace.plain if form == "plain" else trace.gzip
        return self.ours(f"load, {trace.name}, {form}, {self.columns[columns]}", "load", path, columns)

    def ours(self, name: str, *arguments: str | Path) -> Measurement:
        """A part of ours.py."""
        return Measurement(f"holotrace: {name}", (sys.executable, "-m", "ours", *arguments))

    def ours_of(self, module: str, path: Path) -> tuple[str | Path, ...]:
        """The command that runs a question's module with our packages."""
        return sys.executable, "-m", module, path

    def theirs(self, module: str, path: Path) -> tuple[str | Path, ...]:
        """The command that runs a question's module among the peers' packages."""
        return self.peers.python, "-m", module, path
