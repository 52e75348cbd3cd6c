"""The pages of an SQLite file and of its write-ahead log, read without SQLite: what is whole is found, whatever is not.

SQLite gives up on a whole tree when one of its pages is gone, while the rows are still there on all the others. The
format is that of https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

Value = int | float | bytes | None
Sum = tuple[int, int]

PAGE_SIZE = 4096
PAGE_SIZES = tuple(512 << power for power in range(8))
WAL_HEADER, FRAME_HEADER = 32, 24
MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
# Kinds of pages with rows: where the list of their cells begins, and how far in a cell its size is.
INDEX_NODE, INDEX_LEAF, TABLE_LEAF = 2, 10, 13
CELLS = {INDEX_NODE: (12, 4), INDEX_LEAF: (8, 0), TABLE_LEAF: (8, 0)}
# How long the values are that are no texts, by their kind.
LENGTHS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0, 10: 0, 11: 0}


# --- the write-ahead log


@dataclass(frozen=True, slots=True)
class Frame:
    """A page in the write-ahead log. A sound one is what SQLite wrote, byte for byte."""

    page: int
    data: bytes
    commits: bool
    sound: bool


def frames(wal: bytes) -> Iterator[Frame]:
    """Every whole frame. Each sum goes on from the one before; of a damaged frame either its sum or its page holds."""
    size = wal_page_size(wal)
    heads = range(WAL_HEADER, len(wal) - size - FRAME_HEADER + 1, size + FRAME_HEADER)
    if not heads:
        return
    order = _order(wal)
    marks = Counter(wal[at + 8 : at + 16] for at in heads)
    mark = wal[16:24] if header_holds(wal) else marks.most_common(1)[0][0]
    before = {_pair(wal, 24), _sum((0, 0), wal[:24], order)}
    for at in heads:
        head, data = wal[at : at + FRAME_HEADER], wal[at + FRAME_HEADER : at + FRAME_HEADER + size]
        page, pages = _pair(head, 0)
        said, due = _pair(head, 16), set[Sum]()
        if head[8:16] == mark:
            due = {_sum(_sum(start, head[:8], order), data, order) for start in before}
        yield Frame(page, data, pages > 0, said in due)
        before = {said} if said in due or len(before) > 1 else {said, *due}


def is_broken(wal: bytes) -> bool:
    """Whether SQLite would stop before what was accepted last, and write over the rest."""
    sound = [frame.sound for frame in frames(wal)]
    return any(sound[sound.index(False) :]) if False in sound else bool(sound) and not header_holds(wal)


def is_unfinished(wal: bytes) -> bool:
    """Whether the last thing that was written did not get to its end."""
    sound = [frame for frame in frames(wal) if frame.sound]
    rest = wal[WAL_HEADER + len(sound) * (wal_page_size(wal) + FRAME_HEADER) :]
    # What is left of an older write-ahead log has another mark.
    begun = bool(rest) and wal[16:24].startswith(rest[8:16])
    return begun or bool(sound and not sound[-1].commits)


def header_holds(wal: bytes) -> bool:
    return wal[:4] in MAGIC and len(wal) >= WAL_HEADER and _sum((0, 0), wal[:24], _order(wal)) == _pair(wal, 24)


def wal_page_size(wal: bytes) -> int:
    size = int.from_bytes(wal[8:12], "big")
    return size if size in PAGE_SIZES else PAGE_SIZE


def _order(wal: bytes) -> str:
    return ">" if wal[:4] == MAGIC[1] else "<"


def _pair(data: bytes, at: int) -> Sum:
    first, second = struct.unpack_from(">2I", data, at)
    return first, second


# The same frames are met when a log is checked and when it is read.
@lru_cache(maxsize=4096)
def _sum(start: Sum, data: bytes, order: str) -> Sum:
    first, second = start
    numbers = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for one, other in zip(numbers, numbers, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


# --- the pages


@dataclass(frozen=True, slots=True)
class Record:
    """A row as far as it is there. A value that is not there, or not whole, is None."""

    in_index: bool
    rowid: int
    values: list[Value]


class Pages:
    """Every page of a file and its write-ahead log, in the order they are believed: what was written last is first."""

    def __init__(self, main: bytes, wal: bytes, size: int) -> None:
        self._size = size
        written = [(frame.page, frame.data) for frame in frames(wal) if frame.sound]
        lying = [(at // size + 1, main[at : at + size]) for at in range(0, len(main), size)]
        self._all = [*reversed(written), *lying]
        self._newest: Mapping[int, bytes] = dict(reversed(self._all))

    def records(self) -> Iterator[Record]:
        for number, page in self._all:
            # The first page begins with the header of the file.
            start = 100 if number == 1 else 0
            kind = page[start] if len(page) > start else 0
            if kind not in CELLS:
                continue
            for at in _cells(page, start, CELLS[kind][0]):
                try:
                    yield self._record(page, at + CELLS[kind][1], in_index=kind != TABLE_LEAF)
                except (IndexError, ValueError):
                    # What makes no sense is no row.
                    continue

    def _record(self, page: bytes, at: int, *, in_index: bool) -> Record:
        size, at = _number(page, at)
        rowid, at = (0, at) if in_index else _number(page, at)
        here = self._here(size, in_index=in_index)
        whole = page[at : at + here]
        if here < size and len(page) >= at + here + 4:
            whole += self._elsewhere(int.from_bytes(page[at + here : at + here + 4], "big"), size - here)
        return Record(in_index, rowid, _values(whole))

    def _here(self, size: int, *, in_index: bool) -> int:
        """How much of a row is on its own page; the rest is on other pages, of which each names the next."""
        least = (self._size - 12) * 32 // 255 - 23
        most = (self._size - 12) * 64 // 255 - 23 if in_index else self._size - 35
        fitting = least + (size - least) % (self._size - 4)
        return size if size <= most else fitting if fitting <= most else least

    def _elsewhere(self, number: int, size: int) -> bytes:
        """As much as is left of a row on other pages."""
        parts: list[bytes] = []
        while size > 0 and number in self._newest:
            page, end = self._newest[number], min(4 + size, self._size)
            parts.append(page[4:end])
            number, size = (int.from_bytes(page[:4], "big"), size + 4 - end) if len(page) >= end else (0, 0)
        return b"".join(parts)


def page_size(main: bytes) -> int:
    """As the header says, if it says something that can be."""
    size = int.from_bytes(main[16:18], "big")
    size = PAGE_SIZES[-1] if size == 1 else size
    return size if size in PAGE_SIZES else PAGE_SIZE


def _cells(page: bytes, start: int, after: int) -> Iterator[int]:
    """Where the cells of a page begin."""
    many = int.from_bytes(page[start + 3 : start + 5], "big")
    listed = page[start + after : start + after + 2 * many]
    return (int.from_bytes(listed[at : at + 2], "big") for at in range(0, len(listed) - 1, 2))


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    if data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9


def _values(record: bytes) -> list[Value]:
    end, at = _number(record, 0)
    place, found = end, list[Value]()
    while at < end:
        kind, at = _number(record, at)
        size = LENGTHS.get(kind, (kind - 12) // 2)
        part = record[place : place + size]
        found.append(_value(kind, part) if len(part) == size else None)
        place += size
    return found


def _value(kind: int, part: bytes) -> Value:
    if kind >= 12:
        return part
    match kind:
        case 7:
            return struct.unpack(">d", part)[0]
        case 8 | 9:
            return kind - 8
        case 0 | 10 | 11:
            return None
        case _:
            return int.from_bytes(part, "big", signed=True)
