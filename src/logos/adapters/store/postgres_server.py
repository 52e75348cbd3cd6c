"""A connection to PostgreSQL that is made again when the server was away, and the tables of Logos in it."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from logos.errors import LogError, UsageError

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
Job = Callable[[Connection, bool], T]

# How long a server may be away before a call fails, and the delay before it is looked for again.
PATIENCE, RETRY = 20.0, 0.2
# A network that drops packets is noticed: by connecting, by reading, and by writing.
_NETWORK = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# States of a server that ends, starts or has no room for another connection.
_AWAY = re.compile(r"08...|57P0[1235]|53300")
_MESSAGES = {
    "25006": "it is read-only, as a standby is",
    "42501": "its user may not do that ({})",
    "42P01": "its tables are missing ({})",
    "53100": "no space is left on its disk",
}
_SCHEMES = ("postgresql://", "postgres://")
_FOLDER = "postgres_sql"
_MIGRATION = re.compile(r"(\d{3})-[a-z-]+\.sql")


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """Where a database is. `shown` has neither user nor password, and is for people."""

    text: str
    shown: str
    password: str

    def hide(self, message: object) -> str:
        """What the server or its library says, in one line and without the password."""
        line = " ".join(str(message).split())
        return line.replace(self.password, "[redacted]") if self.password else line


def parse_address(text: str) -> PostgresAddress:
    """UsageError, without the text, where it is not an address: it may hold a password."""
    wrong = "LOGOS_DATABASE is not an address such as postgresql://USER@HOST/DATABASE"
    if not text.startswith(_SCHEMES):
        raise UsageError(wrong)
    try:
        parts = conninfo_to_dict(text)
    except psycopg.Error:
        # The message of the library repeats parts of the address.
        raise UsageError(wrong) from None
    host, port, name = (str(parts.get(key) or "") for key in ("host", "port", "dbname"))
    shown = f"postgresql://{host or 'localhost'}{':' + port if port else ''}/{name}"
    return PostgresAddress(text, shown, str(parts.get("password") or ""))


class PostgresServer:
    """Runs one job after another on one connection. A server that goes away is waited for, for a while."""

    def __init__(self, address: PostgresAddress, patience: float = PATIENCE) -> None:
        self.address = address
        self._patience = patience
        self._one_at_a_time = threading.RLock()
        self._connection: Connection | None = None
        # A server that was never there is not waited for: the address may be wrong.
        self._was_there = False

    def call(self, job: Job[T], doing: str = "read") -> T:
        """What the job returns. It is repeated, and told so, where the connection broke: it may have been done."""
        began, again = time.monotonic(), False
        with self._one_at_a_time:
            while True:
                try:
                    return job(self._connected(), again)
                except psycopg.OperationalError as error:
                    if not is_away(error):
                        raise self.refused(doing, error) from error
                    if not self._was_there or time.monotonic() - began >= self._patience:
                        raise self._absent(error) from error
                    again = True
                except psycopg.Error as error:
                    raise self.refused(doing, error) from error
                finally:
                    self._drop_unfinished()
                time.sleep(RETRY)

    def connect(self) -> Connection:
        """A new connection."""
        info = make_conninfo(self.address.text, application_name="logos", **_NETWORK)
        # Not prepared: a pooler may give every statement another connection.
        return psycopg.connect(info, autocommit=True, prepare_threshold=None)

    def refused(self, doing: str, error: psycopg.Error) -> LogError:
        found = error.diag.message_primary or str(error)
        words = _MESSAGES.get(error.sqlstate or "", "{}").format(self.address.hide(found))
        return LogError(f"the run log {self.address.shown} cannot be {_DOING[doing]}: {words}")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = self.connect()
            self._was_there = True
        return self._connection

    def _drop_unfinished(self) -> None:
        """Whatever a job has left open on the connection must not become a part of the next."""
        connection = self._connection
        if connection is not None and connection.info.transaction_status is not TransactionStatus.IDLE:
            connection.close()

    def _absent(self, error: psycopg.OperationalError) -> LogError:
        waited = f" for {self._patience:g} s" if self._was_there else ""
        why = self.address.hide(str(error).strip() or "the connection was closed")
        return LogError(f"the run log {self.address.shown} does not answer{waited}: {why}")


_DOING = {"read": "read", "write": "written"}


def is_away(error: psycopg.OperationalError) -> bool:
    """Whether the server may be there again. Errors of a connection that broke, or was not made, have no code."""
    return error.sqlstate is None or _AWAY.fullmatch(error.sqlstate) is not None


@cache
def queries() -> Mapping[str, bytes]:
    """The statements of queries.sql by their names."""
    _, *parts = re.split(r"^-- name: (\w+)\n", _file("queries.sql"), flags=re.MULTILINE)
    return {name: text.strip().encode() for name, text in zip(parts[::2], parts[1::2], strict=True)}


@cache
def migrations() -> Mapping[int, bytes]:
    """The numbered files that make the tables, one after the other."""
    folder = files("logos.adapters.store").joinpath(_FOLDER)
    found = {file.name: number for file in folder.iterdir() if (number := _MIGRATION.fullmatch(file.name))}
    return {int(number[1]): _file(name).encode() for name, number in sorted(found.items())}


def applied(connection: Connection) -> int:
    """The number of the last migration of a database; 0: it has no tables of Logos."""
    begun = connection.execute(queries()["version"]).fetchone()
    return _number(connection.execute(queries()["applied"])) if begun and begun[0] else 0


def migrate(connection: Connection) -> None:
    """Make or extend the tables, in one transaction. Of processes that start at once, one does it."""
    with connection.transaction():
        connection.execute(queries()["lock_migrations"])
        connection.execute(queries()["create_migrations"])
        done = _number(connection.execute(queries()["applied"]))
        for number, text in migrations().items():
            if number > done:
                connection.execute(text)
                connection.execute(queries()["record_migration"], {"number": number})


def refuse_newer(number: int, address: PostgresAddress) -> None:
    newest = max(migrations())
    if number > newest:
        raise LogError(
            f"the run log {address.shown} is of a newer Logos (its tables have version {number}, this Logos knows "
            f"{newest}): install that version here"
        )


def _number(found: psycopg.Cursor[tuple[Any, ...]]) -> int:
    row = found.fetchone()
    return int(row[0]) if row else 0


def _file(name: str) -> str:
    return files("logos.adapters.store").joinpath(_FOLDER, name).read_text("utf-8")
