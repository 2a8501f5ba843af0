"""Copies of traces with more in them, to look at in Perfetto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holotrace.core.source import RankSource
from holotrace.errors import MissingDataError, UsageError
from holotrace.export.rewrite import Edit, rewrite
from holotrace.formats import FORMATS


@dataclass(frozen=True)
class Addition:
    """What one rank's copy has more: edits of events, and new ones as JSON texts."""

    edits: tuple[Edit, ...] = ()
    append: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.edits or self.append)

    def __add__(self, other: Addition) -> Addition:
        return Addition(self.edits + other.edits, self.append + other.append)


@dataclass(frozen=True)
class Overlay:
    """Something to see in a timeline: what copies with it are called, and what each rank's gets."""

    name: str
    by_rank: Mapping[int, Addition]
    # Why there may be none at all, and the way out.
    missing: str


def write(overlays: Sequence[Overlay], sources: Sequence[RankSource], folder: Path) -> tuple[Path, ...]:
    """Write a copy of each rank's trace with all overlays; ranks that none adds anything to are left out.

    Args:
        overlays: At least one.
        sources: The ranks' files; none of them is ever written, and only trace-event files are copied.
        folder: Made if need be; none that holds the files. The names of copies begin with ``rank-``, and replace older
            ones.
    """
    files = [source for source in sources if FORMATS[source.format].can_be_copied]
    if not files:
        raise MissingDataError(
            "no rank is in a trace-event file; give traces as PyTorch's profiler exports them, in JSON"
        )
    for overlay in overlays:
        if not any(overlay.by_rank.get(source.rank) for source in files):
            raise MissingDataError(overlay.missing)
    additions = {
        source.rank: sum((overlay.by_rank.get(source.rank, Addition()) for overlay in overlays), Addition())
        for source in files
    }
    found = [source for source in files if additions[source.rank]]
    if folder.resolve() in {source.path.resolve().parent for source in sources if isinstance(source.path, Path)}:
        raise UsageError(f"{folder} holds the traces, and copies there would claim their ranks; name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}; name another folder") from error
    what = "-and-".join(overlay.name for overlay in overlays)
    targets = [folder / f"rank-{source.rank}-with-{what}{_ending(source)}" for source in found]
    for source, target in zip(found, targets, strict=True):
        addition = additions[source.rank]
        rewrite(source.path, target, edits=addition.edits, append=addition.append)
    return tuple(targets)


def _ending(source: RankSource) -> str:
    packed = source.path.suffix
    return f".json{packed}" if packed in (".gz", ".zst") else ".json"
