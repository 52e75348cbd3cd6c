"""A work dir: every path and file name of Logos in it, its log, and finding a run in that log."""

import json
import os
import shlex
import stat
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from logos.adapters.commands import end_left_over
from logos.adapters.files import bytes_of_file, own_folder, refuse_link, refuse_links, refuse_others
from logos.adapters.lock import driver_lock, driver_of
from logos.adapters.store.mirror import find
from logos.adapters.store.recovery import open_readonly, repair
from logos.adapters.store.sqlite import SqliteLog
from logos.app.database import database_address, database_log
from logos.domain.turns import RunId
from logos.errors import NoRunYet, UsageError
from logos.ports import Log, RunLog
from logos.views.redact import one_line
from logos.views.text import count

CONFIG = "logos.json"
DATABASE = "logos.db"
LOCK = "driver.lock"
TELOS = ".telos"

Tell = Callable[[str], None]


class WorkDir:
    """Every path that Logos uses in the directory a run works in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / CONFIG
        self.telos_file = path / "telos.toml"
        self.telos_dir = path / TELOS
        self.database = self.telos_dir / DATABASE
        # Says that the runs are in the database that LOGOS_DATABASE names.
        self.elsewhere = self.telos_dir / "elsewhere"
        self.lock = self.telos_dir / LOCK
        self.profiles = self.telos_dir / "profiles"
        self.build_state = self.telos_dir / "state.json"
        # The worktrees of builds, one folder per run.
        self.worktrees = self.telos_dir / "worktrees"
        # The checks that run now, one folder each.
        self.checks = self.telos_dir / "checks"
        # The same for commands that are tried before a build.
        self.trials = self.telos_dir / "trials"
        # Exists while a rollback replaces files; names the run and the commit.
        self.rollback_mark = self.telos_dir / "rollback.json"
        self.response_dir = path / ".tmp" / "agent-responses"
        # Prompts that are too long to send.
        self.prompt_dir = path / ".tmp" / "agent-prompts"
        # The default of the setting `state_file`.
        self.cycle_state = path / ".tmp" / "agnostic-3agents-loop-state.json"

    def host_dir(self, session: str) -> Path:
        """The folder of the local or the scripted host: one folder per terminal."""
        return self.telos_dir / session


def say(text: str) -> None:
    """Print a message to stderr: the default wherever a `tell` can be given."""
    print(one_line(text), file=sys.stderr, flush=True)


def stamp() -> str:
    """The current time, as a suffix for files that are set aside."""
    return time.strftime("%Y%m%d-%H%M%S")


def day_of(at: float) -> str:
    """The day of a time, as a checkpoint is named by it."""
    return time.strftime("%Y-%m-%d", time.localtime(at))


def default_config() -> Path | None:
    path = Path(CONFIG)
    return path if path.is_file() else None


def place_of(wd: Path | None) -> Path:
    """The work dir: `wd`, else LOGOS_WD or WD, else `wd` in ./logos.json, else the current directory."""
    chosen = _chosen(wd)
    place = Path(chosen).expanduser().absolute() if chosen else Path.cwd()
    if not place.is_dir():
        raise UsageError(f"{place}: there is no such directory")
    return place


def _chosen(wd: Path | None) -> str:
    return str(wd) if wd is not None else os.environ.get("LOGOS_WD") or os.environ.get("WD", "") or wd_in(Path(CONFIG))


def place_to_read(wd: Path | None) -> Path:
    """The work dir of a command that only reads: the same; where nothing was chosen, also one above, as git does."""
    place = place_of(wd)
    return place if _chosen(wd) or has_log(place) else place_above(place) or place


def place_above(folder: Path) -> Path | None:
    """The nearest work dir with a log above a folder, within its git repository and in folders of this user."""
    for inner, outer in pairwise([folder, *folder.parents]):
        # A repository ends with the folder that has its .git.
        if os.path.lexists(inner / ".git") or not _is_ours(outer):
            return None
        if _is_ours(outer / TELOS) and has_log(outer):
            return outer if _in_repository(outer) else None
    return None


def _in_repository(folder: Path) -> bool:
    return any(os.path.lexists(path / ".git") for path in (folder, *folder.parents))


def _is_ours(folder: Path) -> bool:
    """Whether it is a folder, not a link, of the user who runs this."""
    try:
        about = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()


def was_chosen(wd: Path | None) -> bool:
    """Whether a person named the work dir, instead of standing in it."""
    return bool(_chosen(wd))


def wd_in(config: Path) -> str:
    """`wd` of a configuration file; other errors in that file are reported where the settings are loaded."""
    try:
        data: object = json.loads(bytes_of_file(config, follow=True).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return ""
    wd = cast("dict[str, Any]", data).get("wd") if isinstance(data, dict) else None
    return wd if isinstance(wd, str) and "\x00" not in wd else ""


def wd_flag(place: Path) -> str:
    """The `--wd` option that a suggested command needs to use the same work dir."""
    return "" if place == Path.cwd() else f" --wd {shlex.quote(str(place))}"


def driver_at(place: Path) -> int | None:
    return driver_of(WorkDir(place).lock)


def has_log(place: Path) -> bool:
    """Whether there is a database, or the mirror of one that was deleted from its work dir.

    Where LOGOS_DATABASE is set: whether that database has a run of this work dir.
    """
    if address := database_address():
        with closing(database_log(address, place)) as log:
            return bool(log.runs())
    return has_own_log(place)


def has_own_log(place: Path) -> bool:
    """Whether a work dir has a log in a file; UsageError where it has none because its runs are in a database."""
    work_dir = WorkDir(place)
    try:
        if work_dir.database.is_file() or (place.is_dir() and find(work_dir.database, "", say) is not None):
            return True
        if not work_dir.elsewhere.is_file():
            return False
    except OSError as error:
        raise UsageError(f"cannot look into {work_dir.telos_dir}: {error.strerror}") from error
    raise UsageError(
        f"the runs of {place} are in a database: set LOGOS_DATABASE (or remove {work_dir.elsewhere}, if it is gone)"
    )


def require_log(place: Path) -> None:
    if not has_log(place):
        raise _no_run(place)


def _no_run(place: Path) -> UsageError:
    above = place_above(place)
    elsewhere = f"; one was in {above}: add --wd {shlex.quote(str(above))}" if above else ""
    return UsageError(f"no run was started in {place} yet; `logos run` starts one{elsewhere}")


@contextmanager
def reading(place: Path, tell: Tell = say) -> Generator[RunLog]:
    """Open the log of a work dir without creating, repairing or moving anything, until an event is appended.

    Where it differs from its mirror, the mirror is read, and a message says so.
    """
    if address := database_address():
        with closing(database_log(address, place)) as stored:
            if not stored.runs():
                raise _no_run(place)
            yield stored
        return
    require_log(place)
    with open_readonly(WorkDir(place).database, tell, driven=driver_at(place) is not None) as log:
        yield log


@contextmanager
def open_log(telos_dir: Path, tell: Tell = say) -> Generator[RunLog]:
    """Open a log and its mirror to write to them. The log is repaired first, unless another process drives it."""
    if address := database_address():
        with in_database(telos_dir, address) as stored:
            yield stored
        return
    has_own_log(telos_dir.parent)
    with in_file(telos_dir, tell) as log:
        yield log


@contextmanager
def in_database(telos_dir: Path, address: str) -> Generator[RunLog]:
    """The log that a work dir has in a database; from now on, its commands need LOGOS_DATABASE."""
    with closing(database_log(address, telos_dir.parent)) as log:
        own_folder(telos_dir)
        WorkDir(telos_dir.parent).elsewhere.touch(0o600)
        yield log


@contextmanager
def in_file(telos_dir: Path, tell: Tell) -> Generator[RunLog]:
    """The log that a work dir has in a file."""
    path, driver = telos_dir / DATABASE, driver_of(telos_dir / LOCK)
    ours = driver in (None, os.getpid())
    mirror = repair(path, tell, driving=driver is not None) if ours else find(path, "", tell)
    with closing(SqliteLog(path, mirror=mirror)) as log:
        yield log


@contextmanager
def driving(place: Path, tell: Tell = say) -> Generator[RunLog]:
    """Become the one driver of a work dir: hold its lock, end the checks of a killed driver, and open its log."""
    paths = WorkDir(place)
    refuse_links(paths.telos_dir)
    for folder in (paths.prompt_dir.parent, paths.prompt_dir, paths.response_dir):
        refuse_link(folder)
    for folder in (paths.telos_dir, paths.response_dir.parent, paths.response_dir):
        refuse_others(folder, tell)
    with driver_lock(paths.lock):
        if left := end_left_over(paths.checks, place):
            tell(f"ended {count(left, 'check')} that a killed driver had left running in {place}")
        with open_log(paths.telos_dir, tell) as log:
            yield log


def find_run(log: Log, wanted: str | None) -> RunId:
    """The run with this id or the only one whose id starts with it; None means the newest run."""
    runs = log.runs()
    if not runs:
        raise NoRunYet("no run was started here yet; `logos run` starts one")
    if wanted is None:
        return runs[-1]
    if wanted in runs:
        return RunId(wanted)
    matches = [run for run in runs if wanted and run.startswith(wanted.lower())]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{wanted!r} is the beginning of {len(matches)} runs: {', '.join(matches[-5:])}")
    raise UsageError(f"there is no run {wanted!r} here; `logos runs` lists them")
