"""What HTA says of a kernel by its name, and other small things of HTA's interface."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path


class KernelType(Enum):
    """What a kernel is for."""

    COMMUNICATION = 0
    MEMORY = 1
    COMPUTATION = 2
    OTHER = 3


_COMMUNICATION = re.compile(r"nccl|hip|hccl|.*ncclKernel")
_MEMORY = re.compile(r"(hip)?Mem(cpy|set)|dma")
# Names of everything that a device's or a runtime's timeline shows beside computation.
_NOT_COMPUTATION = re.compile(
    r"nccl|.*(Memcpy|Memset|dma)|.*Sync|Stream Wait Event|cuda.*LaunchKernel|runFunction|hip|hccl"
    r"|job_exe|packet|pe_exe|cpum_exe_subgraph|collective_subgraph_execution"
)


def is_comm_kernel(name: str) -> bool:
    """Whether HTA takes a kernel of that name for communication."""
    return _COMMUNICATION.match(name) is not None


def is_memory_kernel(name: str) -> bool:
    """Whether HTA takes an event of that name for a copy or fill."""
    return _MEMORY.match(name) is not None


def is_compute_kernel(name: str) -> bool:
    """Whether HTA takes a kernel of that name for computation."""
    return _NOT_COMPUTATION.match(name) is None


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
