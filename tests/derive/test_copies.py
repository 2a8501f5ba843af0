"""What copies between a host and its device are called."""

from __future__ import annotations

import re

import pytest

from holotrace.derive import copies


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Memcpy HtoD (Pageable -> Device)", ("TO_DEVICE", "PAGEABLE")),
        ("Memcpy DtoH (Device -> Pinned)", ("TO_HOST", "PINNED")),
        ("Memcpy HtoD (Host -> Device)", ("TO_DEVICE",)),
        ("Memcpy DtoH (Device -> Host)", ("TO_HOST",)),
        ("Memcpy M2D (MEMORY -> DEVICE)", ("TO_DEVICE", "PAGEABLE")),
        ("Memcpy H2D (HOST -> DEVICE)", ("TO_DEVICE", "PINNED")),
        ("Memcpy D2M (DEVICE -> MEMORY)", ("TO_HOST", "PAGEABLE")),
        ("zeCommandListAppendMemoryCopy(M2D)", ("TO_DEVICE",)),
        ("Memcpy DtoD (Device -> Device)", ("WITHIN",)),
        ("Memcpy D2D (DEVICE -> DEVICE)", ("WITHIN",)),
        ("Memset (Device)", ()),
    ],
)
def test_each_profiler_tells_which_way_data_goes_and_some_from_what_memory(name: str, told: tuple[str, ...]) -> None:
    """Intel's M2D, from memory to device, was taken for a copy to the host, and its H2D for neither."""
    every = ("TO_DEVICE", "TO_HOST", "WITHIN", "PAGEABLE", "PINNED")
    assert tuple(kind for kind in every if re.search(getattr(copies, kind), name)) == told
