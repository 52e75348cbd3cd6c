"""The documents that commands print with `--json`: each field is described, and says where its value comes from."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from logos.domain.usage import Usage
from logos.views.status import Activity, RunStatus, Unreadable

# Raised when a field is removed or changes its meaning; new fields may come at any time.
VERSION = 1


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


Instant = Annotated[str, BeforeValidator(iso)]
InstantOrNull = Annotated[str | None, BeforeValidator(lambda at: None if at is None else iso(at))]
Seconds = Annotated[float, BeforeValidator(lambda seconds: round(seconds, 3))]
SecondsOrNull = Annotated[float | None, BeforeValidator(lambda seconds: None if seconds is None else round(seconds, 3))]
# Without the rounding errors of a sum.
Dollars = Annotated[float | None, BeforeValidator(lambda cost: None if cost is None else round(cost, 6))]
Length = Annotated[int, BeforeValidator(len)]
Path = Annotated[str, BeforeValidator(str)]
NonEmpty = Annotated[str | None, BeforeValidator(lambda text: text or None)]
LevelName = Annotated[str, BeforeValidator(lambda level: level.name)]


def shown(about: str = "", source: str = "", within: str = "", **default: Any) -> Any:
    """A field and the attribute it is read from, also through others: `view.run`; by default the one of its name.

    The attribute may also belong to the attribute `within` of what is shown.
    """
    paths = [path.split(".") for path in (f"{within}.{source}" if within else "", source) if path]
    steps = [(first, *(int(step) if step.lstrip("-").isdecimal() else step for step in rest)) for first, *rest in paths]
    alias = AliasChoices(*(AliasPath(*path) for path in steps)) if steps else None
    return Field(validation_alias=alias, description=about or None, **default)


_version = partial(shown, "version of these documents; fields may be added without a new version", default=VERSION)
_run = partial(shown, "id of the run")
_usage = partial(shown, within="usage")
_turn = partial(shown, within="view")
_session = partial(shown, within="session")


class Document(BaseModel):
    # Fields with a default are printed like the others. Most commands need few of the documents.
    model_config = ConfigDict(from_attributes=True, json_schema_serialization_defaults_required=True, defer_build=True)

    @classmethod
    def of(cls, source: object) -> dict[str, Any]:
        """The document of an object, by its attributes."""
        return cls.model_validate(source).model_dump(mode="json")


class UsageDocument(Document):
    """Tokens and cost. null is unknown, never zero."""

    input: int | None = _usage("input tokens, cached ones included", "input")
    cached: int | None = _usage("cached input tokens", "cached")
    output: int | None = _usage("output tokens", "output")
    tokens: int | None = _usage("input and output tokens together", "tokens")
    cost_usd: Dollars = _usage("US dollars", "cost_usd")
    estimated: bool = _usage("cost_usd is, or contains, an estimate from tokens and the setting `prices`", "estimated")
    premium_requests: float | None = _usage("what a plan is charged for that counts no tokens", "premium_requests")


KnownUsage = Annotated[UsageDocument | None, BeforeValidator(lambda usage: None if usage == Usage() else usage)]


class SpentDocument(UsageDocument):
    """Usage of several turns: the sum of what is known."""

    turns: int = shown("turns that ended, answered or failed")
    tokens_unknown_turns: int = shown("turns of which some tokens are unknown", "tokens_unknown")
    cost_unknown_turns: int = shown("turns of which some cost is unknown", "cost_unknown")


class TurnDocument(Document):
    """One turn of an agent, or a step of Logos itself (agent `logos`): a check, a gathering, a merge."""

    turn: str = _turn("id of the turn", "turn")
    agent: str = _turn("the role; in a build the level and component; `logos` for Logos itself", "agent")
    level: str | None = _turn("level of the agent, in a build", "in_build.level.name", default=None)
    kind: str | None = _turn(
        "what the agent was asked for, in a build: decompose, author, validate …", "in_build.kind", default=None
    )
    component: NonEmpty = _turn("component of an author, in a build", "in_build.component", default=None)
    asked_at: Instant = _turn("ISO 8601, UTC", "asked")
    answered_at: InstantOrNull = _turn("ISO 8601, UTC; null while it is not answered", "ended")
    seconds: SecondsOrNull = _turn("from asking to the response; null while it is not answered", "seconds")
    verdict: NonEmpty = _turn("what the response decides, in a few words", "verdict")
    failure: NonEmpty = _turn("why the last attempt failed", "failure")
    inherited: bool = _turn("answered in the run that this one was forked from", "inherited")
    prompt_characters: Length = _turn("length of the prompt", "prompt")
    response_characters: Length = _turn("length of the response, 0 while there is none", "response")
    usage: KnownUsage = _turn("of all attempts; null if the agent CLI reports none", "usage")


class InFlightDocument(TurnDocument):
    """A turn that an agent works on now."""

    terminal: str | None = shown("id of the agent's terminal", default=None)
    waits_for_you: NonEmpty = shown("a permission prompt that the agent shows", "waits")
    rests: NonEmpty = shown("the provider's error or limit that the agent waits out")
    running: bool | None = shown("whether its process runs; null for agents on a server", default=None)
    last_step: NonEmpty = shown("what it did last, if its agent CLI tells; null for agents on a server", default=None)


class TranscriptStepDocument(Document):
    """What an agent did within a turn."""

    kind: str = shown("message, call (of a tool), result (of a call), retry (its client tries again) or refused")
    text: str = shown("at most 2000 characters; secrets are redacted")


class TurnTextDocument(TurnDocument):
    """`logos show RUN TURN`: one turn with its texts."""

    version: int = _version()
    run: str = _run()
    prompt: str = shown("as sent; secrets are redacted")
    response: str = shown("as received; secrets are redacted")
    steps: list[TranscriptStepDocument] | None = shown("what the agent did, with --transcript; else null", default=None)


class SessionDocument(Document):
    """The events of one driver."""

    run: str = _run()
    session: int = _session("number of the session in its run", "number")
    began_at: Instant = _session("ISO 8601, UTC", "began")
    ended_at: Instant = _session("the driver's last event, ISO 8601, UTC", "ended")
    seconds: Seconds = _session(
        "from the driver's first to its last event, without the time in which an open gate waited", "seconds"
    )
    seconds_waited: Seconds = _session("in which an open gate waited; not part of seconds", "waited")
    first: int = _session("number of its first event", "first")
    last: int = _session("number of its last event, which is a checkpoint", "last")
    turns: Length = _session("turns answered", "answered")
    checks: Length = _session("commands that Logos ran itself", "checked")
    ended: str = _session("how it ended: an outcome, why the driver left, killed, not driven, at work", "end")
    inherited: bool = _session("belongs to the run that this one was forked from", "inherited")


class LevelChangeDocument(Document):
    """What a proposal changes at one level."""

    level: LevelName = shown("L1 to L9")
    change: str = shown("what would change there")


class OptionDocument(Document):
    """A proposal to choose from."""

    number: int = shown("for `logos resolve NUMBER`")
    summary: str = shown("the proposal in a line")
    changes: list[LevelChangeDocument] = shown("what it changes at which level")
    rework: list[str] = shown("components to build again")


_NUMBERED = BeforeValidator(lambda options: [{"number": n, **asdict(option)} for n, option in enumerate(options, 1)])
Options = Annotated[list[OptionDocument], _NUMBERED]


class QuestionDocument(Document):
    """What a person must decide before the run continues."""

    id: str = shown("id of the question")
    text: str = shown("the question")
    options: Options = shown("proposals to choose from; a person may also answer in words")
    objections: list[str] = shown("of levels, to the options")
    evidence: str = shown("what led to it: commands that Logos ran, exit codes, the end of their output")


class WaitingDocument(Document):
    """What waits for a person."""

    kind: str = shown("gate (`logos approve`, `logos reject`), permission (the same), or question (`logos resolve`)")
    id: str = shown("id of the gate, of the turn whose agent shows a prompt, or of the question")
    text: str = shown("what is asked")
    options: list[str] = shown("approve and reject; of a question, the proposals, in the order of their numbers")
    since: Instant = shown("ISO 8601, UTC")


class FindingDocument(Document):
    """What a reviewer or a test has found."""

    id: str = shown("the same whenever it is raised again")
    text: str = shown("its beginning; a test by its id")
    raised_by: str = shown("role that raised it first; `logos` for tests that Logos ran itself")
    state: str = shown("new, open, settled, or raised again (it had been settled)")
    first_turn: str = shown("turn that raised it first", "first")
    last_turn: str = shown("turn that raised it last", "last")
    first_at: InstantOrNull = shown("end of that turn, ISO 8601, UTC")
    last_at: InstantOrNull = shown("end of that turn, ISO 8601, UTC")


class RunDocument(Document):
    """A run or build."""

    version: int = _version()
    run: str = _run("view.run")
    flow: str = shown("cycle (`logos run`) or levels (`logos build`)", "view.plan.flow")
    wd: Path = shown("work dir", "work_dir")
    asked_for: str = shown("first line of the request", "view.asked_for")
    status: str = shown(
        "the outcome, or RUNNING, WAITING FOR YOU (an open gate, or an agent's prompt), STOPPED (no driver)", "word"
    )
    outcome: str | None = shown(
        "PASSED, FAILED, REJECTED, BLOCKED or ABANDONED; null while it can continue", "view.outcome"
    )
    verified: bool = shown("whether Logos ran the tests itself before it accepted the PASS", "view.state.verified")
    reason: str = shown("why the run has this outcome; empty without one", "view.reason")
    stalled: str | None = shown("the agent's failure that stopped the run", "view.state.stalled")
    stopped_because: NonEmpty = shown("why the last driver left; null with an outcome or a driver")
    driver_pid: int | None = shown("process that drives the run now", "driver")
    question: QuestionDocument | None = shown("what a person must decide (`logos resolve`)", "view.question")
    waiting: list[WaitingDocument] = shown("what waits for a person, the oldest first")
    simulated: bool = shown("its agents follow a script", "view.simulated")
    damage: NonEmpty = shown(
        "what of its log cannot be read; everything else comes from the part before", "view.damage"
    )
    forked_from: str | None = shown("id of the run that it was forked from", "view.fork.parent", default=None)
    forked_at: int | None = shown("event of that run at which it was forked", "view.fork.at", default=None)
    forked_by: str | None = shown("fork or rollback", "view.fork.way", default=None)
    started_at: Instant = shown("its first event, or its fork, ISO 8601, UTC", "view.started")
    last_event_at: Instant = shown("ISO 8601, UTC", "view.last")
    last_event: int = shown("number of its last event", "view.records.-1.seq")
    seconds: Seconds = shown("from the start to the last event", "view.seconds")
    seconds_driven: Seconds = shown("of these, with a driver attached and no open gate", "view.driven")
    rounds: int = shown("rounds begun; in a build, sweeps", "view.state.position.round")
    phase: str = shown("phase of the round; in a build, stage of the sweep", "view.state.position.phase")
    role: str = shown("role whose turn it is; in a build, the level", "view.state.position.agent")
    cycle: int | None = shown(
        "review cycle of the phase; in a build, round of the reconciliation", "view.state.position.cycle"
    )
    turns: int = shown("turns answered in this run", "view.answered")
    inherited_turns: int = shown("turns answered in the run that it was forked from", "view.inherited")
    characters: int = shown("characters of all prompts sent", "view.characters")
    usage: SpentDocument = shown("tokens and cost", "view.bill")
    sessions: list[SessionDocument] = shown("oldest first, inherited ones included", "view.sessions")
    findings: list[FindingDocument] = shown(
        "what reviewers and tests found, at most 100: those that stand, then the settled ones", "view.findings"
    )
    unapproved: list[str] = shown("phases that the run went on from without an approval, in words")
    branch: NonEmpty = shown("git branch with the merged work of a build", "view.branch")
    reconciliations: Length = shown("reconciliations settled, in a build", "view.build.reconciled", default=0)
    unproven: list[str] = shown("levels of a passed build that no tool proves", "view.unproven")
    violation: NonEmpty = shown("what of the purpose a rejected request violates", "view.build.violation", default=None)
    alternatives: list[str] = shown("to a rejected request", "view.build.alternatives", default=[])


class ResultDocument(RunDocument):
    """`logos run`, `logos build`, `logos resume`: the run that has ended."""

    exit_code: int = shown("exit code of the command")
    state_file: str = shown("path of the state file")
    head: str = shown("short hash that stands for every event of the run")


class StatusDocument(RunDocument):
    """`logos status`."""

    in_flight: list[InFlightDocument] = shown("turns that agents work on")
    next: str = shown("the command to use next")


class NoRunDocument(Document):
    """`logos status` where nothing was run yet."""

    version: int = _version()
    run: None = shown("null")
    wd: str = shown("work dir")
    next: str = shown("the command to use next")


class TimelineDocument(RunDocument):
    """`logos show RUN`."""

    timeline: list[TurnDocument] = shown("in the order in which they were asked", "view.turns")


class CostDocument(RunDocument):
    """`logos cost`."""

    usage_by: dict[str, dict[str, SpentDocument]] = shown(
        "by roles, phases and rounds; in a build by levels, kinds and sweeps"
    )


class SessionRowDocument(SessionDocument):
    """A session in a list of the sessions of several runs."""

    ended: str = shown("how it ended: an outcome, why the driver left, killed, not driven, at work", "ending")
    flow: str = shown("cycle (`logos run`) or levels (`logos build`)")
    wd: Path = shown("work dir", "place")
    driver_pid: int | None = shown("process that drives it now", "driver")
    forked_from: str | None = shown(
        "id of the run that it was forked from, if it began with a fork", "session.forked.parent", default=None
    )
    forked_at: int | None = shown("event of that run at which it was forked", "session.forked.at", default=None)
    forked_by: str | None = shown("fork or rollback", "session.forked.way", default=None)
    given_up: NonEmpty = shown("why the run was given up after it", "session.given_up")
    damage: NonEmpty = shown("what of the log cannot be read")


class UnreadableDocument(Document):
    """A log, or one run of it, that cannot be read."""

    wd: Path = shown("work dir", "place")
    run: str | None = shown("id of the run; null if the whole log cannot be read")
    why: str = shown("what is wrong with it")


class RunsDocument(Document):
    """`logos runs`."""

    version: int = _version()
    wd: str = shown("work dir")
    runs: list[RunDocument] = shown("oldest first")
    unreadable: list[UnreadableDocument] = shown("runs that cannot be read at all")


class SessionsDocument(Document):
    """`logos sessions`."""

    version: int = _version()
    wd: Path = shown("work dir", "place")
    sessions: list[SessionRowDocument] = shown("of all runs, oldest first", "rows")
    unreadable: list[UnreadableDocument] = shown("logs and runs that cannot be read")


class ComparedRunDocument(RunDocument):
    """One of two runs that are compared."""

    files_changed: int | None = shown("files changed since the last common event; null if no files were kept")
    commit: str | None = shown("checkpoint of its files at the end")


class CommonDocument(Document):
    """The last event that two runs have in common."""

    run: str = _run()
    event: int = shown("number of the event")
    commit: str | None = shown("checkpoint of the files then")


class FileDocument(Document):
    """A file that differs."""

    path: str = shown("path of a changed file")
    added: int | None = shown("lines added; null for a binary file")
    deleted: int | None = shown("lines deleted; null for a binary file")


class CompareDocument(Document):
    """`logos compare`."""

    version: int = _version()
    runs: list[ComparedRunDocument] = shown("the two runs")
    common: CommonDocument | None = shown("null if they share no event")
    files: list[FileDocument] | None = shown("differences between the files at their ends")
    patch: str | None = shown("the same as a patch, with --patch")
    not_comparable: list[str] = shown("what could not be compared, and why")


class EventsDocument(Document):
    """`logos log`. With `--follow` each event is a line of its own."""

    version: int = _version()
    run: str = _run()
    events: list[dict[str, Any]] = shown("run, seq (its number), at, kind, and the fields of its kind")


class SpanDocument(TurnDocument):
    """A turn over the sessions of a run."""

    asked_in_session: int = shown("number of the session", "begun.0")
    answered_in_session: int | None = shown("null while it is not answered", "answered_in")
    seconds_driven: Seconds = shown("with a driver attached", "seconds")


class EntryDocument(Document):
    """One line of a report."""

    part: str = shown("what the line belongs to: a round, a sweep, spec, component, validation, check …")
    what: str = shown("the thing")
    how: str = shown("its state, or what happened to it")
    about: NonEmpty = shown("more about it")
    turn: NonEmpty = shown("id of the turn that it comes from")
    at: InstantOrNull = shown("ISO 8601, UTC")
    session: int | None = shown("number of the session that it comes from")
    inherited: bool = shown("comes from the run that this one was forked from")


Entries = list[EntryDocument]


class SinceDocument(Document):
    """The session from which on things count as new."""

    session: int = shown("number of the session", "number")
    began_at: Instant = shown("ISO 8601, UTC", "began")


class ChangedDocument(Document):
    """What happened since the beginning of a session."""

    outcomes: Entries = shown("outcomes of the run", "sections.outcomes")
    completed: Entries = shown("phases, specs, components and levels that are done", "sections.completed")
    timeline: list[SpanDocument] = shown("turns answered since", "turns")
    checks: Entries = shown("commands that Logos ran itself", "sections.checks")
    merges: Entries = shown("merges, in a build", "sections.merges")
    specs: Entries = shown("specs written or revised, in a build", "sections.specs")
    decisions: Entries = shown("reconciliations, answers of a person, overruled verdicts", "sections.decisions")
    settings: Entries = shown("settings that a new driver changed", "sections.settings")
    files: list[str] = shown("lines of `git diff --stat`")


class EffortRowDocument(Document):
    """What one role or level took."""

    name: str = shown("the role or level")
    turns: int = shown("turns answered")
    seconds: Seconds = shown("time its turns were in flight with a driver attached")
    characters_sent: int = shown("characters of prompts", "sent")
    characters_received: int = shown("characters of responses", "received")
    usage: SpentDocument = shown("tokens and cost", "bill")


class EffortDocument(Document):
    """Time and usage per role or level."""

    by: str = shown("role or level", "view.words.group")
    rows: list[EffortRowDocument] = shown("roles or levels in their order", "efforts")
    total: EffortRowDocument = shown("all agents; steps of Logos itself are not counted")


class ReportParts(Document):
    """What a report says besides where the run stands."""

    next: str = shown("the command to use next")
    in_flight: list[SpanDocument] = shown("turns that agents work on")
    completed: Entries = shown("phases, specs, components and levels that are done", "sections.completed")
    pending: Entries = shown("reviews, tests and levels that the run still needs", "sections.pending")
    blocked: Entries = shown("what cannot continue, and what it waits for", "sections.blocked")
    decisions: Entries = shown("reconciliations, answers of a person, overruled verdicts", "sections.decisions")
    since: SinceDocument = shown("the session from which on `changed` counts")
    changed: ChangedDocument = shown("what happened since")


class ReportDocument(ReportParts, RunDocument):
    """`logos report`."""

    effort: EffortDocument = shown("time and usage per role or level")


def status_document(status: RunStatus, next_command: str, does: Mapping[str, Activity]) -> dict[str, Any]:
    terminals = ((turn, status.terminal_of(turn), does.get(turn.turn)) for turn in status.in_flight)
    in_flight = [
        InFlightDocument.of(turn)
        | {"terminal": held.id if held else None}
        | ({"running": own.running, "last_step": own.last or None} if own else {})
        for turn, held, own in terminals
    ]
    return {**RunDocument.of(status), "in_flight": in_flight, "next": next_command}


def runs_document(wd: str, runs: Sequence[RunStatus | Unreadable]) -> dict[str, Any]:
    unreadable = [UnreadableDocument.of(run) for run in runs if isinstance(run, Unreadable)]
    listed = [RunDocument.of(run) for run in runs if isinstance(run, RunStatus)]
    return {"version": VERSION, "wd": wd, "runs": listed, "unreadable": unreadable}
