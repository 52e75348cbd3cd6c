"""What the acceptance tester sees of a project: documents, manifests, tests, and outlines of Python source."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from logos.adapters.acceptance.outlines import outline
from logos.flows.proof.guarded import is_test, mixed

_DOCUMENTS = (".md", ".rst", ".txt", ".adoc")
# Declarations without bodies.
_INTERFACES = (".pyi", ".d.ts", ".proto", ".graphql", ".h", ".hpp")
_NAMES = re.compile(
    r"(README|LICENSE|CHANGELOG|CONTRIBUTING)(\..*)?|pyproject\.toml|setup\.cfg|tox\.ini|pytest\.ini|package\.json"
    r"|tsconfig.*\.json|(GNU)?[Mm]akefile|justfile|go\.mod|Cargo\.toml|Gemfile|composer\.json|pom\.xml|build\.gradle.*"
)
_HIDDEN = (".git/", ".telos/", ".tmp/", "../")


def is_shown(path: str) -> bool:
    """Whether anything of a file is shown."""
    return not path.startswith(_HIDDEN) and (_is_whole(path) or path.endswith(".py"))


def stripped(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files as they are shown."""
    shown = {path: content if _is_whole(path) else _outlined(content) for path, content in files.items()}
    return {path: content for path, content in shown.items() if content is not None}


def _is_whole(path: str) -> bool:
    name = PurePosixPath(path).name
    return is_test(path) or mixed(path) or bool(_NAMES.fullmatch(name)) or name.endswith((*_DOCUMENTS, *_INTERFACES))


def _outlined(content: bytes) -> bytes | None:
    try:
        return outline(content.decode()).encode()
    except UnicodeDecodeError:
        return None
