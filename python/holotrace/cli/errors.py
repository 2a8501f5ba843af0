"""What a command says when it fails: one sentence and a way out, and an exit code."""

from __future__ import annotations

import errno
import io
import multiprocessing
import os
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, NoReturn

import click
from polars.exceptions import PanicException

from holotrace.core.native import native
from holotrace.errors import HolotraceError, UsageError

USAGE, INPUT, DEFECT = 2, 3, 1
FOUND = 4  # report --fail-on or compare --fail-above found what it was to find
INTERRUPTED = 130  # 128 + SIGINT, as shells say it

# What the system says, in the words of a library that panics, where memory or a thread, which takes memory too, is
# refused.
_REFUSED = (os.strerror(errno.ENOMEM), os.strerror(errno.EAGAIN))
_LESS_MEMORY = "choose ranks with --rank, use fewer workers, convert the job to a dataset, or ask for fewer steps"


class Commands(click.Group):
    """Commands whose errors end in one line on stderr."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return resolved(self, ctx, args, super().resolve_command)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        _prepare_stdout()
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                sys.stdout.flush()
        except OSError as error:
            if error.filename is not None:
                raise
            _abandon_stdout()
            if not isinstance(error, BrokenPipeError):
                failure(error).show()
            sys.exit(DEFECT if isinstance(error, BrokenPipeError) else USAGE)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _stop()
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except (Exception, PanicException) as error:
            # Without a name it is stdout that failed; main() knows what to do.
            if ctx.params.get("debug") or (isinstance(error, OSError) and error.filename is None):
                raise
            raise failure(error) from error


Resolve = Callable[[click.Context, list[str]], tuple[str | None, click.Command | None, list[str]]]


def resolved(
    group: click.Group, context: click.Context, args: list[str], resolve: Resolve
) -> tuple[str | None, click.Command | None, list[str]]:
    """The command that ``args`` begin with; where there is none, an error that names those like it."""
    try:
        return resolve(context, args)
    except click.UsageError as error:
        # A name of an analysis in Python has underscores.
        wanted = args[0].replace("_", "-") if args else ""
        like = get_close_matches(wanted, group.list_commands(context), n=3, cutoff=0.5)
        # Newer versions of click know some themselves.
        if not like or getattr(error, "possibilities", None):
            raise
        raise click.UsageError(f"{error.message.rstrip()} Did you mean {' or '.join(like)}?", context) from error


def _stop() -> NoReturn:
    """End at once."""
    processes = multiprocessing.active_children()
    for process in processes:
        process.terminate()
    click.echo("Interrupted.", err=True)
    if processes:
        # Their pool may find at exit that they are gone, which is no news.
        sys.unraisablehook = lambda _: None
        sys.exit(INTERRUPTED)
    # A thread in the middle of a rank cannot be stopped, and the interpreter would wait for it.
    sys.stdout.flush()
    os._exit(INTERRUPTED)


def prepare_for_abort() -> None:
    """Let the process end with a sentence where a library aborts it, as Polars does where memory is missing."""
    os.environ["RUST_BACKTRACE"] = "0"
    told = sys.platform != "win32" and sys.stderr is not None and "--debug" not in sys.argv
    native.say_on_abort(f"Error: there is not enough memory; {_LESS_MEMORY}\n", INPUT, _only_ours() if told else 2)


def end_without_memory(ended: SystemExit) -> None:
    """End the process at once if it was for missing memory: the interpreter may need some to end, and fail in that."""
    if isinstance(ended.__cause__, _WithoutMemory) and not multiprocessing.active_children():
        sys.stderr.flush()
        os._exit(INPUT)


def _only_ours() -> int:
    """Where stderr goes, which only Python writes to from now on: what libraries say themselves before they give up
    would hide the sentence."""
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    sys.stderr = os.fdopen(stderr, "w", buffering=1, encoding=sys.stderr.encoding, errors=sys.stderr.errors)
    return stderr


def failure(error: BaseException) -> click.ClickException:
    """``error`` as click reports it."""
    if isinstance(error, HolotraceError):
        return _Failed(str(error), USAGE if isinstance(error, UsageError) else INPUT)
    if _is_for_memory(error):
        what = str(error) if isinstance(error, MemoryError) and str(error) else "there is not enough memory"
        return _WithoutMemory(f"{what}; {_LESS_MEMORY}", INPUT)
    if isinstance(error, OSError):
        # A full disk, a place that may not be touched.
        where = "the output" if error.filename is None else error.filename
        return _Failed(f"{where} cannot be used: {error.strerror or error}; name another place", USAGE)
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    return _Failed(f"unexpected {what}; see where it came from with holotrace --debug, and please report it", DEFECT)


def _is_for_memory(error: BaseException | None) -> bool:
    """Whether it was memory that was missing, for data or for a thread; Polars panics without."""
    while error is not None:
        said = str(error)
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if isinstance(error, RuntimeError) and ("can't start new thread" in said or "memory" in said):
            return True
        if any(refused in said for refused in _REFUSED):
            return True
        error = error.__cause__
    return False


def _prepare_stdout() -> None:
    if sys.stdout is None:
        # It was closed, so nobody wants to read.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # it stays open
    elif isinstance(sys.stdout, io.TextIOWrapper):
        # Names hold any character, and not every terminal can show it.
        sys.stdout.reconfigure(errors="replace")


def _abandon_stdout() -> None:
    """Let what could not be written go, or the interpreter would try it again as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Failed(click.ClickException):
    """An error as click shows it."""

    def __init__(self, message: str, exit_code: int) -> None:
        # Paths and pieces of files may hold characters that a terminal would obey.
        super().__init__("".join(char if char.isprintable() else " " for char in message))
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class and reads it here


class _WithoutMemory(_Failed):
    """Memory is missing, and whoever ends the process is told so."""

    def show(self, file: IO[Any] | None = None) -> None:
        super().show(file)
        raise SystemExit(self.exit_code) from self
