"""Shell completion: it reads what is there and never prints; where something is wrong, it completes nothing."""

import re
from collections.abc import Callable, Generator, Iterator, MutableMapping
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from itertools import chain

from typer import Context

from logos.app.workdir import find_run, place_to_read, reading
from logos.domain.events import TurnAsked, TurnEnded
from logos.errors import LogosError
from logos.ports import Log

# The sections of settings that have a part per name, as `logos schema --keys` has them.
_PER_NAME = ("agents.", "level_agents.", "prices.")
# A shell evaluates what it is offered, and the log of a hostile repository can have any text in place of an id.
_HARMLESS = re.compile(r"[A-Za-z0-9._@=-]+")

# Bash takes words apart here. It keeps what stands before the `@`, or up to the `=`, and replaces the rest.
_BREAKS = ("@", "=")


@contextmanager
def in_bash(environment: MutableMapping[str, str]) -> Generator[None]:
    """What typer prints while this is open, in the form that bash needs, where bash has asked for it."""
    told, at = environment.get("COMP_WORDS", ""), environment.get("COMP_CWORD", "")
    if environment.get("_LOGOS_COMPLETE") != "complete_bash" or not at.isdecimal():
        yield
        return
    kept, printed = "", StringIO()
    if "\n" in told:
        words, kept = _joined(told.split("\n")[: int(at) + 1])
        environment.update(COMP_WORDS="\n".join(words), COMP_CWORD=str(len(words) - 1))
    try:
        with redirect_stdout(printed):
            yield
    finally:
        values = [word for value in printed.getvalue().splitlines() if (word := value.removeprefix(kept))]
        # Bash ends the only value with a blank: not where more must follow.
        more = [f"{values[0]}VALUE"] if len(values) == 1 and values[0].endswith("=") else []
        print(*values, *more, sep="\n")


def _joined(parts: list[str]) -> tuple[list[str], str]:
    """The words that bash has taken apart, and what it keeps of the last one."""
    words: list[str] = []
    for before, part in zip(["", *parts], parts, strict=False):
        if words and (part in _BREAKS or before in _BREAKS):
            words[-1] += part
        else:
            words.append(part)
    last = words[-1]
    kept = 0 if last == parts[-1] else max(last.rfind("@"), last.rfind("=") + 1)
    return words, last[:kept]


@contextmanager
def _log(context: Context) -> Generator[Log]:
    with reading(place_to_read(context.params.get("wd")), lambda _: None) as log:
        yield log


def _quiet(complete: Callable[[Context, str], Iterator[str]]) -> Callable[[Context, str], list[str]]:
    """A function for Typer: the harmless values that begin with what was typed; none where there is an error."""

    def completing(ctx: Context, incomplete: str) -> list[str]:
        found: dict[str, None] = {}
        with suppress(LogosError, OSError, ValueError):
            fitting = (value for value in complete(ctx, incomplete) if value.startswith(incomplete))
            found = dict.fromkeys(filter(_HARMLESS.fullmatch, fitting))
        return [*found]

    return completing


@_quiet
def known_runs(context: Context, incomplete: str) -> Iterator[str]:
    del incomplete
    with _log(context) as log:
        yield from reversed(log.runs())


@_quiet
def known_turns(context: Context, incomplete: str) -> Iterator[str]:
    """The turns of the run that stands before."""
    del incomplete
    with _log(context) as log:
        yield from _turns(log, context.params.get("run"))


@_quiet
def known_runs_and_turns(context: Context, incomplete: str) -> Iterator[str]:
    """Runs, and the turns of the newest one."""
    del incomplete
    with _log(context) as log:
        yield from reversed(log.runs())
        yield from _turns(log, None)


def _turns(log: Log, run: str | None) -> Iterator[str]:
    return (record.event.turn for record in log.read(find_run(log, run)) if isinstance(record.event, TurnAsked))


def _ended(log: Log, run: str | None) -> Iterator[tuple[int, str]]:
    """The number of each event that ended a turn, and the turn; the newest first."""
    records = [*log.read(find_run(log, run))]
    return ((record.seq, record.event.turn) for record in reversed(records) if isinstance(record.event, TurnEnded))


def _named(incomplete: str, ended: Iterator[tuple[int, str]]) -> Iterator[str]:
    return (str(seq) if incomplete.isdecimal() else turn for seq, turn in ended)


@_quiet
def known_checkpoints(context: Context, incomplete: str) -> Iterator[str]:
    """Turns and event numbers of the newest run, or of the run before the `@`; and runs."""
    run, at, _ = incomplete.partition("@")
    with _log(context) as log:
        if at:
            yield from (f"{run}@{turn}" for _, turn in _ended(log, run))
        else:
            yield from chain(_named(incomplete, _ended(log, None)), reversed(log.runs()))


@_quiet
def known_events(context: Context, incomplete: str) -> Iterator[str]:
    """Turns and event numbers of the run that stands before, or of the newest."""
    with _log(context) as log:
        yield from _named(incomplete, _ended(log, context.params.get("run")))


@_quiet
def known_settings(context: Context, incomplete: str) -> Iterator[str]:
    """Keys of settings; those that exist per role, level or provider are completed after their first part."""
    del context
    from logos.app.setting_sources import LEAVES, keys_per_name  # noqa: PLC0415 - only these completions need it

    yield from (f"{leaf.key}=" for leaf in LEAVES)
    if incomplete.startswith(_PER_NAME):
        yield from (f"{key}=" for key in keys_per_name())
    else:
        yield from _PER_NAME
