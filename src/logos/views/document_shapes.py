"""The shapes of the documents that commands print with `--json`, each field described, and their JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode
from typing_extensions import TypedDict

# Raised when a field is removed or changes its meaning; new fields may come at any time.
VERSION = 1
Version = Annotated[int, "version of these documents; fields may be added without a new version"]
RunName = Annotated[str, "id of the run"]
Instant = Annotated[str, "ISO 8601, UTC"]


class UsageDocument(TypedDict):
    """Tokens and cost. null is unknown, never zero."""

    input: Annotated[int | None, "input tokens, cached ones included"]
    cached: Annotated[int | None, "cached input tokens"]
    output: Annotated[int | None, "output tokens"]
    tokens: Annotated[int | None, "input and output tokens together"]
    cost_usd: Annotated[float | None, "US dollars"]


class SpentDocument(UsageDocument):
    """Usage of several turns: the sum of what is known."""

    turns: Annotated[int, "turns that ended, answered or failed"]
    tokens_unknown_turns: Annotated[int, "turns of which some tokens are unknown"]
    cost_unknown_turns: Annotated[int, "turns of which some cost is unknown"]


class TurnDocument(TypedDict):
    """One turn of an agent, or a step of Logos itself (agent `logos`): a check, a gathering, a merge."""

    turn: Annotated[str, "id of the turn"]
    agent: Annotated[str, "the role; in a build the level and component; `logos` for Logos itself"]
    level: Annotated[str | None, "level of the agent, in a build"]
    kind: Annotated[str | None, "what the agent was asked for, in a build: decompose, author, validate …"]
    component: Annotated[str | None, "component of an author, in a build"]
    asked_at: Annotated[str, "ISO 8601, UTC"]
    answered_at: Annotated[str | None, "ISO 8601, UTC; null while it is not answered"]
    seconds: Annotated[float | None, "from asking to the response; null while it is not answered"]
    verdict: Annotated[str | None, "what the response decides, in a few words"]
    failure: Annotated[str | None, "why the last attempt failed"]
    inherited: Annotated[bool, "answered in the run that this one was forked from"]
    prompt_characters: Annotated[int, "length of the prompt"]
    response_characters: Annotated[int, "length of the response, 0 while there is none"]
    usage: Annotated[UsageDocument | None, "of all attempts; null if the agent CLI reports none"]


class InFlightDocument(TurnDocument):
    """A turn that an agent works on now."""

    terminal: Annotated[str | None, "id of the agent's terminal"]
    waits_for_you: Annotated[str | None, "a permission prompt that the agent shows"]
    rests: Annotated[str | None, "the provider's error or limit that the agent waits out"]


class TurnTextDocument(TurnDocument):
    """`logos show RUN TURN`: one turn with its texts."""

    version: Version
    run: RunName
    prompt: Annotated[str, "as sent; secrets are redacted"]
    response: Annotated[str, "as received; secrets are redacted"]


class SessionDocument(TypedDict):
    """The events of one driver."""

    run: RunName
    session: Annotated[int, "number of the session in its run"]
    began_at: Instant
    ended_at: Annotated[str, "the driver's last event, ISO 8601, UTC"]
    seconds: Annotated[float, "from the driver's first to its last event"]
    first: Annotated[int, "number of its first event"]
    last: Annotated[int, "number of its last event, which is a checkpoint"]
    turns: Annotated[int, "turns answered"]
    checks: Annotated[int, "commands that Logos ran itself"]
    ended: Annotated[str, "how it ended: an outcome, why the driver left, killed, not driven, at work"]
    inherited: Annotated[bool, "belongs to the run that this one was forked from"]


class LevelChangeDocument(TypedDict):
    """What a proposal changes at one level."""

    level: Annotated[str, "L1 to L9"]
    change: Annotated[str, "what would change there"]


class OptionDocument(TypedDict):
    """A proposal to choose from."""

    number: Annotated[int, "for `logos resolve NUMBER`"]
    summary: Annotated[str, "the proposal in a line"]
    changes: Annotated[list[LevelChangeDocument], "what it changes at which level"]
    rework: Annotated[list[str], "components to build again"]


class QuestionDocument(TypedDict):
    """What a person must decide before the run continues."""

    id: Annotated[str, "id of the question"]
    text: Annotated[str, "the question"]
    options: Annotated[list[OptionDocument], "proposals to choose from; a person may also answer in words"]
    objections: Annotated[list[str], "of levels, to the options"]


class RunDocument(TypedDict):
    """A run or build."""

    version: Version
    run: RunName
    flow: Annotated[str, "cycle (`logos run`) or levels (`logos build`)"]
    wd: Annotated[str, "work dir"]
    asked_for: Annotated[str, "first line of the request"]
    status: Annotated[str, "the outcome, or RUNNING, WAITING FOR YOU (an agent shows a prompt), STOPPED (no driver)"]
    outcome: Annotated[str | None, "PASSED, FAILED, REJECTED, BLOCKED or ABANDONED; null while it can continue"]
    reason: Annotated[str, "why the run has this outcome; empty without one"]
    stalled: Annotated[str | None, "the agent's failure that stopped the run"]
    stopped_because: Annotated[str | None, "why the last driver left; null with an outcome or a driver"]
    driver_pid: Annotated[int | None, "process that drives the run now"]
    question: Annotated[QuestionDocument | None, "what a person must decide (`logos resolve`)"]
    simulated: Annotated[bool, "its agents follow a script"]
    damage: Annotated[str | None, "what of its log cannot be read; everything else comes from the part before"]
    forked_from: Annotated[str | None, "id of the run that it was forked from"]
    forked_at: Annotated[int | None, "event of that run at which it was forked"]
    forked_by: Annotated[str | None, "fork or rollback"]
    started_at: Annotated[str, "its first event, or its fork, ISO 8601, UTC"]
    last_event_at: Instant
    last_event: Annotated[int, "number of its last event"]
    seconds: Annotated[float, "from the start to the last event"]
    seconds_driven: Annotated[float, "of these, with a driver attached"]
    rounds: Annotated[int, "rounds begun; in a build, sweeps"]
    phase: Annotated[str, "phase of the round; in a build, stage of the sweep"]
    role: Annotated[str, "role whose turn it is; in a build, the level"]
    cycle: Annotated[int | None, "review cycle of the phase; in a build, round of the reconciliation"]
    turns: Annotated[int, "turns answered in this run"]
    inherited_turns: Annotated[int, "turns answered in the run that it was forked from"]
    characters: Annotated[int, "characters of all prompts sent"]
    usage: Annotated[SpentDocument, "tokens and cost"]
    sessions: Annotated[list[SessionDocument], "oldest first, inherited ones included"]
    branch: Annotated[str | None, "git branch with the merged work of a build"]
    reconciliations: Annotated[int, "reconciliations settled, in a build"]
    unproven: Annotated[list[str], "levels of a passed build that no tool proves"]
    violation: Annotated[str | None, "what of the purpose a rejected request violates"]
    alternatives: Annotated[list[str], "to a rejected request"]


class ResultDocument(RunDocument):
    """`logos run`, `logos build`, `logos resume`: the run that has ended."""

    exit_code: Annotated[int, "exit code of the command"]
    state_file: Annotated[str, "path of the state file"]


class StatusDocument(RunDocument):
    """`logos status`."""

    in_flight: Annotated[list[InFlightDocument], "turns that agents work on"]
    next: Annotated[str, "the command to use next"]


class NoRunDocument(TypedDict):
    """`logos status` where nothing was run yet."""

    version: Version
    run: Annotated[None, "null"]
    wd: Annotated[str, "work dir"]
    next: Annotated[str, "the command to use next"]


class TimelineDocument(RunDocument):
    """`logos show RUN`."""

    timeline: Annotated[list[TurnDocument], "in the order in which they were asked"]


class CostDocument(RunDocument):
    """`logos cost`."""

    usage_by: Annotated[
        dict[str, dict[str, SpentDocument]], "by roles, phases and rounds; in a build by levels, kinds and sweeps"
    ]


class SessionRowDocument(SessionDocument):
    """A session in a list of the sessions of several runs."""

    flow: Annotated[str, "cycle (`logos run`) or levels (`logos build`)"]
    wd: Annotated[str, "work dir"]
    driver_pid: Annotated[int | None, "process that drives it now"]
    forked_from: Annotated[str | None, "id of the run that it was forked from, if it began with a fork"]
    forked_at: Annotated[int | None, "event of that run at which it was forked"]
    forked_by: Annotated[str | None, "fork or rollback"]
    given_up: Annotated[str | None, "why the run was given up after it"]
    damage: Annotated[str | None, "what of the log cannot be read"]


class UnreadableDocument(TypedDict):
    """A log, or one run of it, that cannot be read."""

    wd: Annotated[str, "work dir"]
    run: Annotated[str | None, "id of the run; null if the whole log cannot be read"]
    why: Annotated[str, "what is wrong with it"]


class RunsDocument(TypedDict):
    """`logos runs`."""

    version: Version
    wd: Annotated[str, "work dir"]
    runs: Annotated[list[RunDocument], "oldest first"]
    unreadable: Annotated[list[UnreadableDocument], "runs that cannot be read at all"]


class SessionsDocument(TypedDict):
    """`logos sessions`."""

    version: Version
    wd: Annotated[str, "work dir"]
    sessions: Annotated[list[SessionRowDocument], "of all runs, oldest first"]
    unreadable: Annotated[list[UnreadableDocument], "logs and runs that cannot be read"]


class ComparedRunDocument(RunDocument):
    """One of two runs that are compared."""

    files_changed: Annotated[int | None, "files changed since the last common event; null if no files were kept"]
    commit: Annotated[str | None, "checkpoint of its files at the end"]


class CommonDocument(TypedDict):
    """The last event that two runs have in common."""

    run: RunName
    event: Annotated[int, "number of the event"]
    commit: Annotated[str | None, "checkpoint of the files then"]


class FileDocument(TypedDict):
    """A file that differs."""

    path: Annotated[str, "path of a changed file"]
    added: Annotated[int | None, "lines added; null for a binary file"]
    deleted: Annotated[int | None, "lines deleted; null for a binary file"]


class CompareDocument(TypedDict):
    """`logos compare`."""

    version: Version
    runs: Annotated[list[ComparedRunDocument], "the two runs"]
    common: Annotated[CommonDocument | None, "null if they share no event"]
    files: Annotated[list[FileDocument] | None, "differences between the files at their ends"]
    patch: Annotated[str | None, "the same as a patch, with --patch"]
    not_comparable: Annotated[list[str], "what could not be compared, and why"]


class EventsDocument(TypedDict):
    """`logos log`. With `--follow` each event is a line of its own."""

    version: Version
    run: RunName
    events: Annotated[list[dict[str, Any]], "run, seq (its number), at, kind, and the fields of its kind"]


class SpanDocument(TurnDocument):
    """A turn over the sessions of a run."""

    asked_in_session: Annotated[int, "number of the session"]
    answered_in_session: Annotated[int | None, "null while it is not answered"]
    seconds_driven: Annotated[float, "with a driver attached"]


class EntryDocument(TypedDict):
    """One line of a report."""

    part: Annotated[str, "what the line belongs to: a round, a sweep, spec, component, validation, check …"]
    what: Annotated[str, "the thing"]
    how: Annotated[str, "its state, or what happened to it"]
    about: Annotated[str | None, "more about it"]
    turn: Annotated[str | None, "id of the turn that it comes from"]
    at: Annotated[str | None, "ISO 8601, UTC"]
    session: Annotated[int | None, "number of the session that it comes from"]
    inherited: Annotated[bool, "comes from the run that this one was forked from"]


class SinceDocument(TypedDict):
    """The session from which on things count as new."""

    session: Annotated[int, "number of the session"]
    began_at: Instant


class ChangedDocument(TypedDict):
    """What happened since the beginning of a session."""

    outcomes: Annotated[list[EntryDocument], "outcomes of the run"]
    completed: Annotated[list[EntryDocument], "phases, specs, components and levels that are done"]
    timeline: Annotated[list[SpanDocument], "turns answered since"]
    checks: Annotated[list[EntryDocument], "commands that Logos ran itself"]
    merges: Annotated[list[EntryDocument], "merges, in a build"]
    specs: Annotated[list[EntryDocument], "specs written or revised, in a build"]
    decisions: Annotated[list[EntryDocument], "reconciliations, answers of a person, overruled verdicts"]
    settings: Annotated[list[EntryDocument], "settings that a new driver changed"]
    files: Annotated[list[str], "lines of `git diff --stat`"]


class EffortRowDocument(TypedDict):
    """What one role or level took."""

    name: Annotated[str, "the role or level"]
    turns: Annotated[int, "turns answered"]
    seconds: Annotated[float, "time its turns were in flight with a driver attached"]
    characters_sent: Annotated[int, "characters of prompts"]
    characters_received: Annotated[int, "characters of responses"]
    usage: Annotated[SpentDocument, "tokens and cost"]


class EffortDocument(TypedDict):
    """Time and usage per role or level."""

    by: Annotated[str, "role or level"]
    rows: Annotated[list[EffortRowDocument], "roles or levels in their order"]
    total: Annotated[EffortRowDocument, "all agents; steps of Logos itself are not counted"]


class ReportDocument(RunDocument):
    """`logos report`."""

    next: Annotated[str, "the command to use next"]
    in_flight: Annotated[list[SpanDocument], "turns that agents work on"]
    completed: Annotated[list[EntryDocument], "phases, specs, components and levels that are done"]
    pending: Annotated[list[EntryDocument], "reviews, tests and levels that the run still needs"]
    blocked: Annotated[list[EntryDocument], "what cannot continue, and what it waits for"]
    decisions: Annotated[list[EntryDocument], "reconciliations, answers of a person, overruled verdicts"]
    since: Annotated[SinceDocument, "the session from which on `changed` counts"]
    changed: Annotated[ChangedDocument, "what happened since"]
    effort: Annotated[EffortDocument, "time and usage per role or level"]


DOCUMENTS: dict[str, Any] = {
    "logos run, build, resume": ResultDocument,
    "logos status": StatusDocument,
    "logos status, before the first run": NoRunDocument,
    "logos runs": RunsDocument,
    "logos show RUN": TimelineDocument,
    "logos show RUN TURN": TurnTextDocument,
    "logos log": EventsDocument,
    "logos cost": CostDocument,
    "logos report": ReportDocument,
    "logos sessions": SessionsDocument,
    "logos compare": CompareDocument,
}

_MODE: JsonSchemaMode = "serialization"


def output_schema() -> dict[str, Any]:
    """One definition per document; `anyOf` says which command prints which."""
    inputs: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (command, _MODE, TypeAdapter(shape)) for command, shape in DOCUMENTS.items()
    ]
    refs, schema = TypeAdapter.json_schemas(inputs)
    definitions: dict[str, Any] = schema["$defs"]
    for name, definition in definitions.items():
        for field, text in _descriptions(name).items():
            definition["properties"][field]["description"] = text
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Logos output",
        "description": "The documents that commands print with --json. Fields may be added without a new version.",
        "anyOf": [{"title": command, **refs[command, _MODE]} for command in DOCUMENTS],
        "$defs": definitions,
    }


def _descriptions(name: str) -> dict[str, str]:
    """The texts that annotate the fields of a document."""
    hints = get_type_hints(globals()[name], include_extras=True)
    return {field: hint.__metadata__[0] for field, hint in hints.items() if hasattr(hint, "__metadata__")}
