"""Too little memory for a file is an error that says so, and neither an abort nor a wrong table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holotrace import _native
from holotrace.cli.errors import failure

# Alone in a process, so that nothing but the reader can run out.
_READER = """
import importlib.machinery, importlib.util, resource, sys
loader = importlib.machinery.ExtensionFileLoader("_native", sys.argv[1])
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("_native", loader))
loader.exec_module(module)
used = 4096 * int(open("/proc/self/statm").read().split()[0])
limit = used + (int(sys.argv[3]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    trace = module.read_trace_event(sys.argv[2], tables=["events", "flows"], args=[])
    trace.table("events", ["event_id", "name", "start_ns", "end_ns"])
    print("read")
except MemoryError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "rank-0.json"
    event = '{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}'
    path.write_text("[" + ",\n".join([event] * 1_000_000) + "]")
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
@pytest.mark.parametrize("megabytes", [100, 180, 240, 4096])
def test_too_little_memory_is_an_error_and_no_abort(trace: Path, megabytes: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _READER, str(_native.__file__), str(trace), str(megabytes)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    wanted = "read" if megabytes == 4096 else f"{trace}: there is not enough memory"
    assert done.stdout.strip() in ({wanted} if megabytes in {100, 4096} else {wanted, "read"})


def test_the_command_line_says_it_in_one_sentence() -> None:
    message = failure(MemoryError("rank-0.json: there is not enough memory")).format_message()
    assert message.startswith("rank-0.json: there is not enough memory; ")
    assert "\n" not in message
    assert failure(MemoryError()).format_message().startswith("there is not enough memory; ")
