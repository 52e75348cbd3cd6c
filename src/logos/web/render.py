"""Templates: one Jinja2 environment, everything escaped, and what every page is told."""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from logos import __version__
from logos.views.redact import clean
from logos.web.presenters import FILTERS


def shown(value: object) -> object:
    """What an agent wrote is text without control sequences, invisible characters or secrets, then escaped."""
    return value if isinstance(value, Markup) else clean(value) if isinstance(value, str) else value


@cache
def templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("logos.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name, function in FILTERS.items():
        environment.filters[name] = function  # pyright: ignore[reportUnknownMemberType]
    return environment


@cache
def _names() -> frozenset[str]:
    return frozenset(templates().list_templates())


def is_template(name: str) -> bool:
    return name in _names()


def render(request: Request, name: str, status_code: int = 200, **context: Any) -> HTMLResponse:
    """A page, or a part of one. Every template has `path`, `query`, `read_only` and `version` besides."""
    common = {
        "path": request.url.path,
        "query": dict(request.query_params),
        "read_only": request.app.state.options.read_only,
        "version": __version__,
    }
    return HTMLResponse(templates().get_template(name).render(**common, **context), status_code)
