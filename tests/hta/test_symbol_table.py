"""Symbols and their numbers."""

from __future__ import annotations

import pandas as pd
import pytest

from hta.common.trace_symbol_table import TraceSymbolTable, decode_symbol_id_to_symbol_name


def table(*symbols: str) -> TraceSymbolTable:
    made = TraceSymbolTable()
    made.add_symbols(symbols)
    return made


def test_a_symbol_keeps_its_number() -> None:
    symbols = table("a", "b")
    symbols.add_symbols(["b", "c"])
    assert symbols.get_sym_table() == ["a", "b", "c"]
    assert symbols.get_sym_id_map() == symbols.get_sym_index() == {"a": 0, "b": 1, "c": 2}
    assert symbols.get_symbol_names([2, 0]) == {2: "c", 0: "a"}
    assert symbols.get_sym_table_series().tolist() == ["a", "b", "c"]
    assert symbols.get_sym_index_series()["c"] == 2


def test_a_table_may_be_empty() -> None:
    symbols = TraceSymbolTable()
    assert symbols.is_empty()
    assert symbols.find_matches(["a"]) == []
    assert len(symbols.get_sym_table_series()) == len(symbols.get_sym_index_series()) == 0


def test_patterns_are_taken_literally() -> None:
    symbols = table("f(x)", "fx", "g")
    assert symbols.find_matched_symbols(["(x)"]) == ["f(x)"]
    assert symbols.find_matches(["f", "g"]) == [0, 1, 2]
    assert symbols.find_matches([]) == []


def test_frames_are_decoded_and_encoded() -> None:
    symbols = table("gemm", "kernel")
    frame = pd.DataFrame({"name": [0, 9], "cat": [1, 1]}, index=[5, 8])
    symbols.decode_df(frame)
    assert frame["s_name"].tolist() == ["gemm", ""]
    symbols.decode_df(frame, create_new_columns=False)
    assert frame["cat"].to_dict() == {5: "kernel", 8: "kernel"}
    symbols.encode_df(frame)
    assert frame["name"].tolist() == [0, TraceSymbolTable.NULL]
    assert frame["cat"].tolist() == [1, 1]


def test_annotations_are_decoded_where_they_are() -> None:
    frame = pd.DataFrame({"name": [0], "cat": [1], "user_annotation": [-1]})
    decode_symbol_id_to_symbol_name(frame, table("void f<1>()", "kernel"), use_shorten_name=True)
    assert frame.loc[0, ["s_name", "s_cat", "s_user_annotation"]].tolist() == ["f", "kernel", ""]


def test_a_single_column_is_decoded_in_place() -> None:
    frame = pd.DataFrame({"name": [1, -1]})
    table("a", "b").add_symbols_to_trace_df(frame, "name")
    assert frame["name"].tolist() == ["b", ""]


def test_tables_are_made_of_tables_maps_and_frames() -> None:
    first = table("a", "b")
    copy = TraceSymbolTable.clone(first)
    copy.add_symbols(["c"])
    assert first.sym_table == ["a", "b"]
    assert TraceSymbolTable.combine_symbol_tables([first, table("b", "d")]).sym_table == ["a", "b", "d"]
    assert TraceSymbolTable.create_from_symbol_id_map({"a": 2, "b": 0}).sym_table == ["b", "Undefined-1", "a"]
    assert TraceSymbolTable.create_from_df(pd.DataFrame({"name": ["x"], "cat": ["y"]})).sym_table == ["x", "y"]


@pytest.mark.parametrize("frame", [pd.DataFrame({"name": ["x"]}), pd.DataFrame({"name": [1], "cat": ["y"]})])
def test_a_frame_without_strings_makes_no_table(frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="does not hold strings"):
        TraceSymbolTable.create_from_df(frame)


def test_steps_are_found() -> None:
    assert table("a", "ProfilerStep#1", "b", "ProfilerStep#2").get_profiler_step_ids() == [1, 3]
