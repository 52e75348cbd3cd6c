"""Coming in and going out: the page for a token, the page for links from elsewhere, and answers to strangers."""

import json
import re
from typing import Any, cast
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from logos.web.access import Access, BrowserSession, TooManyFailures
from logos.web.render import render
from logos.web.security import ENTER, Asked, Refusal, cookie_of

COOKIE_SECONDS = 30 * 24 * 3600
# A page that opens itself again, now from here: then the browser sends the cookie. It says nothing.
_LANDING = '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Logos</title>'


_PLAIN_QUERY = re.compile(r"[A-Za-z0-9=&._~@-]{1,500}")


class Entrance:
    """What strangers, and requests that are refused, are answered."""

    def refused(self, refusal: Refusal) -> ASGIApp:
        return JSONResponse({"error": refusal.why}, refusal.status)

    def landing(self, asked: Asked) -> ASGIApp:
        query = f"?{asked.query}" if _PLAIN_QUERY.fullmatch(asked.query) else ""
        # Named, because an address with a fragment would not be loaded again.
        return HTMLResponse(_LANDING, headers={"Refresh": f"0; url={asked.path}{query}"})

    def stranger(self, asked: Asked) -> ASGIApp:
        if asked.is_page:
            return RedirectResponse(f"{ENTER}?next={quote(asked.path, safe='/')}", 303)
        return JSONResponse({"error": "this needs a session: open the link that `logos web` has printed"}, 401)


def enter_page(request: Request) -> Response:
    return render(request, "enter.html")


async def enter(request: Request) -> Response:
    """Exchange a token for a session: the cookie that reads, and the token that writes need besides."""
    access: Access = request.app.state.access
    try:
        given: Any = json.loads(await request.body())
    except (ValueError, RecursionError):
        given = None
    token = cast("dict[str, Any]", given).get("token") if isinstance(given, dict) else None
    try:
        session = access.enter(token) if isinstance(token, str) else None
    except TooManyFailures:
        return JSONResponse({"error": "too many wrong tokens: wait a minute"}, 429)
    if session is None:
        return JSONResponse({"error": "this link was used before, or the token is wrong"}, 403)
    return _with_cookie(request, session)


def session(_: Request) -> Response:
    """Whether there is a session: without one, this is not reached."""
    return JSONResponse({"session": True})


def logout(request: Request) -> Response:
    request.app.state.access.leave(request.state.session)
    answer = Response(status_code=204, headers={"Clear-Site-Data": '"cache", "storage"'})
    answer.delete_cookie(_cookie_name(request), httponly=True, samesite="strict")
    return answer


def rotate(request: Request) -> Response:
    """New tokens: every other browser and program must come in again."""
    return _with_cookie(request, request.app.state.access.rotate())


def link(request: Request) -> Response:
    """A link for another browser of this person; it works once."""
    return JSONResponse({"path": f"{ENTER}#{request.app.state.access.link()}"})


def _with_cookie(request: Request, session: BrowserSession) -> Response:
    answer = JSONResponse({"write_token": session.write})
    # A server that speaks TLS may be in front of this one.
    secure = request.headers.get("origin", "").startswith("https:")
    answer.set_cookie(
        _cookie_name(request),
        session.cookie,
        max_age=COOKIE_SECONDS,
        httponly=True,
        samesite="strict",
        secure=secure,
    )
    return answer


def _cookie_name(request: Request) -> str:
    return cookie_of((request.scope.get("server") or ("", 0))[1] or 0)


ROUTES = [
    Route(ENTER, enter_page, methods=["GET"]),
    Route(ENTER, enter, methods=["POST"]),
    Route("/api/session", session, methods=["GET"]),
    Route("/api/logout", logout, methods=["POST"]),
    Route("/api/rotate", rotate, methods=["POST"]),
    Route("/api/link", link, methods=["POST"]),
]
