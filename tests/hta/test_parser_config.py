"""Which args of events become columns, and the switches of HTA's interface."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hta_traces import event, kernel

from hta.common.trace import Trace
from hta.configs import env_options
from hta.configs.default_values import AttributeSpec, ValueType, YamlVersion
from hta.configs.parser_config import AVAILABLE_ARGS, ParserBackend, ParserConfig
from hta.trace_analysis import TraceAnalysis
from trace_files import REAL_TRACES, needs_real_traces, write_trace

V1 = YamlVersion(1, 0, 0)


@pytest.fixture(autouse=True)
def default_config() -> Iterator[None]:
    before = ParserConfig.get_default_cfg()
    yield
    ParserConfig.set_default_cfg(before)


def names(config: ParserConfig) -> list[str]:
    return [arg.name for arg in config.get_args()]


def config_of(*keys: str) -> ParserConfig:
    return ParserConfig([AVAILABLE_ARGS[key] for key in keys])


class TestColumns:
    """What frames make of a config."""

    EVENTS = (
        {
            **event("op", 1, 1),
            "args": {
                "External id": 5,
                "Concrete Inputs": ["2", ""],
                "Is asynchronized op": True,
                "Wait (us)": 1.5,
                "name": 7,
            },
        },
        kernel("k", 3, 2, correlation=3, grid=[1, 2], queued=4, blocks_per_SM=0.5, dtype="Float"),
    )

    def frame(self, folder: Path, config: ParserConfig | None = None) -> pd.DataFrame:
        t = Trace([str(write_trace(folder / "rank-0.json", events=list(self.EVENTS)))], parser_config=config)
        t.parse_traces()
        return t.get_trace(0)

    def test_chosen_args_are_columns(self, tmp_path: Path) -> None:
        frame = self.frame(tmp_path, config_of("kernel::queued", "threads::grid", "cpu_op::concrete_inputs"))
        fixed = ["index", "cat", "name", "pid", "tid", "ts", "dur"]
        assert frame.columns.tolist()[:10] == [*fixed, "queued", "grid", "concrete_inputs"]
        # Without these two there would be no device.
        assert frame.columns.tolist()[10:] == ["stream", "correlation", "index_correlation", "iteration", "end"]
        assert frame["queued"].tolist() == [-1, 4]
        assert frame["grid"].tolist() == ["[]", [1, 2]]
        assert frame["concrete_inputs"].tolist() == [["2", ""], "[]"]

    def test_an_object_is_what_the_trace_says(self, tmp_path: Path) -> None:
        assert self.frame(tmp_path, config_of("sm::blocks"))["blocks_per_sm"].tolist() == ["[]", 0.5]

    def test_a_key_of_ones_own_is_a_column(self, tmp_path: Path) -> None:
        own = [
            AttributeSpec("wait", "Wait (us)", ValueType.Float, None, V1),
            AttributeSpec("none", "never there", ValueType.Object, [], V1),
            AttributeSpec("big", "queued", ValueType.Int, 1000, V1),
        ]
        frame = self.frame(tmp_path, ParserConfig(own))
        assert frame["wait"].tolist() == [1.5, None]
        assert frame["none"].tolist() == [[], []]
        assert frame["big"].tolist() == [1000, 4]

    def test_one_key_may_be_two_columns(self, tmp_path: Path) -> None:
        again = AttributeSpec("again", "queued", ValueType.Int, 0, V1)
        frame = self.frame(tmp_path, ParserConfig([AVAILABLE_ARGS["kernel::queued"], again]))
        assert frame[["queued", "again"]].to_numpy().tolist() == [[-1, 0], [4, 4]]

    def test_columns_of_every_frame_stay_what_they_are(self, tmp_path: Path) -> None:
        frame = self.frame(tmp_path, ParserConfig([AttributeSpec("ts", "queued", ValueType.Int, 0, V1)]))
        assert frame["ts"].tolist() == [1, 3]

    def test_the_default_config_decides_where_none_is_given(self, tmp_path: Path) -> None:
        wanted = ParserConfig(ParserConfig.get_minimum_args())
        wanted.add_args([AVAILABLE_ARGS["kernel::queued"]])
        ParserConfig.set_default_cfg(wanted)
        assert self.frame(tmp_path)["queued"].tolist() == [-1, 4]
        a = TraceAnalysis(trace_dir=str(tmp_path))
        assert "queued" in a.t.get_trace(0)
        assert "bytes" not in a.t.get_trace(0)

    def test_questions_are_answered_whatever_args_are_read(self, tmp_path: Path) -> None:
        ParserConfig.set_default_cfg(ParserConfig(ParserConfig.get_minimum_args()))
        copy = kernel("Memcpy HtoD (Pinned -> Device)", 3, 2, correlation=3, cat="gpu_memcpy")
        write_trace(tmp_path / "rank-0.json", events=[copy, *self.EVENTS])
        a = TraceAnalysis(trace_dir=str(tmp_path))
        assert a.get_memory_bw_time_series()[0]["memory_bw_gbps"].tolist() == [0, 0]
        assert len(a.get_temporal_breakdown(visualize=False)) == 1

    def test_every_arg_that_occurs_is_a_column_on_request(self, tmp_path: Path) -> None:
        frame = self.frame(tmp_path, ParserConfig(parse_all_args=True))
        columns = ["external_id", "concrete_inputs", "is_asynchronized_op", "wait", "msg_dtype", "queued"]
        assert set(columns) <= set(frame.columns)
        assert frame.loc[0, columns].tolist() == [5, ["2", ""], True, 1.5, "", -1]
        # No event has bytes.
        assert "bytes" not in frame

    def test_args_of_the_profilers_own_bracket_are_no_columns(self, tmp_path: Path) -> None:
        bracket = event("PyTorch Profiler (0)", 0, 9, cat="Trace", Op_count=7)
        write_trace(tmp_path / "rank-0.json", events=[bracket, *self.EVENTS])
        trace = Trace(trace_dir=str(tmp_path), parser_config=ParserConfig(parse_all_args=True))
        trace.load_traces()
        assert "op_count" not in trace.get_trace(0)

    def test_a_damaged_file_has_the_args_that_are_known(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        text = json.dumps({"traceEvents": list(self.EVENTS)}).encode()
        (tmp_path / "cut.json.gz").write_bytes(gzip.compress(text[:-2]))
        t = Trace([str(tmp_path / "cut.json.gz")], parser_config=ParserConfig(parse_all_args=True))
        with caplog.at_level(logging.WARNING, "hta"):
            t.parse_traces()
        assert t.get_trace(0)["queued"].tolist() == [-1, 4]
        assert "cannot be searched" in caplog.text


@needs_real_traces
def test_args_of_triton_kernels_are_read_as_hta_reads_them() -> None:
    config = ParserConfig([*ParserConfig.get_minimum_args(), *ParserConfig.ARGS_TRITON_KERNELS])
    folder = REAL_TRACES / "hta" / "tests" / "data" / "triton_example"
    t = Trace(trace_dir=str(folder), parser_config=config)
    t.parse_traces()
    t.decode_symbol_ids(use_shorten_name=False)
    (op,) = t.get_trace(0).query("kernel_backend != ''").to_dict("records")
    assert (op["s_name"], op["kernel_backend"]) == ("triton_poi_fused_add_cos_sin_0", "triton")


class TestConfig:
    """The config itself."""

    def test_it_has_the_default_args_unless_told_otherwise(self) -> None:
        assert names(ParserConfig()) == names(ParserConfig([])) == [arg.name for arg in ParserConfig.ARGS_DEFAULT]
        assert names(config_of("kernel::queued")) == ["queued"]
        assert len(AVAILABLE_ARGS) == 52
        assert ParserConfig.get_all_available_args() is AVAILABLE_ARGS

    def test_args_are_added_once(self) -> None:
        config = ParserConfig(ParserConfig.get_minimum_args())
        config.add_args([*ParserConfig.ARGS_MINIMUM, *ParserConfig.ARGS_SYNC])
        assert names(config) == ["stream", "correlation", "wait_on_stream", "wait_on_cuda_event_record_corr_id"]
        assert "seq_num" not in names(ParserConfig.enable_communication_args(config))
        assert "collective_name" in config.arg_map
        assert names(ParserConfig.enable_communication_args()) == names(ParserConfig())

    def test_the_default_config_is_changed_by_setting_it_only(self) -> None:
        ParserConfig.get_default_cfg().set_args([])
        assert names(ParserConfig.get_default_cfg()) == names(ParserConfig())
        mine = config_of("kernel::queued")
        ParserConfig.set_default_cfg(mine)
        mine.set_args([])
        assert names(ParserConfig.get_default_cfg()) == ["queued"]
        ParserConfig.set_global_parser_config_version(YamlVersion(1, 1, 0))
        assert ParserConfig.get_default_cfg().version.get_version_str() == "1.1.0"

    def test_what_changes_nothing_is_kept(self) -> None:
        config = ParserConfig().set_parse_all_args(True).set_args_selector(["stream"]).set_skip_event_types({"x"})
        config.set_trace_memory(True)
        config.set_drop_gpu_user_annotation(False)
        config.set_min_required_cols(["ts"])
        config.set_parser_backend(ParserBackend.IJSON)
        assert (config.parse_all_args, config.selected_arg_keys, config.skip_event_types) == (True, ["stream"], {"x"})
        assert (config.trace_memory, config.drop_gpu_user_annotation) == (True, False)
        assert (config.get_min_required_cols(), config.parser_backend) == (["ts"], ParserBackend.IJSON)

    def test_equal_configs_have_equal_keys(self) -> None:
        one, other = config_of("kernel::queued", "cuda::stream"), config_of("cuda::stream", "kernel::queued")
        assert one.get_fingerprint_key() == other.get_fingerprint_key() == (("queued", "stream"), False)
        assert repr(config_of("cuda::stream")) == (
            "ParserConfig(args=['stream'], parse_all_args=False, parser_backend=None, version=1.0.0)"
        )

    @pytest.mark.parametrize(
        ("key", "column"),
        [
            ("Kernel Queued", "kernel_queued"),
            ("Cuda-Kernel/Queued", "cuda_kernel_queued"),
            ("Kernel.a(.Queued)__b_%", "kernel_a_b"),
            ("name", "arg_name"),
        ],
    )
    def test_unknown_keys_become_names(self, key: str, column: str) -> None:
        assert ParserConfig.transform_arg_name(key) == column

    @pytest.mark.parametrize(
        ("value", "kind", "default"),
        [
            (3, ValueType.Int, 0),
            (True, ValueType.Int, 0),
            (1.5, ValueType.Float, 0.0),
            ("x", ValueType.String, ""),
            ([1], ValueType.Object, None),
        ],
    )
    def test_unknown_args_have_the_type_of_a_value(self, value: Any, kind: ValueType, default: Any) -> None:
        assert ParserConfig.make_attribute_spec("Foo Bar", value) == AttributeSpec(
            "foo_bar", "Foo Bar", kind, default, V1
        )
        inferred = ParserConfig.infer_attribute_specs(pd.Series([None, {"stream": 7, "x": value}]), AVAILABLE_ARGS)
        assert inferred["stream"] is AVAILABLE_ARGS["cuda::stream"]
        assert inferred["x"].value_type is kind

    def test_two_args_that_read_the_same_are_the_same(self) -> None:
        spec = AVAILABLE_ARGS["cuda::stream"]
        assert spec == spec._replace(min_supported_version=YamlVersion(9, 0, 0))
        assert len({spec, spec._replace(min_supported_version=YamlVersion(9, 0, 0))}) == 1
        assert spec != spec._replace(raw_name="x")

    def test_available_args_are_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        ParserConfig.show_available_args()
        assert "kernel::queued" in capsys.readouterr().out


def test_versions_are_read_from_text() -> None:
    assert YamlVersion.from_string("1.2.3") == (1, 2, 3)
    assert YamlVersion(1, 2, 0) < YamlVersion(1, 10, 0)
    for wrong in ("1.2", "a.b.c", "1.2.3.4"):
        with pytest.raises(ValueError, match=f"Invalid version string: {wrong}"):
            YamlVersion.from_string(wrong)


def test_switches_are_what_the_environment_says_until_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(env_options.CP_LAUNCH_EDGE_ENV, "1")
    monkeypatch.setenv(env_options.HTA_DISABLE_CG_DEPTH_ENV, "0")
    monkeypatch.setattr(env_options.HTAEnvOptions, "_instance", None)
    assert env_options.critical_path_add_zero_weight_launch_edges()
    assert not env_options.disable_call_graph_depth()
    options = env_options.HTAEnvOptions.instance()
    for name in (
        "disable_ns_rounding",
        "disable_call_graph_depth",
        "critical_path_add_zero_weight_launch_edges",
        "critical_path_show_zero_weight_launch_edges",
        "critical_path_strict_negative_weight_check",
    ):
        for value in (True, False):
            getattr(options, f"set_{name}")(value)
            assert getattr(options, name)() is getattr(env_options, name)() is value
    assert "critical_path_add_zero_weight_launch_edges=0" in env_options.get_options()
