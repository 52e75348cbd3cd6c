"""Scripts of simulated agents: a YAML or JSON file, validated when it is read."""

import re
from base64 import b64decode
from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Self, cast

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictStr,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError, ValidationError

from logos.adapters.files import read_input
from logos.domain.levels import ALL_LEVELS, LEVELS, PROVEN_BY_TOOLS, Level
from logos.domain.reports import TurnKind
from logos.domain.roles import ACCEPTANCE_TESTER, Role
from logos.errors import ConfigError
from logos.flows.levels.turn_ids import COMPONENT, NUMBER, LevelTurn, level_turn
from logos.validation import CONTRADICTION, Location, Wording, explain_first, one_line

Json = dict[str, Any]


class Fault(StrEnum):
    """What goes wrong in a turn, before or instead of its response."""

    HANG = "hang"
    CRASH = "crash"
    NO_FILE = "no_file"
    GARBAGE = "garbage"
    PERMISSION = "permission"
    USAGE_LIMIT = "usage_limit"
    TRANSIENT = "transient"


class Otherwise(StrEnum):
    """What an agent does in a turn that the script does not mention."""

    GOOD = "good"
    ERROR = "error"


_WITH_MESSAGE = (Fault.CRASH, Fault.GARBAGE, Fault.USAGE_LIMIT, Fault.TRANSIENT)
_NAMES = (*Role, ACCEPTANCE_TESTER)
_TURN = re.compile(rf"r{NUMBER}\.({'|'.join(_NAMES)})\.c{NUMBER}(\.t{NUMBER})?")
_FIRST_LINE = re.compile(r"Turn: (\S+)[ \t\r]*(?:\n|\Z)")


def level_turn_of(prompt: str) -> LevelTurn | None:
    """The turn of a level that a prompt's first line names."""
    head = _FIRST_LINE.match(prompt)
    return level_turn(head[1]) if head else None


def _kinds_of(level: Level) -> tuple[str, ...]:
    judges = () if level in PROVEN_BY_TOOLS else (TurnKind.VALIDATE,)
    guards = (TurnKind.ALIGN,) if level is max(Level) else ()
    return (LEVELS[level].document, *judges, TurnKind.POSITION, TurnKind.PROPOSE, TurnKind.AGREE, *guards)


_LEVEL_KEYS = tuple(
    key for level in ALL_LEVELS for key in (level.name, *(f"{level.name}.{kind}" for kind in _kinds_of(level)))
)


def _inside(path: str) -> str:
    parts = PurePosixPath(path)
    if not path.strip() or "\0" in path or parts.is_absolute() or ".." in parts.parts:
        raise PydanticCustomError("inside", "must be a path inside the work dir")
    return path


def _turn_id(turn: str) -> str:
    if not _TURN.fullmatch(turn) and level_turn(turn) is None:
        raise PydanticCustomError("turn", "must be a turn id such as r2.programmer.c1 or s1.L5.validate")
    return turn


def _agent_key(key: str) -> str:
    if key not in (*_NAMES, *_LEVEL_KEYS) and not _AUTHOR_KEY.fullmatch(key):
        known = f"one of {', '.join(_NAMES)}; for levels: a level (L5), a kind (L5.validate) or an author (L2.cart)"
        raise PydanticCustomError("agent", "must be {known}", {"known": known})
    return key


_AUTHOR_KEY = re.compile(rf"{Level.L2.name}\.{COMPONENT}")
_KNOWN_KEYS: Json = {
    "type": "string",
    "anyOf": [{"enum": [*_NAMES, *_LEVEL_KEYS]}, {"pattern": f"^{_AUTHOR_KEY.pattern}$"}],
}
Seconds = Annotated[float, Field(strict=True, ge=0, le=1_000_000, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, ge=0, le=1_000_000_000_000)]
Dollars = Annotated[float, Field(strict=True, ge=0, le=1_000_000_000, allow_inf_nan=False)]
InsidePath = Annotated[StrictStr, AfterValidator(_inside)]
TurnName = Annotated[StrictStr, AfterValidator(_turn_id)]
AgentKey = Annotated[StrictStr, AfterValidator(_agent_key), WithJsonSchema(_KNOWN_KEYS)]


def _contradiction(why: str) -> PydanticCustomError:
    return PydanticCustomError(CONTRADICTION, "{why}", {"why": why})


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Spending(Part):
    """The usage that a turn reports; left out: unknown."""

    input: Count | None = Field(None, description="tokens read, the cached ones among them")
    cached: Count | None = Field(None, description="tokens read from a cache")
    output: Count | None = Field(None, description="tokens written")
    cost_usd: Dollars | None = Field(None, description="dollars")


class FileEdit(Part):
    """A file to write, where its text alone does not say everything."""

    text: StrictStr | None = Field(None, description="the whole text")
    base64: StrictStr | None = Field(None, description="the whole content of a binary file")
    link: StrictStr | None = Field(None, description="the file is a symbolic link to this path")
    executable: StrictBool | None = Field(None, description="whether it may be executed; left out: as it is")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if sum(content is not None for content in (self.text, self.base64, self.link)) != 1:
            raise _contradiction("give one of `text`, `base64` and `link`")
        try:
            b64decode(self.base64 or "", validate=True)
        except ValueError as error:
            raise _contradiction(f"`base64`: {error}") from error
        return self


class ScriptStep(Part):
    """What an agent does in one turn."""

    say: StrictStr | None = Field(None, description="the response; {verdict} and {output} stand for what `run` gave")
    report: dict[StrictStr, JsonValue] | None = Field(
        None, description="levels: what a good report of that kind would say differently; the response is JSON"
    )
    delay: Seconds = Field(0.0, description="seconds before it does anything")
    after: Seconds = Field(0.0, description="seconds from the response to the end of the turn")
    edit: dict[InsidePath, StrictStr | FileEdit | None] = Field(
        {}, description="files to write, each with its whole text, or with its content and mode; null: deleted"
    )
    run: StrictStr = Field("", description="a command; its exit code is the verdict, PASS or FAIL")
    usage: Spending | None = Field(None, description="what the turn says it cost; left out: unknown")
    fault: Fault | None = Field(None, description="what goes wrong")
    times: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = Field(
        None, description="only the first so many tries of a turn have the fault"
    )
    message: StrictStr = Field("", description="the text of a crash, garbage, usage_limit or transient")
    question: StrictStr = Field("", description="what a permission prompt asks")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.say is not None and self.report is not None:
            raise _contradiction("`say` and `report` are two ways to give one response")
        if self.times is not None and self.fault is None:
            raise _contradiction("`times` needs a `fault`")
        if self.message and self.fault not in _WITH_MESSAGE:
            raise _contradiction(f"`message` needs one of the faults {', '.join(_WITH_MESSAGE)}")
        if self.question and self.fault is not Fault.PERMISSION:
            raise _contradiction("`question` needs the fault permission")
        return self


class Script(Part):
    """Steps by agent and position, and by turn; a turn's own step wins."""

    agents: dict[AgentKey, Annotated[tuple[ScriptStep, ...], Field(min_length=1)]] = Field(
        {},
        description="per role its steps: the n-th turn takes step n, the last one repeats. "
        "For levels: per level (L5), kind (L5.validate) or author's component (L2.cart)",
    )
    turns: dict[TurnName, ScriptStep] = Field({}, description="steps for single turns, by id; they win over `agents`")
    otherwise: Otherwise = Field(
        Otherwise.GOOD, description="a turn the script does not mention: a good response, or an error"
    )

    @model_validator(mode="after")
    def _of_one_flow(self) -> Self:
        first = {_flow_of(name): name for name in reversed([*self.agents, *self.turns])}
        if len(first) > 1:
            both = f"{first['cycle']} and {first['levels']}"
            raise _contradiction(f"a script has steps for roles or for levels, not for both: {both}")
        own: list[tuple[Location, ScriptStep]] = [(("turns", turn), step) for turn, step in self.turns.items()]
        all_ = [(("agents", agent, n), step) for agent, steps in self.agents.items() for n, step in enumerate(steps)]
        for location, step in (*all_, *own):
            if self.flow == "cycle" and step.report is not None:
                raise _contradiction(f"{_location(location)}: `report` is for levels")
        return self

    @property
    def flow(self) -> str | None:
        """The flow that the script is for, `cycle` or `levels`; None when it has no steps."""
        return next((_flow_of(name) for name in (*self.agents, *self.turns)), None)

    def steps(self, keys: Sequence[str]) -> tuple[str, tuple[ScriptStep, ...]]:
        """The first of these keys of a turn that the script has, and its steps; no steps: the turn is an error."""
        for key in keys:
            if steps := (self.turns[key],) if key in self.turns else self.agents.get(key, ()):
                return key, steps
        return "", (ScriptStep.model_validate({}),) if self.otherwise is Otherwise.GOOD else ()


_GOOD = files("logos.adapters.hosts").joinpath("good_responses.yaml").read_text("utf-8")
GOOD: dict[Role, str] = {Role(role): response for role, response in yaml.safe_load(_GOOD).items()}


def load_script(path: Path) -> Script:
    """Read a script file. A ConfigError has one line: the file, the location in it, and what is allowed there."""
    text = read_input(path, "the script", ConfigError)
    try:
        data: object = yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: {error.problem or error.context or 'not valid YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(one_line(f"{path} is not valid YAML: {error or 'nested too deeply'}")) from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a script is a mapping with the keys {', '.join(Script.model_fields)}")
    return _checked(cast(Json, data), str(path))


def read_script(data: Mapping[str, Any]) -> Script:
    """A script made by a program; role → steps is enough."""
    if data.keys() & Script.model_fields.keys():
        return _checked(data, "script")
    return _checked({"agents": data, "otherwise": "error"}, "script")


def _checked(data: Mapping[str, Any], where: str) -> Script:
    try:
        return Script.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{where}: {explain_first(error, _WORDING)}") from error


class _Loader(yaml.SafeLoader):
    """YAML that refuses repeated keys: they are nearly always a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} is repeated", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def _flow_of(name: str) -> str:
    """The flow of an agent or turn, by the beginning of its name."""
    return "levels" if re.match(r"[Ls]\d", name) else "cycle"


def _location(location: Location) -> str:
    """A location with steps counted from one: `agents.tester, step 2: fault`."""
    # The kind of a file, after its path, is pydantic's word.
    kind = location.index("edit") + 2 if "edit" in location[2:] else len(location)
    location = (*location[:kind], *location[kind + 1 :])
    if location[:1] == ("agents",) and len(location) > 2:
        inner = ".".join(map(str, location[3:]))
        return f"agents.{location[1]}, step {int(location[2]) + 1}" + (f": {inner}" if inner else "")
    return ".".join(map(str, location))


_KNOWN: Mapping[int | str, tuple[str, ...]] = {
    "agents": (*_NAMES, *(level.name for level in ALL_LEVELS), "L5.validate", "L2.cart"),
    "turns": ("r2.programmer.c1", "s1.L5.validate", "…"),
    "edit": ("path",),
    "usage": tuple(Spending.model_fields),
}
_WORDING = Wording(
    lambda location: (
        _KNOWN.get(location[-1], tuple(ScriptStep.model_fields)) if location else tuple(Script.model_fields)
    ),
    _location,
    object_name="a mapping",
    messages={
        "string_type": "must be text (put it in quotes)",
        "float_type": "must be a number",
        "int_type": "must be a whole number",
        "tuple_type": "must be a list of steps",
        "too_short": "must have at least one step",
        "invalid-json-value": "must be text, a number, true, false, null, a list or a mapping",
    },
)


class _Dumper(yaml.SafeDumper):
    """Writes multi-line texts as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Other characters that YAML takes for line breaks are kept only as escapes.
    style = '"' if any(sign in text for sign in "\r\x85\u2028\u2029\ufeff") else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)  # pyright: ignore[reportUnknownMemberType]


_Dumper.add_representer(str, _text)


def as_yaml(script: Mapping[str, Any], comment: str) -> str:
    """A script as a file, with a comment at its head."""
    head = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    return head + yaml.dump(dict(script), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
