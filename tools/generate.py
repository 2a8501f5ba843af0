"""Write the pages of docs/ that come from declarations, or check that they are up to date."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click

from holotrace.analyses import ALL as ANALYSES
from holotrace.cli import main as holotrace
from holotrace.core.analysis import Analysis, Rule
from holotrace.core.schema import Column, Table
from holotrace.core.tables import ALL as TABLES
from holotrace.core.tables import MADE

ROOT = Path(__file__).resolve().parent.parent


def pages() -> dict[str, str]:
    """Text of every generated page, by its path in the repository."""
    return {
        "docs/analyses/index.md": analyses_index(),
        **{f"docs/analyses/{analysis.name}.md": analysis_page(analysis) for analysis in ANALYSES},
        "docs/tables.md": tables_page((*TABLES, *MADE)),
        "docs/cli.md": cli_page(),
        "docs/problems.md": problems_page(ROOT / "native/core/src/problems.rs"),
    }


def analyses_index() -> str:
    rows = [(f"[{kebab(a.name)}]({a.name}.md)", a.summary, len(a.rules)) for a in ANALYSES]
    return page(
        source_of("holotrace.analyses"),
        "# Analyses",
        "Each is a method of a job, a command and a section of the report.",
        grid(("analysis", "what it answers", "rules"), rows),
    )


def analysis_page(analysis: Analysis[Any]) -> str:
    """All there is to know about one analysis."""
    summary, details, arguments = docstring(analysis.source)
    chart = analysis.chart
    return page(
        source_of(analysis.source.__module__),
        f"# {kebab(analysis.name)}",
        summary,
        details,
        f"```console\n$ holotrace show {kebab(analysis.name)} PATH\n```",
        f"```python\nholotrace.open(PATH).{analysis.name}()\n```",
        "## Options" if arguments else "",
        grid(
            ("option", "type", "default", "meaning"),
            [
                (f"`{p.name}`", f"`{type_name(p.annotation)}`", f"`{p.default!r}`", arguments.get(p.name, ""))
                for p in analysis.parameters
            ],
        ),
        "## Columns",
        columns(analysis.columns),
        "## Reads",
        "\n".join(f"- [{t.name}](../tables.md#{t.name}): {', '.join(t.column_names)}" for t in analysis.reads),
        "## Chart" if chart else "",
        f"{type(chart).__name__} chart of {code(chart.y)} over `{chart.x}`." if chart else "",
        "## Rules" if analysis.rules else "",
        *(rule_section(rule) for rule in analysis.rules),
    )


def rule_section(rule: Rule) -> str:
    """What a rule finds, why it matters and what to do about it."""
    what, _, why = (inspect.getdoc(rule) or "").partition("\n")
    name = rule.__name__
    return f"### {kebab(name)}\n\n**{what}**\n\n{why.strip()}"


def tables_page(tables: Iterable[Table]) -> str:
    sections = (f"## {table.name}\n\n{table.meaning}.\n\n{columns(table.columns)}" for table in tables)
    return page(
        source_of("holotrace.core.tables"),
        "# Tables",
        "Times are integer nanoseconds, spans half-open: `start_ns` belongs to a span, `end_ns` does not. "
        "What a trace does not say is null.",
        *sections,
    )


def problems_page(source: Path) -> str:
    """Kinds of damage the reader knows, and what it does about each."""
    kinds = re.findall(
        r'^ +\w+ = "(.+)", (true|false), "(.+)";$', source.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    rows = [(name, action, "yes" if lost == "true" else "") for name, lost, action in kinds]
    return page(source, "# Kinds of problems", grid(("problem", "what is done", "an entry is lost"), rows))


def cli_page() -> str:
    return page(source_of("holotrace.cli"), "# Commands", *command_sections(holotrace, "holotrace"))


def command_sections(command: click.Command, path: str) -> Iterator[str]:
    """A section for ``command`` and one for each command below it, if these differ in their options."""
    context = click.Context(command, info_name=path)
    yield f"## {path}"
    yield inspect.cleandoc(command.help or "")
    yield f"```console\n$ {path} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield grid(("option", "meaning"), [(option_syntax(o), option_meaning(o)) for o in options_of(command)])
    if not isinstance(command, click.Group):
        return
    children = [
        (name, child) for name in command.list_commands(context) if (child := command.get_command(context, name))
    ]
    shared = [o for o in options_of(children[0][1]) if all(o.name in names_of_options(c) for _, c in children)]
    if not shared:
        for name, child in children:
            yield from command_sections(child, f"{path} {name}")
        return
    rows = [(f"`{name}`", child.get_short_help_str(200), own_options(child, shared)) for name, child in children]
    yield grid(("NAME", "what it shows", "options of its own"), rows)
    yield "Options of every NAME:"
    yield grid(("option", "meaning"), [(option_syntax(o), option_meaning(o)) for o in shared])


def options_of(command: click.Command) -> list[click.Option]:
    return [p for p in command.params if isinstance(p, click.Option) and not p.hidden]


def names_of_options(command: click.Command) -> set[str | None]:
    return {option.name for option in options_of(command)}


def own_options(command: click.Command, shared: list[click.Option]) -> str:
    known = {option.name for option in shared}
    own = [option for option in options_of(command) if option.name not in known]
    return " ".join(f"{option_syntax(option)}: {option_meaning(option)}" for option in own)


def option_syntax(option: click.Option) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    if option.is_flag or option.count:
        return f"`{names}`"
    choices = "|".join(map(str, option.type.choices)) if isinstance(option.type, click.Choice) else ""
    # "integer range" is an integer to its reader.
    return f"`{names} {choices or option.type.name.split()[0].upper()}`"


def option_meaning(option: click.Option) -> str:
    default = f" Default: `{option.default}`." if option.show_default else ""
    return (option.help or "") + default


def docstring(function: Any) -> tuple[str, str, dict[str, str]]:
    """First line, the rest, and the meaning of every argument."""
    text, _, arguments = (inspect.getdoc(function) or "").partition("\nArgs:\n")
    summary, _, details = text.partition("\n")
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", arguments, flags=re.MULTILINE)
    return summary, details.strip(), {name: re.sub(r"\s+", " ", meaning) for name, meaning in entries}


def type_name(annotation: Any) -> str:
    """The annotation as its author wrote it; its repr differs between versions of Python."""
    members = get_args(annotation)
    if get_origin(annotation) is Literal:
        return " | ".join(repr(member) for member in members)
    if get_origin(annotation) in (Union, UnionType):
        return " | ".join(type_name(member) for member in members)
    if annotation is NoneType:
        return "None"
    return str(annotation) if members else annotation.__name__


def columns(declared: Iterable[Column]) -> str:
    rows = [(f"`{c.name}`", unit(c), c.meaning + (f" (from `args[{c.arg!r}]`)" if c.arg else "")) for c in declared]
    return grid(("column", "unit", "meaning"), rows)


def unit(column: Column) -> str:
    return column.unit.name.lower()


def code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def kebab(name: str) -> str:
    return name.replace("_", "-")


def grid(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A Markdown table; nothing where there are no rows."""
    if not rows:
        return ""
    lines = [header, ("---",) * len(header), *(tuple(str(c).replace("|", r"\|") for c in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def source_of(module: str) -> Path:
    return Path(inspect.getsourcefile(sys.modules[module]) or module).resolve()


def page(source: Path, *blocks: str) -> str:
    """The blocks as a page that says which file it was generated from."""
    comment = f"<!-- generated by tools/generate.py from {source.relative_to(ROOT).as_posix()} -->"
    return "\n\n".join(block for block in (comment, *blocks) if block) + "\n"


def stale(wanted: dict[str, str]) -> list[str]:
    """Paths that differ from what would be generated, and generated ones that nobody declares any more."""
    return [path for path, text in wanted.items() if read(ROOT / path) != text] + orphans(wanted)


def orphans(wanted: dict[str, str]) -> list[str]:
    existing = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs/analyses").glob("*.md")))
    return [path for path in existing if path not in wanted]


def read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def write(wanted: dict[str, str]) -> None:
    for path, text in wanted.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
    for path in orphans(wanted):
        (ROOT / path).unlink()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="write nothing; fail where a page is out of date")
    if not arguments.parse_args().check:
        write(pages())
    elif outdated := stale(pages()):
        sys.exit(f"Out of date: {', '.join(outdated)}. Run `make generate` and commit what it wrote.")


if __name__ == "__main__":
    main()
