"""Which args occur in trace files."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

import holotrace
from hta.common.trace_file import read_trace
from hta.configs.default_values import AttributeSpec, ValueType
from hta.configs.parser_config import AVAILABLE_ARGS, ParserConfig
from hta.frames import RECORDING

log = logging.getLogger("hta")


def all_args(files: Iterable[str]) -> list[AttributeSpec]:
    """A column for every arg of any event that frames have rows of; known ones as they are known.

    The fast reader reads the args it is asked for, so the files are parsed once more to find out which there are.
    """
    found: list[Any] = []
    known: list[AttributeSpec] = []
    for file in files:
        try:
            found += _args(file)
        except (OSError, EOFError, ValueError, zlib.error, holotrace.InputError) as error:
            log.warning("only the known args of %s are read, as it cannot be searched for others: %s", file, error)
            known = ParserConfig.ARGS_COMPLETE
    specs = ParserConfig.infer_attribute_specs(pd.Series(found, dtype=object), AVAILABLE_ARGS)
    truths = {key for args in found for key, value in args.items() if isinstance(value, bool)}
    for key in truths:
        # The reader takes truth values for text, not for numbers.
        specs[key] = specs[key]._replace(value_type=ValueType.Object)
    return [*specs.values(), *known]


def _args(file: str) -> Iterator[Any]:
    trace: Any = read_trace(file)
    events = trace["traceEvents"] if isinstance(trace, dict) and "traceEvents" in trace else trace
    spans = (event for event in events if isinstance(event, dict) and {"dur", "cat"} <= event.keys())
    kept = (event for event in spans if event["cat"] != RECORDING)
    return (event["args"] for event in kept if isinstance(event.get("args"), dict))
