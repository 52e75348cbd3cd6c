"""What the verbs of the API take: JSON objects with known keys only."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

# A start is given as an argument of a program, which the system limits.
LONGEST_TEXT = 100_000


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class GoOn(Body):
    """A decision after which the run goes on."""

    resume: bool = Field(True, description="start a driver in the background, if none is attached to the run")
    simulate: str | None = Field(None, description="the script of a simulated run, which its driver needs")


class ApproveBody(GoOn):
    """Approve what the run waits for."""

    gate: str | None = Field(None, description="id of what is approved, where several things wait")


class RejectBody(ApproveBody):
    """Reject it; the words go back to the author."""

    words: str = Field("", max_length=LONGEST_TEXT, description="why; needed at a gate")


class AnswerBody(GoOn):
    """Answer the question of a build."""

    words: str = Field(max_length=LONGEST_TEXT, description="an option's number, a decision in plain words, or both")


class TellBody(Body):
    """Guidance for the next prompt of an agent."""

    text: str = Field(max_length=LONGEST_TEXT, description="what to tell")
    agent: str | None = Field(None, description="role, level or component; null: whoever is asked next")


class GrantBody(Body):
    """Answer the permission prompt of an agent."""

    turn: str = Field(description="id of the turn whose agent asks")
    granted: bool = Field(description="whether it may")


class StopBody(Body):
    """End the driver in order."""


class ResumeBody(Body):
    """Continue the run in the background."""

    settings: dict[str, str] = Field(default_factory=dict, description="settings by their keys, as --set takes them")
    recreate: bool = Field(False, description="open new terminals for agents whose terminals are gone")
    simulate: str | None = Field(None, description="the script of a simulated run")


class ForkBody(GoOn):
    """Start another run from an event, in a worktree of its own."""

    at: int | None = Field(None, ge=1, description="number of the event; null: the newest")
    to: str | None = Field(None, description="folder of the worktree; null: beside the work dir")


class RollbackBody(GoOn):
    """Go back to an event, under a new run id."""

    at: int = Field(ge=1, description="number of the event")


class AbandonBody(Body):
    """Give the run up."""

    files: bool = Field(False, description="also restore the files that it started with")


class StartBody(Body):
    """Start a run or a build in a known work dir."""

    wd: str = Field(description="one of the work dirs of GET /api/runs")
    flow: Literal["cycle", "levels"] = Field("cycle", description="`logos run` or `logos build`")
    text: str = Field(max_length=LONGEST_TEXT, description="the task; empty: the prompt of logos.json")
    settings: dict[str, str] = Field(default_factory=dict, description="settings by their keys, as --set takes them")
    fresh: bool = Field(False, description="abandon an unfinished run of the same flow")
    simulate: str | None = Field(None, description="agents follow this script instead of models")
