"""Fitting text into the width of a terminal: folded at words, tables without what matters least."""

from collections.abc import Collection, Iterable, Sequence

from rich.cells import cell_len

# A folded column keeps at least so many cells, or the width of its head.
NARROWEST = 16
GAP = 2


def fold(text: str, width: int, indent: int = 0) -> list[str]:
    """The lines of a text, each at most `width` wide unless a single word is wider; later lines are indented.

    What stands between backticks is a command, and is not broken either.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        lead = len(line) - len(line.lstrip(" "))
        lines += _folded(_words(line.strip(" ")), " " * lead, width, " " * (lead + indent))
    return lines


def _folded(words: Iterable[str], first: str, width: int, rest: str) -> list[str]:
    lines, line, empty = list[str](), first, True
    for word in words:
        if not empty and cell_len(line) + 1 + cell_len(word) > width:
            lines.append(line)
            line, empty = rest, True
        line, empty = (line + word if empty else f"{line} {word}"), False
    return [*lines, line]


def _words(text: str) -> list[str]:
    """Its words; a part between backticks is one."""
    words: list[str] = []
    for word in text.split(" "):
        if words and words[-1].count("`") % 2 and text.count("`") % 2 == 0:
            words[-1] = f"{words[-1]} {word}"
        else:
            words.append(word)
    return words


def cut_into(text: str, width: int) -> list[str]:
    """A cell of a table as lines of at most `width`; a word that is wider is broken."""
    lines: list[str] = []
    for line in fold(text.replace("`", "\x00"), width):
        rest = line.replace("\x00", "`")
        while cell_len(rest) > width:
            lines.append(rest[:width])
            rest = rest[width:]
        lines.append(rest)
    return lines


def padded(text: str, width: int, *, right: bool) -> str:
    space = " " * max(width - cell_len(text), 0)
    return space + text if right else text + space


def fitted(
    headers: Sequence[str],
    body: Sequence[Sequence[str]],
    width: int,
    numeric: Collection[int],
    folds: Collection[str],
    spare: Sequence[str],
) -> tuple[list[int], list[int]]:
    """Which columns a table of this width has, by their numbers, and how wide each is.

    Columns of `folds` become narrower, the widest first. If that is not enough, those of `spare` are left out, in their
    order.
    """
    natural = [max(map(cell_len, column)) for column in zip(headers, *body, strict=True)]
    shown, left = list(range(len(headers))), [*spare]
    while True:
        elastic = [at for at in shown if headers[at] in folds and at not in numeric]
        least = {at: min(natural[at], max(NARROWEST, cell_len(headers[at]))) for at in elastic}
        room = width - GAP * (len(shown) - 1) - sum(natural[at] for at in shown if at not in least)
        if sum(least.values()) <= room or not left:
            return shown, _shared(shown, natural, least, max(room, 8 * len(least)))
        name = left.pop(0)
        shown = [at for at in shown if headers[at] != name]


def _shared(shown: Sequence[int], natural: Sequence[int], least: dict[int, int], room: int) -> list[int]:
    """The widths of all columns, those of `least` sharing the room: none is wider than it needs."""
    widths, left = dict(enumerate(natural)), room
    for rank, at in enumerate(sorted(least, key=lambda at: natural[at])):
        widths[at] = min(natural[at], left // (len(least) - rank))
        left -= widths[at]
    return [widths[at] for at in shown]
