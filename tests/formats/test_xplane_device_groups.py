"""Groups of devices by the text of instructions."""

from __future__ import annotations

import polars as pl
import pytest

from holotrace.formats.xplane.device_groups import of_texts


@pytest.mark.parametrize(
    ("written", "groups"),
    [
        ("replica_groups={{0,1},{2,3}}, dimensions={0}", "[[0, 1], [2, 3]]"),
        ("channel_id=1, replica_groups=[2,2]<=[4], use_global_device_ids=true", "[[0, 1], [2, 3]]"),
        ("channel_id=1, replica_groups=[4,2]<=[2,4]T(1,0), to_apply=%add", "[[0, 4], [1, 5], [2, 6], [3, 7]]"),
        ("channel_id=1, replica_groups=mesh['data'=2,'model'=2] {'model'}, dimensions={0}", "[[0, 1], [2, 3]]"),
        ("replica_groups=mesh['data'=2,'model'=2] {'data'}, to_apply=%add", "[[0, 2], [1, 3]]"),
        ("replica_groups=mesh['a'=2,'b'=1,'c'=2] {'a','c'}", "[[0, 1, 2, 3]]"),
        ("replica_groups=mesh['a'=8] {'a':(1)2}", "[[0, 4], [1, 5], [2, 6], [3, 7]]"),
        ("replica_groups=mesh['a'=8] {'a':(1)2,'a':(4)2}", "[[0, 1, 4, 5], [2, 3, 6, 7]]"),
        ("replica_groups=mesh['a'=8] {'a':(3)2}", None),
        ("replica_groups=mesh['a'=8] {'a','a'}", None),
        ("replica_groups=mesh['a'=8] {'a':(0)2}", None),
        ("replica_groups=mesh['a'=8] {'b'}", None),
        ("replica_groups=mesh['a'=99999,'b'=99999] {'b'}", None),
        ("replica_groups=[3,2]<=[4]", None),
        ("replica_groups=[1,4]<=[2,2]T(0,0)", None),
        ("channel_id=3, source_target_pairs={{0,1},{1,2},{2,0}}", "[[0, 1], [1, 2], [2, 0]]"),
        ("replica_groups={}", None),
        # Python refuses to read numbers of so many digits.
        (f"replica_groups={{{{0,{'9' * 5_000}}}}}", None),
        (f"replica_groups=[1,{'9' * 5_000}]<=[2]", None),
        # Whatever is laid out in so many dimensions, it is no devices.
        (f"replica_groups=[1,1]<=[1{',1' * 100_000}]", None),
        ('frontend_attributes={_xla_megascale_target="{1,2}x{0:2}"}', "[[0, 3], [1, 4], [2, 5]]"),
        ('frontend_attributes={_xla_megascale_target="{1,3,4}x{0}"}', "[[0, 1, 2]]"),
        ('frontend_attributes={_xla_megascale_target="{1,2}x{0:999999}"}', None),
        (f'frontend_attributes={{_xla_megascale_target="{{1{",2" * 100_000}}}x{{0:9}}"}}', None),
        ("dimensions={0}", None),
    ],
)
def test_groups_are_told_by_a_list_or_by_how_numbers_are_laid_out(written: str, groups: str | None) -> None:
    text = f"%all-reduce.1 = f32[8]{{0}} all-reduce(f32[8]{{0}} %p), {written}"
    assert of_texts(pl.Series([text, None, text])).to_list() == [groups, None, groups]
