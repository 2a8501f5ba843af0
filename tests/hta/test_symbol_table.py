"""Symbols and their numbers."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from hta.common.trace_symbol_table import TraceSymbolTable, decode_symbol_id_to_symbol_name
from hta.common.types import to_grouping_pattern


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


def coded(symbols: TraceSymbolTable, **columns: list[str]) -> pd.DataFrame:
    numbers = {name: [symbols.sym_index[text] for text in texts] for name, texts in columns.items()}
    frame: pd.DataFrame = pd.DataFrame(numbers)
    return frame


def test_symbols_of_several_lists_are_numbered_once() -> None:
    table = TraceSymbolTable()
    table.add_symbols_mp([["a", "b"], ["b", "c"]])
    assert table.sym_table == ["a", "b", "c"]
    assert table.get_symbol_names([0, 2, 9, -1]) == {0: "a", 2: "c"}


def test_symbols_are_found_by_what_they_stand_for() -> None:
    table = TraceSymbolTable()
    host = ["cpu_op", "user_annotation", "cuda_runtime"]
    device = ["kernel", "gpu_memcpy"]
    table.add_symbols([*host, *device, "gpu_user_annotation", "ProfilerStep#7", "Memset (Device)", "cuLaunchKernelEx"])

    def texts(numbers: list[int]) -> list[str]:
        return [table.sym_table[number] for number in numbers]

    assert texts(table.get_cpu_event_cat_ids()) == host
    assert texts(table.get_gpu_kernel_cat_ids()) == device
    assert texts(table.get_profiler_step_ids()) == ["ProfilerStep#7"]
    assert texts(table.get_memory_name_ids()) == ["Memset (Device)"]
    assert texts(table.get_kernel_launch_ids()) == ["cuLaunchKernelEx"]
    assert table.get_symbol_ids(to_grouping_pattern("cu", inverse_match=True)).keys().isdisjoint(["cuda_runtime"])


def test_rows_are_found_by_what_they_are() -> None:
    table = TraceSymbolTable()
    table.add_symbols(["aten::mm", "cudaLaunchKernel", "cudaFree", "gemm", "cpu_op", "cuda_runtime", "kernel"])
    frame = coded(
        table,
        name=["aten::mm", "cudaLaunchKernel", "cudaLaunchKernel", "cudaFree", "gemm"],
        cat=["cpu_op", "cuda_runtime", "cuda_runtime", "cuda_runtime", "kernel"],
    ).assign(index_correlation=[-1, 4, 0, 3, 1])
    assert table.get_operator_or_cuda_runtime_mask(frame).tolist() == [True, True, True, True, False]
    # One launch was recorded without what it launched.
    assert table.get_runtime_launch_events_mask(frame).tolist() == [False, True, False, False, False]
    assert table.get_events_mask(frame, ["gemm", "absent"]).tolist() == [False] * 4 + [True]
    assert not table.get_events_mask(frame, None).any()


def test_frames_change_from_one_table_to_another() -> None:
    old, new = TraceSymbolTable(), TraceSymbolTable()
    old.add_symbols(["a", "b", "lost"])
    new.add_symbols(["b", "a"])
    frame = pd.DataFrame({"name": [0, 1, 2], "cat": [1, 1, TraceSymbolTable.NULL]})
    new.update_encoded_df(frame, old)
    assert frame["name"].tolist() == [1, 0, TraceSymbolTable.NULL]
    assert frame["cat"].tolist() == [0, 0, TraceSymbolTable.NULL]


def test_symbols_are_written_to_a_file_and_read_back(tmp_path: Path) -> None:
    table = TraceSymbolTable()
    table.add_symbols(["b", 'a, "quoted"', "NA", ""])
    table._to_csv_file(str(tmp_path / "symbols.csv"))
    assert TraceSymbolTable.from_csv_file(str(tmp_path / "symbols.csv")).sym_table == table.sym_table
    (tmp_path / "other.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="column 'symbol'"):
        TraceSymbolTable.from_csv_file(str(tmp_path / "other.csv"))
    with pytest.raises(FileNotFoundError):
        TraceSymbolTable.from_csv_file(str(tmp_path / "none.csv"))
