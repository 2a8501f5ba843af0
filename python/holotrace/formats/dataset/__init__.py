"""Our own Parquet datasets."""

from __future__ import annotations

from holotrace.formats.dataset import read
from holotrace.formats.dataset.answers import StoredAnswers
from holotrace.formats.dataset.layout import MANIFEST, NAME, opened, origin
from holotrace.formats.declaration import Format

DATASET = Format(
    name=NAME,
    title="a dataset",
    sniff=lambda _: False,
    read=read.read,
    tables=read.TABLES,
    has_made_columns=True,
    has_lines=True,
    why_not_copied="is of a dataset, which has no trace to copy; give the traces that it was made of",
    marker=MANIFEST,
    open_folder=opened,
    origin=origin,
    answers=StoredAnswers.of,
)
