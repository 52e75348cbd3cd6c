"""The database that LOGOS_DATABASE names instead of a file in each work dir. Only the environment can name one.

Agents can read and change every file of a work dir: an address in its configuration would be known to them, and they
could make Logos believe another database.
"""

import os
import socket
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from logos.adapters.programs import DATABASE_VARIABLE
from logos.errors import UsageError

if TYPE_CHECKING:
    from logos.adapters.store.postgres import PostgresLog

MISSING = (
    "a run log on PostgreSQL needs the extra [fleet]: `pipx inject logos-agents 'psycopg[binary]'`, or install "
    "`logos-agents[fleet]`"
)


def database_address() -> str:
    """Where the runs are; empty: in a file of their work dir."""
    return os.environ.get(DATABASE_VARIABLE, "").strip()


def database_log(address: str, place: Path) -> "PostgresLog":
    """The log of a work dir in a database. It belongs to the path on this host."""
    if find_spec("psycopg") is None:
        raise UsageError(MISSING)
    # Imported only now: it needs the extra.
    return import_module("logos.adapters.store.postgres").PostgresLog(address, name_of(place))


def name_of(place: Path) -> str:
    """What a work dir is called in a database that many hosts use."""
    return f"{socket.gethostname()}:{os.path.realpath(place)}"


def refuse_database(what: str) -> None:
    """UsageError where LOGOS_DATABASE is set, for what looks for logs in files only."""
    if database_address():
        raise UsageError(f"{what} knows only runs whose log is a file: unset LOGOS_DATABASE to see those")
