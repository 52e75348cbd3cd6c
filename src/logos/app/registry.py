"""The work dirs of this user: those whose logs have a mirror in the user state folder. A run is found in any."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from logos.adapters.store.mirror import LogRecord, find, records
from logos.app.checkpoints import locate, run_name
from logos.app.database import database_address, refuse_database
from logos.app.workdir import WorkDir, has_log, place_to_read, was_chosen
from logos.errors import UsageError


def known_work_dirs() -> list[Path]:
    """Every work dir with a log of this user that still exists, in the order of their paths."""
    refuse_database("a list of all work dirs")
    return sorted(place for place, _ in _known())


def work_dirs_with(run: str) -> list[Path]:
    """Those of them with a run of this id."""
    return sorted(place for place, record in _known() if run in record.runs)


def _known() -> Iterator[tuple[Path, LogRecord]]:
    with suppress(OSError):
        for record in records():
            # The record names the database; agents cannot write it.
            place = Path(record.path).parent.parent
            with suppress(OSError):
                if place.is_dir():
                    yield place, record


def place_of_run(run: str | None, wd: Path | None = None) -> Path:
    """The work dir with a run: this one or a fork of it; where no `wd` was chosen, any work dir of this user."""
    here, name = place_to_read(wd), (run or "").partition("@")[0].lower()
    if name and database_address():
        return locate(here, run_name(name)).place if has_log(here) else here
    if not name or _is_in(here, name):
        return here
    places = [] if was_chosen(wd) else _places_with(name)
    if len(places) > 1:
        named = ", ".join(map(str, places))
        raise UsageError(f"{name!r} is the beginning of runs in {len(places)} work dirs: {named}; choose with --wd")
    if places:
        return places[0]
    # A fork whose mirror could not be written is found by its repository.
    return locate(here, run_name(name)).place if has_log(here) else here


def _is_in(place: Path, run: str) -> bool:
    """Whether a work dir may have a run; its log is not opened for that."""
    mirror = find(WorkDir(place).database, "", lambda _: None)
    return has_log(place) if mirror is None else any(known.startswith(run) for known in mirror.record.runs)


def _places_with(run: str) -> list[Path]:
    """The work dirs with a run of this id; without one, those with a run whose id begins so."""
    known = [*_known()]
    for fits in (str.__eq__, str.startswith):
        found = [place for place, record in known if any(fits(str(other), run) for other in record.runs)]
        if found:
            return found
    return []
