"""Static files: read from the package once, found by their whole path in a table."""

import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from logos.web.errors import NotFound

TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    kind: str
    content: bytes
    tag: str


@cache
def static_files() -> dict[str, StaticFile]:
    return dict(_below(files("logos.web").joinpath("static"), ""))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _below(entry, f"{prefix}{entry.name}/")
            continue
        content = entry.read_bytes()
        suffix = entry.name[entry.name.rfind(".") :]
        kind = TYPES.get(suffix) or mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
        found.append((f"{prefix}{entry.name}", StaticFile(kind, content, hashlib.sha256(content).hexdigest()[:16])))
    return found


def static(request: Request) -> Response:
    found = static_files().get(request.path_params["name"])
    if found is None:
        raise NotFound("there is no such file")
    headers = {"ETag": f'"{found.tag}"', "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.kind, headers=headers)


ROUTES = [Route("/static/{name:path}", static)]
