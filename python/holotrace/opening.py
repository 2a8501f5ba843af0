"""Opens the traces of a job."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from holotrace.analyses import ALL
from holotrace.discovery import OnDuplicate, Paths, survey
from holotrace.efficiency.model import OperatorModel
from holotrace.engine.noticed import Noticed, warn
from holotrace.engine.session import Session
from holotrace.engine.table_cache import TableCache, default_bytes
from holotrace.job import Job
from holotrace.loading.own_kinds import Rules, with_kinds
from holotrace.loading.own_limits import PeaksFile, with_limits


def open(
    path: Paths,
    *,
    executor: Executor | None = None,
    recursive: bool = False,
    on_duplicate: OnDuplicate = "error",
    cache_bytes: int | None = None,
    kinds: Rules = (),
    models: Sequence[OperatorModel] = (),
    peaks: PeaksFile = None,
) -> Job:
    """A job from its traces; only their first and last bytes are read before a question is asked.

    An answer that is of a part of the job only, as a file is cut off or damaged or a rank is missing, comes with a
    PartialDataWarning, one for each new problem; ``problems()`` and ``run().problems`` have them as a table.

    Args:
        path: A trace file, a folder of them, a log directory of profiles, a pattern, a list of these, a dict of rank
            to file, or the bytes of a profile of XLA.
        executor: Where ranks are read, e.g. a process pool or Dask's; threads of this process by default.
        recursive: Look for traces in subfolders too.
        on_duplicate: Where two files claim one rank: "error", or take the "first" or "last" by name.
        cache_bytes: Memory for tables that the next question may need, and beyond it temporary files, until the job is
            closed; by default a quarter of the machine's. With 0, or workers in other processes, nothing is kept.
        kinds: Rules of your own for the kinds of device work, tried before the built-in ones: a TOML file, or a list of
            ``KindRule``. They also decide the kinds of a dataset anew.
        models: Models of operators of your own, asked before the built-in ones for the work of a call.
        peaks: A TOML file with peaks of devices, e.g. measured ones, looked into before the built-in table.

    Returns:
        A job whose methods answer questions; close it, or use it in a ``with`` statement, to let go of what it keeps.

    Raises:
        InputError: nothing is there, or two files claim one rank.
        TraceFormatError: a single file is no trace.
        UsageError: an argument has a value it cannot have, e.g. a rule for kinds.
    """
    limit = default_bytes() if cache_bytes is None else cache_bytes
    cache = TableCache(limit, [table for analysis in ALL for table in analysis.reads]) if limit else None
    found = with_kinds(survey(path, recursive=recursive, on_duplicate=on_duplicate), kinds)
    found = with_limits(found, models, peaks)
    return Job(Session(found, executor=executor, cache=cache, noticed=Noticed(warn)))
