"""A run as hash-chained lines of JSON, and the rules for differences between its two copies, mirror and database.

A line is `{"hash":"H","seq":1,"at":1.5,"event":{…}}`. H is the SHA-256 of the previous hash and of the stored bytes of
the line after H: checking a line does not encode it again.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from logos.domain.turns import RunId
from logos.errors import LogError

# The number of an event, its time, and the event as JSON.
Row = tuple[int, float, bytes]
Rows = tuple[Row, ...]
Vouched = Callable[[str], bool]
# So many forged events are named.
MOST_SHOWN = 3

_LINE = re.compile(
    rb'\{"hash":"(?P<hash>[0-9a-f]{64})",'
    rb'(?P<stored>"seq":(?P<seq>\d{1,18}),"at":(?P<at>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?),"event":(?P<body>\{.*\})\})'
)
_HASHES = re.compile(rb'^\{"hash":"([0-9a-f]{64})"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Chain:
    """The valid lines of a mirror file. `rest` follows them: an incomplete last line, or damage."""

    rows: Rows = ()
    hashes: tuple[str, ...] = ()
    rest: bytes = b""


@dataclass(frozen=True, slots=True)
class Head:
    """The last event of a run and its hash, which stands for every event before it."""

    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The result of comparing the mirror of a run with the database.

    The database has the first `kept` events; `dropped` ones were only there and are rejected. `mirror` is the reason
    to rewrite the mirror file, or empty. `forged` is evidence that somebody has changed a copy; accidents leave none.
    """

    run: RunId
    rows: Rows
    kept: int
    dropped: Rows
    mirror: str
    forged: str = ""


def first_hash(run: RunId) -> str:
    """The hash before the first line; it depends on the run, so that files cannot be exchanged."""
    return hashlib.sha256(run.encode()).hexdigest()


def stored_bytes(row: Row) -> bytes:
    """What is hashed of a row, after the hash of the one before."""
    return b'"seq":%d,"at":%a,"event":%s}' % row


def make_line(previous: str, row: Row) -> tuple[bytes, str]:
    stored = stored_bytes(row)
    hashed = _chained(previous, stored)
    return b'{"hash":"%s",%s\n' % (hashed.encode(), stored), hashed


def make_lines(run: RunId, rows: Iterable[Row]) -> tuple[bytes, tuple[str, ...]]:
    previous, lines, hashes = first_hash(run), list[bytes](), list[str]()
    for row in rows:
        line, previous = make_line(previous, row)
        lines.append(line)
        hashes.append(previous)
    return b"".join(lines), tuple(hashes)


def head_of(run: RunId, rows: Iterable[Row]) -> str:
    """The hash of the last of these events."""
    return (make_lines(run, rows)[1] or ("",))[-1]


def read_chain(run: RunId, data: bytes) -> Chain:
    previous, rows, hashes, size = first_hash(run), list[Row](), list[str](), 0
    while (end := data.find(b"\n", size)) >= 0:
        found = _LINE.fullmatch(data, size, end)
        if found is None or int(found["seq"]) != len(rows) + 1:
            break
        hashed = _chained(previous, found["stored"])
        if hashed.encode() != found["hash"]:
            break
        previous, size = hashed, end + 1
        rows.append((len(rows) + 1, float(found["at"]), found["body"]))
        hashes.append(hashed)
    return Chain(tuple(rows), tuple(hashes), data[size:])


def readable(rows: Iterable[Row]) -> Rows:
    """The rows of a run up to the first that is missing or invalid."""
    numbered = takewhile(lambda pair: pair[0] == pair[1][0] and _is_event(pair[1]), enumerate(rows, 1))
    return tuple(row for _, row in numbered)


def reconcile(
    run: RunId,
    chain: Chain | None,
    stored: Rows,
    *,
    known: Head | None,
    registered: bool,
    vouched: Vouched,
    sound: bool = True,
) -> Reconciled:
    """Compare a run's mirror (None: no file) with its rows in the database.

    `known` is the head in the memory of a live driver. `registered`: the mirror's record lists this run. `vouched`: a
    driver that could not write the mirror has signed this hash as the last one of the database. `sound`: the file of
    the database is not damaged.
    """
    if known is not None:
        rows, why = _known_rows(run, chain or Chain(), stored, known)
    elif chain is None and registered:
        rows, why = readable(stored), ""
    else:
        rows, why = _believed(run, chain or Chain(), stored, vouched)
    if chain is None:
        why = "it was missing" if rows else ""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(rows, stored, strict=False)))
    forged: list[str] = []
    if sound and (chain is not None or known is not None):
        forged += _forged_rows(rows, stored[same:])
        forged += _forged_lines(chain or Chain(), len(rows), driven=known is not None)
    return Reconciled(run, rows, same, stored[same:], why, "; ".join(forged))


def _forged_rows(rows: Rows, dropped: Rows) -> Iterator[str]:
    """Rows of a database that no accident leaves; a crash or a restored backup leaves an older beginning of the run."""
    for seq, at, body in dropped[:MOST_SHOWN]:
        if (seq, at, body) in rows:
            yield f"an event before event {seq} was deleted from the database"
            return
        if _is_event((seq, at, body)):
            change = "changed in" if 1 <= seq <= len(rows) else "added to"
            yield f"event {seq} ({json.loads(body)['kind']}) was {change} the database"
    if len(dropped) > MOST_SHOWN:
        yield f"and {len(dropped) - MOST_SHOWN} more"


def _forged_lines(chain: Chain, believed: int, *, driven: bool) -> Iterator[str]:
    """A whole line with a wrong hash or number was edited; an incomplete or unreadable one is damage."""
    end = chain.rest.find(b"\n")
    line = _LINE.fullmatch(chain.rest, 0, end) if end >= 0 else None
    if line is not None and _is_event((int(line["seq"]), float(line["at"]), line["body"])):
        yield f"event {int(line['seq'])} was changed in the mirror"
    elif driven and len(chain.rows) > believed:
        yield f"event {believed + 1} was added to the mirror"


def _known_rows(run: RunId, chain: Chain, stored: Rows, known: Head) -> tuple[Rows, str]:
    if known.seq == 0 or known.hash in chain.hashes[known.seq - 1 : known.seq]:
        changed = "another process has written to it" if len(chain.rows) > known.seq or chain.rest else ""
        return chain.rows[: known.seq], changed
    rows = readable(stored)[: known.seq]
    if make_lines(run, rows)[1][-1:] != (known.hash,):
        raise LogError(f"run {run}: another process has changed both the run log and its mirror")
    return rows, "another process has changed it"


def _believed(run: RunId, chain: Chain, stored: Rows, vouched: Vouched) -> tuple[Rows, str]:
    claimed = [found.decode() for found in _HASHES.findall(chain.rest)]
    if (claimed or len(stored) > len(chain.rows)) and stored[: len(chain.rows)] == chain.rows:
        rows = readable(stored)
        hashes = make_lines(run, rows)[1]
        if claimed and claimed[-1] in hashes:
            # A hash after the damage proves that the database has the damaged lines.
            return rows[: hashes.index(claimed[-1]) + 1], "it was damaged"
        if hashes and vouched(hashes[-1]):
            return rows, "it could not be written before"
    torn = "its last line was incomplete" if b"\n" not in chain.rest else "it was damaged"
    return chain.rows, torn if chain.rest else ""


def _chained(previous: str, stored: bytes) -> str:
    return hashlib.sha256(previous.encode() + stored).hexdigest()


def _is_event(row: Row) -> bool:
    _, at, body = row
    try:
        read: Any = json.loads(body.decode())
    except (ValueError, RecursionError):
        return False
    # Leading or trailing blanks and line breaks are not allowed in a line.
    whole = body[:1] == b"{" and body[-1:] == b"}" and b"\n" not in body
    return whole and isinstance(read, dict) and "kind" in read and abs(at) < float("inf")
