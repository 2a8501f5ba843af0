"""What HTA says of a kernel by its name, and other small things of HTA's interface."""

from __future__ import annotations

import os
import re
from enum import Enum
from pathlib import Path

import pandas as pd


class IdleTimeType(Enum):
    """Why a stream had nothing to do."""

    HOST_WAIT = 0
    KERNEL_WAIT = 1
    OTHER = 2


class KernelType(Enum):
    """What a kernel is for."""

    COMMUNICATION = 0
    MEMORY = 1
    COMPUTATION = 2
    OTHER = 3


COMMUNICATION_NAME = re.compile(r"nccl|hip|hccl|.*ncclKernel")
MEMORY_NAME = re.compile(r"(hip)?Mem(cpy|set)|dma")
# Names of everything that a device's or a runtime's timeline shows beside computation.
OTHER_NAME = re.compile(
    r"nccl|.*(Memcpy|Memset|dma)|.*Sync|Stream Wait Event|cuda.*LaunchKernel|runFunction|hip|hccl"
    r"|job_exe|packet|pe_exe|cpum_exe_subgraph|collective_subgraph_execution"
)


def is_comm_kernel(name: str) -> bool:
    """Whether HTA takes a kernel of that name for communication."""
    return COMMUNICATION_NAME.match(name) is not None


def is_memory_kernel(name: str) -> bool:
    """Whether HTA takes an event of that name for a copy or fill."""
    return MEMORY_NAME.match(name) is not None


def is_compute_kernel(name: str) -> bool:
    """Whether HTA takes a kernel of that name for computation."""
    return OTHER_NAME.match(name) is None


# The spelling of HTA's releases up to 0.5.
is_computer_kernel = is_compute_kernel


def get_kernel_type(name: str) -> str:
    """The name of the KernelType of a kernel of that name; the first that fits decides."""
    if is_comm_kernel(name):
        return KernelType.COMMUNICATION.name
    if is_memory_kernel(name):
        return KernelType.MEMORY.name
    if is_compute_kernel(name):
        return KernelType.COMPUTATION.name
    return KernelType.OTHER.name


def get_memory_kernel_type(name: str) -> str:
    """What a copy or fill moves, e.g. ``Memcpy DtoH``."""
    if name.startswith("Memset"):
        return "Memset"
    if name.startswith("Memcpy"):
        return name[: len("Memcpy DtoH")]
    return "Memcpy Unknown"


def shorten_name(name: str) -> str:
    """A function's name without template arguments, parameters and return type; copies and fills keep theirs.

    ``void at::native::f<4>(int)`` becomes ``at::native::f``.
    """
    if is_memory_kernel(name) or not ("<" in name or "(" in name):
        return name
    text = name.replace("->", "")
    groups: list[tuple[int, int]] = []
    opened: list[int] = []
    for position, letter in enumerate(text):
        if letter in "<(":
            opened.append(position)
        elif letter in ">)" and opened and text[opened[-1]] == ("<" if letter == ">" else "("):
            start = opened.pop()
            # A group swallows those inside it.
            groups = [group for group in groups if group[0] < start]
            groups.append((start, position + 1))
    kept, at = [], 0
    for start, end in groups:
        kept.append(text[at:start])
        at = end
    return "".join([*kept, text[at:]]).rsplit(" ", 1)[-1]


def normalize_path(path: str) -> str:
    """``path`` with a leading ``./`` or ``~/`` spelled out."""
    if path.startswith("./"):
        return str(Path.cwd() / path[2:])
    if path.startswith("~/"):
        return str(Path.home() / path[2:])
    return path


def merge_kernel_intervals(kernel_df: pd.DataFrame) -> pd.DataFrame:
    """``ts`` and ``end`` of the spans in which at least one of these kernels ran; those that touch are one."""
    spans = kernel_df[["ts"]].assign(end=kernel_df["ts"] + kernel_df["dur"]).sort_values("ts", kind="stable")
    group = (spans["ts"] > spans["end"].cummax().shift()).cumsum()
    merged: pd.DataFrame = spans.groupby(group).agg(ts=("ts", "min"), end=("end", "max")).reset_index(drop=True)
    return merged


def flatten_column_names(df: pd.DataFrame) -> None:
    """Join the levels of a frame's columns by ``_``."""
    if isinstance(df.columns, pd.MultiIndex):
        df.columns = pd.Index(["_".join(str(level) for level in column).strip("_") for column in df.columns])


def get_symbol_column_names(df: pd.DataFrame) -> tuple[str, str]:
    """The columns that hold names and categories as text, "" where none does."""

    def textual(*columns: str) -> str:
        return next((column for column in columns if column in df and pd.api.types.is_string_dtype(df[column])), "")

    return textual("name", "s_name"), textual("cat", "s_cat")


def normalize_gpu_stream_numbers(df: pd.DataFrame) -> None:
    """Make ``stream`` whole numbers; what is none becomes -1."""
    if "stream" in df:
        df["stream"] = pd.to_numeric(df["stream"], errors="coerce").fillna(-1).astype("int64")


def get_mp_pool_size(obj_size: int, num_objs: int) -> int:
    """How many processes HTA would start for so many objects of so many bytes; here threads read, as many as CPUs."""
    return max(1, min(num_objs, os.cpu_count() or 1))


def get_value_from_dict(d: object, key: str, default: object = None) -> object:
    """The value at a path like ``a.b`` of nested dicts; ``default`` where there is none."""
    for part in key.split("."):
        if not isinstance(d, dict) or part not in d:
            return default
        d = d[part]
    return d
