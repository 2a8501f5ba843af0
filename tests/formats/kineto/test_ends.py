"""What is believed of what a file says about its rank and job."""

from __future__ import annotations

import pytest

from holotrace.core.source import MAX_RANKS, believable
from holotrace.formats.kineto.ends import distributed_info


def test_a_rank_and_a_world_are_read_from_compact_and_pretty_text() -> None:
    for text in (
        b'{"distributedInfo":{"rank":3,"world_size":8}}',
        b'{\n "distributedInfo" : {"rank": 3, "world_size": 8 }',
    ):
        assert distributed_info(text) == {"rank": 3, "world_size": 8}


def test_the_numbers_are_found_in_a_list_that_is_cut_off() -> None:
    text = b'"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": [{"ranks": [0, 1, '
    assert distributed_info(text) == {"backend": "nccl", "rank": 3, "world_size": 8}


def test_numbers_written_as_text_are_read() -> None:
    assert believable({"rank": "3", "world_size": "8"}) == {"rank": 3, "world_size": 8}


@pytest.mark.parametrize("number", [-1, MAX_RANKS + 1, 10**12, "9" * 5000, 1.5, True, None, [1], "٣"])
def test_a_number_that_cannot_be_is_left_out(number: object) -> None:
    assert believable({"rank": number, "world_size": number, "backend": "nccl"}) == {"backend": "nccl"}


@pytest.mark.parametrize("info", [None, 3, [1, 2], "rank"])
def test_what_is_no_object_says_nothing(info: object) -> None:
    assert believable(info) == {}
