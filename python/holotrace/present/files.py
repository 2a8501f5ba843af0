"""Where finished output goes: a file here or in an object store, whole or not at all."""

from __future__ import annotations

from holotrace import stores
from holotrace.errors import UsageError
from holotrace.stores import Place, Remote


def write(out: Place, content: str | bytes, *, media_type: str = "application/octet-stream") -> None:
    """Write a file; where that fails, what was there stays as it was.

    Args:
        out: Where; folders on the way are made.
        content: Of the file; a text is UTF-8.
        media_type: What a web server says of it.
    """
    encoded = content.encode() if isinstance(content, str) else content
    if isinstance(out, Remote):
        stores.save(out, encoded, media_type=media_type)
        return
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file in it")
    try:
        if out.exists() and not out.is_file():
            # Standard output, a pipe: nothing can take its place.
            out.write_bytes(encoded)
            return
        out.parent.mkdir(parents=True, exist_ok=True)
        stores.save(out, encoded)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror or error}; name a place that can") from error
