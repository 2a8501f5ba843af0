"""What the server answers to those who know its token: the page, tiles of its timeline, the merged trace."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holotrace.errors import HolotraceError, require
from holotrace.serve.tiles import Tiles

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_MOST_NS = 1 << 62


@dataclass
class Site:
    """What is served, and when somebody asked for it last."""

    page: str
    tiles: Tiles
    # Writes the merged trace into a folder of the server's, where nobody else reads; called when it is asked for.
    trace: Callable[[], Path]
    token: str
    # Names of this machine that the browser may have asked by: others are of pages that lead here by a name of theirs.
    hosts: tuple[str, ...]
    asked: float = field(default_factory=time.monotonic)


def app(site: Site) -> Starlette:
    """The application for any ASGI server."""
    applications = require("starlette.applications", extra="view")
    responses = require("starlette.responses", extra="view")
    routing = require("starlette.routing", extra="view")

    def page(request: Request) -> Response:
        return _of(responses.HTMLResponse(site.page))

    def tile(request: Request) -> Response:
        asked = [_whole(request.query_params.get(name)) for name in ("rank", "from", "to", "pieces")]
        known = [value for value in asked if value is not None]
        found = site.tiles.tile(*known) if len(known) == len(asked) else None
        return _of(responses.JSONResponse(found) if found else responses.Response(status_code=404))

    def trace(request: Request) -> Response:
        try:
            return _of(responses.FileResponse(site.trace(), media_type="application/gzip"))
        except HolotraceError as error:
            return _of(responses.PlainTextResponse(str(error), status_code=409))

    def alive(request: Request) -> Response:
        return _of(responses.Response(status_code=204))

    def guarded(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
        def checked(request: Request) -> Response:
            if request.headers.get("host") not in site.hosts:
                return _of(responses.Response("this server answers to its own address only", status_code=421))
            if not hmac.compare_digest(str(request.path_params["token"]).encode(), site.token.encode()):
                return _of(responses.Response(status_code=404))
            site.asked = time.monotonic()
            return answer(request)

        return checked

    answers = {"": page, "tile": tile, "trace": trace, "alive": alive}
    routes = [routing.Route(f"/{{token}}/{name}", guarded(answer)) for name, answer in answers.items()]
    made: Starlette = applications.Starlette(routes=routes)
    return made


def _of(response: Any) -> Response:
    response.headers.update(_HEADERS)
    answer: Response = response
    return answer


def _whole(text: str | None) -> int | None:
    try:
        value = int(text or "")
    except ValueError:
        return None
    return value if abs(value) < _MOST_NS else None
