"""Documents that only the HTTP API answers with; the others are those of the command line, in views."""

from logos.views.document import (
    VERSION,
    Document,
    FileDocument,
    Path,
    RunDocument,
    StatusDocument,
    TurnDocument,
    UnreadableDocument,
    shown,
)


class ErrorDocument(Document):
    """An error, in one line; further lines are hints."""

    error: str = shown("what is wrong, and what to do")
    exit_code: int | None = shown("of the command line for the same error", default=None)


class RunListDocument(Document):
    """Every run of every work dir."""

    version: int = shown("version of these documents", default=VERSION)
    wds: list[str] = shown("the work dirs that are shown")
    runs: list[RunDocument] = shown("those that wait for a person first, then those at work, then the newest")
    unreadable: list[UnreadableDocument] = shown("logs and runs that cannot be read")


class OfferDocument(Document):
    """A verb that fits the run now."""

    verb: str = shown("the last part of its address")
    label: str = shown("what its button says")
    will: str = shown("what it will do")
    asks: bool = shown("whether a person should be asked first")
    words: bool = shown("whether it takes a person's words")
    needed: bool = shown("whether it needs them")
    gate: str = shown("id of what is decided, for the body; empty where the verb decides nothing")


class MomentDocument(StatusDocument):
    """A run at one of its events, by default the newest."""

    at_event: int = shown("the event that everything here is about")
    newest_event: int = shown("number of the newest event")
    verbs: list[OfferDocument] = shown("what a person can do")


class SideDocument(Document):
    """One side of a difference."""

    run: str = shown("id of the run")
    event: int | None = shown("number of the event; null: the files now")
    commit: str | None = shown("commit of its files")
    wd: Path = shown("work dir")
    not_kept: str | None = shown("why its files are not known")


class DiffDocument(Document):
    """What changed between two checkpoints."""

    version: int = shown("version of these documents", default=VERSION)
    one: SideDocument = shown("the first checkpoint")
    other: SideDocument = shown("the second checkpoint")
    timeline: list[TurnDocument] | None = shown("turns that ended between them; null for two runs")
    files: list[FileDocument] | None = shown("files that differ; null where they were not kept")
    patch: str | None = shown("the difference as a patch, at most so long that a page can show it")
    patch_characters: int | None = shown("the whole length of the patch")


class DeliveredDocument(Document):
    """What a verb did."""

    version: int = shown("version of these documents", default=VERSION)
    run: str = shown("id of the run that it acted on, or of the one that it started")
    wd: str = shown("work dir of that run")
    text: str = shown("what was done, in words")
    event: int | None = shown("number of the event that records it", default=None)
    driver_pid: int | None = shown("driver that was started for it", default=None)
    next: str | None = shown("the command to use next", default=None)


class SignedInDocument(Document):
    """An answer to whoever has a session."""

    session: bool = shown("true")


class WriteTokenDocument(Document):
    """A new session: its cookie is in the headers."""

    write_token: str = shown("what writes need in a header besides the cookie")


class LinkDocument(Document):
    """A link that opens one session."""

    path: str = shown("path and fragment; the token is in the fragment")
