"""The sections of a configuration file, and the types of their values."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError
from typing_extensions import Annotated  # noqa: UP035 - the same Annotated as in settings.py

from logos.domain.plans import OnExhausted
from logos.waiting.provider_errors import OnLimit


def _flag(value: object) -> object:
    if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise PydanticCustomError("flag", "must be true or false")


def _whole(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticCustomError("whole", "must be a whole number")
    return value


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise PydanticCustomError("number", "must be a number")
    return value


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise PydanticCustomError("text", "must be text")
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise PydanticCustomError("text", "must be valid UTF-8 text without NUL characters")
    return value


Flag = Annotated[bool, BeforeValidator(_flag)]
PositiveInt = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=1_000_000)]
NonNegativeInt = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=1_000_000)]
Seconds = Annotated[float, BeforeValidator(_number), Field(ge=0, le=10_000_000)]
Minutes = Annotated[float, BeforeValidator(_number), Field(ge=0, le=10_000_000)]
Dollars = Annotated[float, BeforeValidator(_number), Field(ge=0, le=10_000_000)]
Text = Annotated[str, BeforeValidator(_text)]
LevelName = Annotated[str, Field(pattern="^L[1-9]$")]


class HostChoice(StrEnum):
    """What the agents run on."""

    AUTO = "auto"
    CAO = "cao"
    LOCAL = "local"
    SCRIPTED = "scripted"


class SettingsSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(SettingsSection):
    max_rounds: PositiveInt = Field(8, description="Rounds before a run ends as FAIL.")
    max_review_cycles: PositiveInt = Field(3, description="Review cycles per phase.")
    min_review_cycles_before_approval: PositiveInt = Field(
        2, description="The first review cycle whose approval counts."
    )
    poll_seconds: Seconds = Field(2.0, description="Longest time between two looks at a terminal.")
    require_review_evidence: Flag = Field(True, description="Accept an approval only with evidence in its notes.")
    review_evidence_min_match: NonNegativeInt = Field(
        3, description="Kinds of evidence (of four) that an approval must name."
    )
    on_review_exhausted: OnExhausted = Field(
        OnExhausted.PROCEED,
        description="When no review cycle approves: proceed with the objections, or block.",
    )

    max_tokens: PositiveInt | None = Field(None, description="Stop the run between turns after this many tokens.")
    max_cost_usd: Dollars | None = Field(None, description="Stop the run between turns after this cost in US dollars.")
    max_minutes: Minutes | None = Field(None, description="Stop the run between turns after this many minutes.")


class Condensation(SettingsSection):
    condense_cross_phase: Flag = Field(True, description="Hand only the relevant parts to the next phase.")
    max_cross_phase_lines: PositiveInt = Field(40, description="Most lines of a condensed handoff.")
    condense_upstream_on_repeat: Flag = Field(True, description="Send the handoff only in the first review cycle.")
    condense_explore_on_repeat: Flag = Field(True, description="Send the explore summary once per terminal.")
    condense_review_feedback: Flag = Field(True, description="Hand on the notes of a review instead of all of it.")
    max_feedback_lines: PositiveInt = Field(30, description="Most lines of condensed feedback.")
    max_test_evidence_lines: PositiveInt | None = Field(
        None, description="Most lines of condensed test evidence; unset: max_feedback_lines."
    )


class HandoffSettings(SettingsSection):
    strict_file_handoff: Flag = Field(
        True, description="A missing response file is an error; off: use the terminal's last output."
    )
    response_timeout: Seconds = Field(1800.0, description="Seconds to wait for a response, and for an absent server.")
    idle_grace_seconds: Seconds = Field(
        30.0, description="Seconds an agent may be idle without a response file before it is reminded."
    )
    max_file_reminders: NonNegativeInt = Field(1, description="Reminders per turn.")
    auto_accept_permissions: Flag = Field(
        False, description="Let agents do anything: answer their permission prompts with yes."
    )
    recreate_terminals: Flag = Field(
        False, description="On resume, replace terminals that are gone; new agents get the earlier conversation."
    )
    retry_back_off_seconds: Seconds = Field(5.0, description="Delay before retrying a turn after a transient error.")
    on_limit: OnLimit = Field(
        OnLimit.STOP,
        description="When a provider's limit is reached: stop, wait until it ends, or fallback to another provider.",
    )


class Build(SettingsSection):
    """Settings of `logos build`."""

    max_parallel: Annotated[int, BeforeValidator(_whole), Field(ge=1, le=64)] = Field(
        4, description="Authors working at the same time."
    )
    max_reconciliations: NonNegativeInt = Field(4, description="Reconciliations before a build ends as FAIL.")
    max_rounds: PositiveInt = Field(3, description="Rounds of one reconciliation before the build asks a person.")


class CheckpointSettings(SettingsSection):
    """`checkpoints` in the file."""

    enabled: Flag = Field(True, description="Keep the work tree at every event as a commit under refs/logos/RUN/.")
    keep_days: NonNegativeInt = Field(30, description="`logos gc` removes checkpoints of runs that ended earlier.")
    keep_runs: NonNegativeInt = Field(10, description="`logos gc` always keeps checkpoints of the newest N runs.")


class PostProcessing(SettingsSection):
    openspec_archive: Flag = Field(False, description="After a PASS, archive the one active OpenSpec change.")
    git_commit: Flag = Field(False, description="After a PASS, commit everything in the work dir.")
    git_commit_comment: Text = Field("", description="Message of that commit; empty: made from the prompt.")


class Notifications(SettingsSection):
    ntfy_topic: Text = Field("", description="ntfy topic or URL to notify of the end and of permission prompts.")


class AgentSettings(SettingsSection):
    provider: Text | None = Field(None, description="Agent CLI.")
    profile: Text | None = Field(None, description="Profile that the agent gets.")
    providers: tuple[Text, ...] = Field((), description="Fallback agent CLIs, in order, for on_limit = fallback.")
