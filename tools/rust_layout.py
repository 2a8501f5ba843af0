"""Checks the layout of the Rust sources: no cycles of imports, and files and impls of a bounded length."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CRATES = (ROOT / "native/core/src", ROOT / "native/python/src")
FILE_LINES = 400
IMPL_LINES = 150


def sources(crate: Path) -> dict[tuple[str, ...], Path]:
    """The file of each module."""
    found = {}
    for path in sorted(crate.rglob("*.rs")):
        parts = path.relative_to(crate).with_suffix("").parts
        found[parts[:-1] if parts[-1] in {"mod", "lib"} else parts] = path
    return found


def without_tests(text: str) -> str:
    """What is compiled into the program, comments left out."""
    return re.sub(r"//.*", "", re.split(r"\n#\[cfg\(test\)\]\n(?:pub )?mod ", text)[0])


def imports(text: str) -> set[tuple[str, ...]]:
    """The paths below ``crate`` that a source names, those in braces spelled out."""
    found = set()
    for head, braced in re.findall(r"\bcrate::((?:\w+::)*\w+|(?:\w+::)+)(\{[^;]*?\})?", text):
        parts = tuple(part for part in head.split("::") if part)
        names = re.findall(r"\w+", braced) or [""]
        found |= {(*parts, name) if name else parts for name in names}
    return found


def edges(modules: dict[tuple[str, ...], Path]) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """Which modules each imports from: of a path, the longest beginning that is a module."""

    def module(path: tuple[str, ...]) -> tuple[str, ...]:
        return next(path[:end] for end in range(len(path), -1, -1) if path[:end] in modules)

    texts = {name: without_tests(path.read_text(encoding="utf-8")) for name, path in modules.items()}
    return {name: {module(path) for path in imports(text)} - {name} for name, text in texts.items()}


def cycles(graph: dict[tuple[str, ...], set[tuple[str, ...]]]) -> list[list[tuple[str, ...]]]:
    """Groups of modules that import each other, by Tarjan's algorithm."""
    number: dict[tuple[str, ...], int] = {}
    low: dict[tuple[str, ...], int] = {}
    stack: list[tuple[str, ...]] = []
    found = []

    def visit(node: tuple[str, ...]) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in graph[node]:
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            group = stack[stack.index(node) :]
            del stack[-len(group) :]
            if len(group) > 1:
                found.append(group)

    for node in graph:
        if node not in number:
            visit(node)
    return found


def long_pieces(path: Path) -> list[str]:
    """The file and the impls of it that are too long, tests left out."""
    text = re.split(r"\n#\[cfg\(test\)\]\n(?:pub )?mod ", path.read_text(encoding="utf-8"))[0]
    name = path.relative_to(ROOT)
    count = text.count("\n")
    found = [f"{name}: {count} lines, at most {FILE_LINES}"] if count > FILE_LINES else []
    for impl in re.finditer(r"^impl[^\n]*\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        if (lines := impl[1].count("\n")) > IMPL_LINES:
            found.append(f"{name}: {impl[0].splitlines()[0]} has {lines} lines, at most {IMPL_LINES}")
    return found


def main() -> None:
    """Print what is wrong, and fail if anything is."""
    wrong = []
    for crate in CRATES:
        modules = sources(crate)
        for group in cycles(edges(modules)):
            wrong.append("import each other: " + ", ".join("::".join(name) or "lib" for name in group))
        for path in modules.values():
            wrong += long_pieces(path)
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
