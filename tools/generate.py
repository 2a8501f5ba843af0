"""Write the pages of docs/ that come from declarations, or check that they are up to date."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click

from holotrace.analyses import ALL as ANALYSES
from holotrace.cli import main as holotrace
from holotrace.core.analysis import Analysis, Rule
from holotrace.core.kinds import KindRule
from holotrace.core.schema import Column, Table
from holotrace.core.tables import ALL as TABLES
from holotrace.core.tables import MADE
from holotrace.derive.vendors import VENDORS, Vendor
from holotrace.diagnosis.words.class_texts import CLASSES, OF_XLA, Class
from holotrace.diagnosis.words.texts_on_host import OF_HOSTS
from holotrace.efficiency.devices import TYPES, known
from holotrace.efficiency.families import ALL as MODELS
from holotrace.efficiency.model import OperatorModel

ROOT = Path(__file__).resolve().parent.parent


def pages() -> dict[str, str]:
    """Text of every generated page, by its path in the repository."""
    return {
        "docs/analyses/index.md": analyses_index(),
        **{f"docs/analyses/{analysis.name}.md": analysis_page(analysis) for analysis in ANALYSES},
        "docs/concepts/kinds.md": kinds_page(VENDORS),
        "docs/concepts/operator-models.md": models_page(MODELS),
        "docs/concepts/device-peaks.md": peaks_page(known()),
        "docs/concepts/cause-classes.md": causes_page(
            CLASSES, {"In programs of XLA": OF_XLA, "On hosts that compute": OF_HOSTS}
        ),
        "docs/tables.md": tables_page((*TABLES, *MADE)),
        "docs/cli.md": cli_page(),
        "docs/problems.md": problems_page(ROOT / "native/core/src/problems.rs"),
    }


def models_page(models: Sequence[OperatorModel]) -> str:
    """Every model of operators: which ones it is for, and how it counts."""
    rows = [
        (
            one.name,
            one.category,
            f"`{one.pattern.replace('|', '&#124;')}`",
            one.flops or "unknown",
            one.moved or "all its tensors",
        )
        for one in models
    ]
    return page(
        source_of("holotrace.efficiency.families"),
        "# Models of operators",
        "Whose work is known, and how it is counted. The first model whose pattern fits an operator's whole name is "
        "asked. See [Efficiency](efficiency.md) for the conventions, and for models of your own.",
        grid(("family", "category", "operators", "operations of a call", "bytes of a call"), rows),
    )


def peaks_page(devices: Sequence[Mapping[str, Any]]) -> str:
    """The peaks of every device that is known."""
    columns = [*TYPES, "memory_gbps"]
    rows = [
        (
            one["name"],
            *(f"{one[key]:g}" if key in one else "" for key in columns),
            f"[source]({one['source']})",
            one.get("note", ""),
        )
        for one in devices
    ]
    return page(
        ROOT / "python/holotrace/efficiency/devices.toml",
        "# Peaks of devices",
        "Dense operations per second, in TFLOP/s (TOP/s for int8), and bandwidth of the memory in GB/s, as vendors "
        "state them. A device that is not here is told by its multiprocessors and capability, and tables say so.",
        grid(("device", *columns, "source", "note"), rows),
    )


def causes_page(classes: Mapping[str, Class], elsewhere: Mapping[str, Mapping[str, Class]]) -> str:
    """Every class of causes: how it is told, what looks like it, what to do."""
    sections = [
        "\n\n".join(
            text
            for text in (
                f"## {name}",
                f"**What decides.** {told.seen}",
                f"**What looks like it.** {told.confused}",
                f"**What to do.** {told.advice}",
                *(
                    f"**{where}.** {others[name].advice}"
                    for where, others in elsewhere.items()
                    if others[name].advice != told.advice
                ),
                f"**To know more.** {told.to_know_more}" if told.to_know_more else "",
            )
            if text
        )
        for name, told in sorted(classes.items())
    ]
    return page(
        source_of("holotrace.diagnosis.words.class_texts"),
        "# Classes of causes",
        "What [causes](causes.md) can say, class by class. A class is named with ranks and a responsible function or "
        "call where the trace tells them; without, the sentence says that the trace does not.",
        *sections,
    )


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
        f'```console\n$ holotrace query "SELECT * FROM {analysis.name}" PATH\n```',
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
        "What a trace does not say is null. All are read by `Job.table`, `holotrace show` and "
        "[SQL](guides/query-with-sql.md).",
        *sections,
    )


def problems_page(source: Path) -> str:
    """Kinds of damage the reader knows, and what it does about each."""
    kinds = re.findall(
        r'^ +\w+ = "(.+)", (true|false), "(.+)";$', source.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    rows = [(name, action, "yes" if lost == "true" else "") for name, lost, action in kinds]
    return page(source, "# Kinds of problems", grid(("problem", "what is done", "an entry is lost"), rows))


KINDS = """
# Kinds of device work

Every device event has one kind, decided from the category and the name that the profiler wrote. Every analysis uses
the result.

| kind | what it is |
| --- | --- |
| `compute` | matrix products, attention, element-wise kernels, and everything that no rule names |
| `communication` | data moves between ranks |
| `memory` | the copy engine or the runtime of the device copies or sets data |
| `sync` | the queue waits |
| `other` | rows of the timeline that are no work, such as bookkeeping of firmware |

`compute`, `communication` and `memory` keep a device busy; `sync` and `other` do not.

- **A name is read without its return type, template arguments and parameters.**
  `reduce_kernel<…, ReduceScatterFunctor>` is compute.
- **A matrix product with a collective inside is compute**: while it runs, the arithmetic of the device is in use.
- **A copy between devices stays `memory`**, also where a communication library asked for it: the trace does not tell.

## Rules of your own

A library that holotrace does not know counts as compute. If its kernels communicate, shares of communication, overlap
and lost time are wrong until a rule names it; the finding `unknown-communication` points at such kernels. Rules are
regular expressions in a TOML file, searched for anywhere in the name, and capital letters count as small ones:

```toml
[[rule]]
kind = "communication"
name = "acme_(dispatch|combine)"

[[rule]]
kind = "compute"
category = "^kernel$"
name = "quantized_all_reduce_weights"
```

```console
$ holotrace report PATH --kinds rules.toml
```

```python
holotrace.open(PATH, kinds="rules.toml")
holotrace.open(PATH, kinds=[holotrace.KindRule("communication", "acme_(dispatch|combine)")])
```

They are tried before the built-in rules. A dataset that is converted with them keeps the kinds; one that is opened with
them decides its kinds anew. A rule that others need too belongs into `python/holotrace/derive/vendors.py`.

## Built-in rules

The first rule that matches decides: first those for categories, then exceptions, then those for names, each in the
order of this page.
"""


def kinds_page(vendors: Iterable[Vendor]) -> str:
    """What decides the kind of device work, and which calls of a runtime do what, by vendor."""
    return page(source_of("holotrace.derive.vendors"), KINDS.strip(), *map(vendor_section, vendors))


def vendor_section(vendor: Vendor) -> str:
    calls = [
        (meaning, code(sorted(names)))
        for meaning, names in (
            ("launch a kernel", vendor.launching),
            ("launch a graph", vendor.graph_launching),
            ("wait for a device", vendor.waiting),
            ("hold the lock of the runtime", vendor.locking),
            ("record an event", vendor.recording),
            ("only ask", vendor.asking),
            ("allocate or free memory, whose names begin with", vendor.allocating),
            ("copy memory, whose names begin with", vendor.copying),
            ("load code or make graphs ready, whose names begin with", vendor.loading_code),
        )
        if names
    ]
    rules = [
        (when, f"`{rule.kind}`", in_code(rule.category), in_code(rule.name), example(rule))
        for when, part in (
            ("category", vendor.categories),
            ("exception", vendor.exceptions),
            ("name", vendor.kinds),
        )
        for rule in part
    ]
    return "\n\n".join(
        block
        for block in (
            f"### {vendor.name}",
            grid(("", "kind", "category matches", "name matches", "for example"), rules),
            grid(("host calls that", "names"), calls),
        )
        if block
    )


def in_code(text: str) -> str:
    return literal(text) if text else ""


def example(rule: KindRule) -> str:
    """The first example, cut where template arguments or parameters begin."""
    return in_code(
        re.split(r"[<(]", rule.examples[0].removeprefix("void (anonymous namespace)::"))[0].strip()
        if rule.examples
        else ""
    )


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
    return ", ".join(map(literal, names))


def literal(text: str) -> str:
    """Text as it is, in letters of code."""
    if "<!" not in text:
        return f"`{text}`"
    # MkDocs' reader of links takes that for a declaration of HTML; then nothing in it may be Markdown either.
    return f"<code>{re.sub(r'[][*_`<>&]', lambda found: f'&#{ord(found[0])};', text)}</code>"


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
