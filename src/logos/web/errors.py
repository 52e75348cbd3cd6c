"""Errors as answers: JSON for the API, a page for people. The text of an error is data like any other."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from logos.errors import Busy, LogosError, UsageError
from logos.web.render import render
from logos.web.security import BodyTooLarge


class NotFound(UsageError):
    """The address names nothing."""


class BadRequest(UsageError):
    """The request cannot be understood."""


# The status of an answer by the kind of error, the first that fits.
STATUSES: tuple[tuple[type[LogosError], int], ...] = (
    (NotFound, 404),
    (BadRequest, 400),
    (Busy, 409),
    (UsageError, 409),
    (LogosError, 500),
)


def status_of(error: LogosError, *, acts: bool) -> int:
    """What a verb cannot do is not this server's fault: its driver may have said so."""
    found = next(status for kind, status in STATUSES if isinstance(error, kind))
    return 409 if acts and found >= 500 else found


def error_response(request: Request, status: int, text: str, exit_code: int | None = None) -> Response:
    if request.url.path.startswith("/api/"):
        more: dict[str, Any] = {} if exit_code is None else {"exit_code": exit_code}
        return JSONResponse({"error": text, **more}, status)
    return render(request, "error.html", status, status=status, text=text)


def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, LogosError)
    text = "\n".join([str(error), *getattr(error, "__notes__", [])])
    return error_response(request, status_of(error, acts=request.method == "POST"), text, error.exit_code)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(request, error.status_code, error.detail)


def _too_large(request: Request, _: Exception) -> Response:
    return error_response(request, 413, "the request is too large")


HANDLERS: dict[Any, Any] = {LogosError: _ours, HTTPException: _http, BodyTooLarge: _too_large}
