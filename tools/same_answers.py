"""Whether two versions answer alike: all tables and findings of all recordings in a folder, kept and compared.

Keep the answers of each version with the Python that it is installed in, then compare what was kept:

    before/.venv/bin/python tools/same_answers.py keep ../shared/data answers/before
    .venv/bin/python tools/same_answers.py keep ../shared/data answers/now
    .venv/bin/python tools/same_answers.py compare answers/before answers/now
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import polars as pl

import holotrace

FINDINGS = "findings"
# Where a version could not read a job, what it said instead.
FAILED = "failed"
TRACES = (".json", ".json.gz", ".json.zst", ".pb", ".pb.gz", ".pb.zst")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    keeping = verbs.add_parser("keep", help="write all answers as Parquet files")
    keeping.add_argument("data", type=Path, help="folder with recordings, at any depth")
    keeping.add_argument("out", type=Path, help="folder for the answers")
    keeping.add_argument("--largest", type=int, default=100, help="MB; larger jobs are left out [default: 100]")
    keeping.set_defaults(do=lambda given: keep(given.data, given.out, given.largest * 1_000_000))
    comparing = verbs.add_parser("compare", help="say what differs; exit code 1 where something does")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("now", type=Path)
    comparing.set_defaults(do=lambda given: compare(given.before, given.now))
    given = parser.parse_args()
    given.do(given)


def keep(data: Path, out: Path, largest: int) -> None:
    """Write the answers to every job below ``data``, a folder each."""
    warnings.simplefilter("ignore", holotrace.PartialDataWarning)
    for job, size in jobs(data):
        name = "__".join(job.relative_to(data).parts)
        if size > largest:
            print(f"{name}: left out, {size // 1_000_000} MB")
            continue
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        for table, frame in answers(job).items():
            frame.write_parquet(folder / f"{table}.parquet")
        print(name)


def jobs(data: Path) -> Iterator[tuple[Path, int]]:
    """Folders that hold a job, else each of their files that is one, with their bytes."""
    for folder in sorted({path.parent for path in data.rglob("*") if path.name.endswith(TRACES)}):
        files = [path for path in sorted(folder.iterdir()) if path.name.endswith(TRACES)]
        try:
            holotrace.open(folder)
        except holotrace.HolotraceError:
            # Files of several jobs, or of something else.
            yield from ((path, path.stat().st_size) for path in files)
        else:
            yield folder, sum(path.stat().st_size for path in files)


def answers(job: Path) -> dict[str, pl.DataFrame]:
    """All tables of a job, its findings as one of them."""
    try:
        result = holotrace.open(job).run()
    except Exception as error:  # noqa: BLE001  # of a version that fails, the other answers are wanted as well
        return {FAILED: pl.DataFrame({"error": [f"{type(error).__name__}: {error}"]})}
    rows = [(found.severity, found.message, str(found.ranks), found.cost_ns) for found in result.findings]
    names = {"severity": pl.String, "message": pl.String, "ranks": pl.String, "cost_ns": pl.Int64}
    return {**result.tables, FINDINGS: pl.DataFrame(rows, schema=names, orient="row")}


def compare(before: Path, now: Path) -> None:
    """Print what differs in a line per table."""
    kept = {path.relative_to(root) for root in (before, now) for path in root.rglob("*.parquet")}
    told = [(path, what) for path in sorted(kept) if (what := difference(before / path, now / path))]
    for path, what in told:
        print(f"{path.parent} {path.stem}: {what}")
    print(f"{len(kept)} tables of {len({path.parent for path in kept})} jobs, {len(told)} differ")
    raise SystemExit(bool(told))


def difference(before: Path, now: Path) -> str | None:
    """In what two kept tables differ, as far as one line can say it."""
    if not before.is_file() or not now.is_file():
        return "only before" if before.is_file() else "only now"
    was, became = pl.read_parquet(before), pl.read_parquet(now)
    if was.schema != became.schema:
        changed = sorted(set(was.schema.items()) ^ set(became.schema.items()), key=str)
        return f"other columns: {', '.join(sorted({name for name, _ in changed}))}"
    if was.height != became.height:
        return f"{was.height} rows before, {became.height} now"
    columns = [name for name in was.columns if not was[name].equals(became[name], null_equal=True)]
    return f"other values of {', '.join(columns)}" if columns else None


if __name__ == "__main__":
    main()
