"""A server of one job's page, on this machine only: started with a command, stopped with it or when nobody looks."""

from __future__ import annotations

import html
import secrets
import shutil
import socket
import tempfile
import time
import weakref
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType

from holotrace.analyses import ALL
from holotrace.analyses.lanes import DRAWN
from holotrace.analyses.lanes.timeline import timeline
from holotrace.engine.map_ranks import Progress
from holotrace.engine.session import Session
from holotrace.errors import require
from holotrace.export import copies
from holotrace.export.timeline import Wanted
from holotrace.serve.app import Site, app
from holotrace.serve.tiles import Tiles

IDLE_S = 1800.0
_HOST = "127.0.0.1"
_LOOK_S = 0.2
_START_S = 30.0


class View:
    """A job's page with all events, at an address that only this machine can reach.

    It goes on until it is closed, or nobody has asked it for anything for ``idle_s``; an open page asks once a minute.
    """

    def __init__(self, session: Session, *, idle_s: float = IDLE_S, progress: Progress | None = None) -> None:
        from holotrace.present import html as pages  # noqa: PLC0415  # templates, needed by no other method of a job

        uvicorn = require("uvicorn", extra="view")
        result = session.run((*ALL, *DRAWN), progress=progress)
        self._session, self._idle_s, self._lock = session, idle_s, Lock()
        self._folder = Path(tempfile.mkdtemp(prefix="holotrace-view-"))
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._socket = socket.create_server((_HOST, 0))
        port, token = self._socket.getsockname()[1], secrets.token_urlsafe(24)
        self.url = f"http://{_HOST}:{port}/{token}/"
        """Where the page is; whoever knows it, and runs on this machine, can read it."""
        hosts = (f"{_HOST}:{port}", f"localhost:{port}")
        tiles = Tiles(session, result.tables[timeline.name])
        self._site = Site(pages.page(result, live=True), tiles, self._trace, token, hosts)
        config = uvicorn.Config(app(self._site), log_level="error", access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._serve, name="holotrace view", daemon=True)
        self._thread.start()
        begun = time.monotonic()
        while not self._server.started and self._thread.is_alive() and time.monotonic() - begun < _START_S:
            time.sleep(0.01)

    def __enter__(self) -> View:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"View({self.url!r})"

    def _repr_html_(self) -> str:
        url = html.escape(self.url)
        return f'<p><a href="{url}" target="_blank" rel="noreferrer">{url}</a></p>'

    @property
    def is_open(self) -> bool:
        """Whether it still answers."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Return when it was closed or is idle; Ctrl-C interrupts this, and leaves it open."""
        while self._thread.is_alive():
            self._thread.join(_LOOK_S)

    def close(self) -> None:
        """Stop answering."""
        self._server.should_exit = True
        self._thread.join()

    def _serve(self) -> None:
        Thread(target=self._stop_when_idle, daemon=True).start()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
            self._remove()

    def _stop_when_idle(self) -> None:
        while not self._server.should_exit:
            if time.monotonic() - self._site.asked > self._idle_s:
                self._server.should_exit = True
            time.sleep(min(_LOOK_S, self._idle_s))

    def _trace(self) -> Path:
        """The merged trace, written when it is asked for the first time."""
        with self._lock:
            path = self._folder / "timeline.json.gz"
            if not path.exists():
                copies.write_timeline(self._session, path, Wanted("host", None, None, None), None)
            return path
