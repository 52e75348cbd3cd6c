"""Where runs are looked for: the work dir, its log (only read here), and the run a person means."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from logos.errors import UsageError
from logos.views.redact import one_line

if TYPE_CHECKING:
    from logos.adapters.store.sqlite import SqliteLog
    from logos.domain.turns import RunId
    from logos.ports import Log

CONFIG = "logos.json"
DATABASE = "logos.db"
LOCK = "driver.lock"
TELOS = ".telos"


def default_config() -> Path | None:
    path = Path(CONFIG)
    return path if path.is_file() else None


def place_of(wd: Path | None) -> Path:
    """The work dir: the flag, the environment, the configuration file, here."""
    chosen = str(wd) if wd is not None else os.environ.get("WD", "") or _configured()
    place = Path(chosen).expanduser().absolute() if chosen else Path.cwd()
    if not place.is_dir():
        raise UsageError(f"{place}: there is no such directory")
    return place


def _configured() -> str:
    """`wd` of the configuration file; what else is wrong with that file is not asked here."""
    config = default_config()
    try:
        data: object = json.loads(config.read_text(encoding="utf-8-sig")) if config else None
    except (OSError, ValueError, RecursionError):
        return ""
    wd = cast("dict[str, Any]", data).get("wd") if isinstance(data, dict) else None
    return wd if isinstance(wd, str) and "\x00" not in wd else ""


def has_log(place: Path) -> bool:
    """Whether there is a database, or the mirror of one that was deleted from its work dir."""
    from logos.adapters.store.registry import has_mirror

    path = place / TELOS / DATABASE
    try:
        return path.is_file() or (place.is_dir() and has_mirror(path))
    except OSError as error:
        raise UsageError(f"cannot look into {place / TELOS}: {error.strerror}") from error


@contextmanager
def reading(place: Path) -> Generator[SqliteLog]:
    """The log of a work dir, which is left as it is: a look must not create, repair or move anything.

    Where it differs from its mirror, the mirror is read, and a message says so.
    """
    if not has_log(place):
        raise UsageError(f"no run was started in {place} yet; `logos run` starts one")
    from logos.adapters.store.recovery import open_readonly

    with open_readonly(place / TELOS / DATABASE, _tell, driven=driver_at(place) is not None) as log:
        yield log


def _tell(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)


def find_run(log: Log, wanted: str | None) -> RunId:
    """The run a person means: the newest, or the one whose id begins like this."""
    runs = log.runs()
    if not runs:
        raise UsageError("the log holds no run yet; `logos run` starts one")
    if wanted is None:
        return runs[-1]
    if wanted in runs:
        return runs[runs.index(cast("RunId", wanted))]
    fitting = [run for run in runs if wanted and run.startswith(wanted.lower())]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise UsageError(f"{wanted!r} is the beginning of {len(fitting)} runs: {', '.join(fitting[-5:])}")
    raise UsageError(f"there is no run {wanted!r} here; `logos runs` lists them")


def driver_at(place: Path) -> int | None:
    """The pid of the driver that is at work there now."""
    from logos.adapters.lock import driver_of

    return driver_of(place / TELOS / LOCK)


def wd_flag(place: Path) -> str:
    """What a suggested command needs to find the same place again."""
    import shlex

    return "" if place == Path.cwd() else f" --wd {shlex.quote(str(place))}"
