"""Python functions and modules on the main thread, as with_stack records them."""

from __future__ import annotations

from dataclasses import dataclass

from holotrace.sample.text import RankText, Span

FRAME_NS = 400  # between a call and the call inside it


@dataclass(frozen=True)
class _Frame:
    name: str
    start_ns: int
    args: str
    number: int


class PythonStack:
    """The open Python calls; each becomes an entry when it returns."""

    def __init__(self, text: RankText) -> None:
        self._text = text
        self._open: list[_Frame] = []
        self._closed: dict[int, tuple[_Frame, int]] = {}
        self._instances: dict[str, int] = {}
        self._number = 0

    def enter(self, names: tuple[str, ...], time_ns: int) -> None:
        for depth, name in enumerate(names):
            self._number += 1
            parent = self._open[-1].number if self._open else "null"
            shown, args = name, f'"Python parent id": {parent}, "Python id": {self._number}'
            if name.startswith("nn.Module: "):
                instance = self._instance(name)
                shown, args = f"{name}_{instance}", f'{args}, "Python module id": {instance}'
            self._open.append(_Frame(shown, time_ns + FRAME_NS * depth, args, self._number))

    def leave(self, count: int, time_ns: int) -> None:
        for depth in range(count):
            frame = self._open.pop()
            self._closed[frame.number] = frame, time_ns + FRAME_NS * depth

    def around(self, names: tuple[str, ...], span: Span) -> None:
        """Calls that enclose one operator closely."""
        self.enter(names, span[0] - FRAME_NS * len(names))
        self.leave(len(names), span[1] + FRAME_NS)

    def entries(self, first_index: int) -> list[str]:
        """All returned calls in the order they were made; ``first_index`` is the profiler's own index of the first."""
        calls = sorted(self._closed.items())
        return [
            self._text.python(frame.name, (frame.start_ns, end_ns), frame.args, first_index + position)
            for position, (_, (frame, end_ns)) in enumerate(calls)
        ]

    def _instance(self, name: str) -> int:
        """Modules are numbered by class in the order in which a pass meets them."""
        if name == "nn.Module: Transformer":
            self._instances.clear()
        number = self._instances.get(name, 0)
        self._instances[name] = number + 1
        return number
