"""The JSON state files on disk: read and written atomically."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from pydantic_core import PydanticSerializationError, to_json

from logos.adapters.files import bytes_of_file, write_atomically
from logos.errors import StateError
from logos.views.cycle_state import Saved, StateDamaged, parse

Json = dict[str, Any]


def write_cycle_state(path: Path, projection: Json, at: float) -> None:
    stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    version, *rest = projection.items()
    text = json.dumps(dict([version, ("updated_at", stamp), *rest]), indent=2, ensure_ascii=False)
    # A lone surrogate in an agent's text has no UTF-8 form.
    write_atomically(path, text.encode("utf-8", "replace").decode("utf-8") + "\n")


def write_build_state(path: Path, state: Json) -> None:
    """Write without fsync: the file is a projection, which the log can restore after a power cut."""
    try:
        text = to_json(state, indent=2).decode()
    except PydanticSerializationError:
        text = json.dumps(state, ensure_ascii=False, indent=2).encode("utf-8", "replace").decode("utf-8")
    write_atomically(path, text + "\n", durable=False)


def read_cycle_state(path: Path, default_provider: str) -> Saved | None:
    """What the file says; None when there is no file; StateDamaged when it is not a JSON object."""
    try:
        text = bytes_of_file(path, follow=True).decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise StateDamaged(f"{path} is not UTF-8 text") from error
    except OSError as error:
        raise StateError(f"cannot read the state file {path}: {error.strerror}") from error
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateDamaged(f"{path} is not valid JSON: {str(error) or 'nested too deeply'}") from error
    if not isinstance(data, dict):
        raise StateDamaged(f"{path} holds no JSON object")
    return parse(cast(Json, data), default_provider)
