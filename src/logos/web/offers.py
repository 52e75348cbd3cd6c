"""The verbs that fit a run now, each with what it will do: the page asks before those that destroy or restart."""

from collections.abc import Iterator
from dataclasses import dataclass

from logos.app.moments import Moment
from logos.flows.fold import UNFINISHED
from logos.views.waiting import Waiting, WaitingKind


@dataclass(frozen=True, slots=True)
class Offer:
    """`asks`: the page asks first, with `will`. `words`: the verb takes a person's words; `needed`: not without them.

    `gate` is the id of what is decided, for the body of the request.
    """

    verb: str
    label: str
    will: str
    asks: bool = False
    words: bool = False
    needed: bool = False
    gate: str = ""


def offers_of(moment: Moment) -> tuple[Offer, ...]:
    """Every verb that fits a run at a moment; of the past only those that start another run from it."""
    return (*(offer for waiting in _waits(moment) for offer in _decisions(waiting)), *verbs_of(moment))


def verbs_of(moment: Moment) -> tuple[Offer, ...]:
    """The same without decisions: the page has those beside what waits."""
    view, driver = moment.view, moment.status.driver
    open_now, whole = moment.is_now and view.outcome in UNFINISHED, not view.damage
    idle = open_now and driver is None
    table = (
        (open_now and view.question is None, _TELL),
        (open_now and driver is not None, _STOP),
        (idle and not _waits(moment), _RESUME),
        (whole and view.outcome in UNFINISHED, _fork(moment)),
        (whole and not driver, _rollback(moment)),
        (idle, _ABANDON),
    )
    return tuple(offer for fits, offer in table if fits)


def _waits(moment: Moment) -> tuple[Waiting, ...]:
    return moment.status.waiting if moment.is_now else ()


_TELL = Offer("tell", "Tell", "The named agent, or the next one, reads your words with its next prompt.", words=True)
_STOP = Offer("stop", "Stop", "The driver ends in order; the run can be resumed.", asks=True)
_RESUME = Offer("resume", "Resume", "A driver starts in the background and continues at the exact turn.")
_ABANDON = Offer("abandon", "Give up", "The run ends as ABANDONED. Its log, checkpoints and work are kept.", asks=True)


def _decisions(waiting: Waiting) -> Iterator[Offer]:
    match waiting.kind:
        case WaitingKind.GATE:
            yield Offer("approve", "Approve", "The run goes on.", gate=waiting.id)
            back = "Your words go back to the author, and what was rejected is done again."
            yield Offer("reject", "Reject", back, words=True, needed=True, gate=waiting.id)
        case WaitingKind.PERMISSION:
            yield Offer("approve", "Allow", "The agent does what it asks for.", gate=waiting.id)
            yield Offer("reject", "Refuse", "The agent is told no, and goes on without.", gate=waiting.id)
        case WaitingKind.QUESTION:
            decided = "The build goes on with your decision: an option's number, words, or both."
            yield Offer("answer", "Answer", decided, words=True, needed=True)


def _fork(moment: Moment) -> Offer:
    will = f"Another run starts from event {moment.seq}, in a worktree of its own; this one stays as it is."
    return Offer("fork", "Fork from here", will, asks=True)


def _rollback(moment: Moment) -> Offer:
    replaced = "the files of the work dir are replaced, and kept as a commit first"
    files = "your files stay as they are" if moment.view.build is not None else replaced
    will = f"The run goes on from event {moment.seq} under a new id; {files}. Nothing of this run is lost."
    return Offer("rollback", "Roll back to here", will, asks=True)
