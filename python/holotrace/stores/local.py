"""Files of this machine, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# How the name of a file begins that is not whole yet; what looks for traces passes over it.
UNFINISHED = "."


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """A new name beside ``path`` to write to; what is there afterwards takes the place of ``path``.

    Where the block raises, or writes nothing, ``path`` is as it was, and nothing is left.
    """
    # Others may be writing the same. The ending stays, as writers go by it, and the name as long as is allowed.
    making = path.with_name(f"{UNFINISHED}{os.urandom(8).hex()}{path.name[-100:]}")
    try:
        yield making
        if making.exists():
            making.replace(path)
    finally:
        making.unlink(missing_ok=True)


def save(path: Path, content: bytes | str) -> None:
    """Write a file whole or not at all; its folder must be there."""
    with write_whole(path) as making:
        making.write_bytes(content.encode() if isinstance(content, str) else content)
