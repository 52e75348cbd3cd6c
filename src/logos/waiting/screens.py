"""Reads a terminal's screen: does it show a shell, or a provider error?"""

import re

from logos.domain.steps import Step, StepKind

# CSI and OSC sequences, then any control character but newline and tab.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# A lone surrogate has no UTF-8 form and would make every writer fail.
_HALVES = re.compile(r"[\ud800-\udfff]")

# An agent's own prompt is `❯`, `›` or `>`; a line that ends in `$` or `#` is a shell prompt.
_SHELL_PROMPT = re.compile(
    r"""^(?:\([\w.-]+\)\s*)?          # a virtual environment
        (?:
            [\w.-]+@[\w.-]+[:\s].{0,200}[$\#]    # user@host:dir$
          | [\w.-]+@[\w.-]+\s\S{1,200}\s%         # user@host dir %
          | (?:ba|z|da|k)?sh(?:-[\d.]+)?[$\#%]   # bash-5.2$
          | \[[^\]]{1,200}\][$\#%]               # [user@host dir]$
          | [$\#]
        )$""",
    re.VERBOSE,
)

# Narrow on purpose: a missed error costs a reminder, a false one ends a healthy turn.
_COMPLAINTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"API ?Error(?:\s*\([^)]{1,80}\))?\s*:?\s*[45]\d\d\b.*",
        r"(?:stream error\s*:\s*)?unexpected status\s+[45]\d\d\b.*",
        r"exceeded retry limit, last status: [45]\d\d\b.*",
        r"(?:error:\s*)?(?:\d{3}\s*[:\s]\s*)?(?:internal server error|overloaded_error|too many requests)\b.*",
        r"(?:you(?:'|’)ve|you have)\s+(?:hit|reached|exceeded)\s+your\s+(?:[\w-]+\s+){0,3}limit\b.*",
        r"(?:claude\s+)?(?:ai\s+)?usage limit (?:reached|exceeded)\b.*",
        r"(?:error:\s*)?(?:rate limit|quota) (?:reached|exceeded)\b.*",
        r"(?:error:\s*)?(?:insufficient_quota|invalid_api_key|rate_limit_error)\b.*",
        r"(?:error:\s*)?(?:invalid api key|authentication failed|not logged in|please run /login)\b.*",
    )
)
# Bullets that the clients print before their own messages; a dash starts a list of the agent.
_BULLETS = re.compile(r"^[\s■⚠\ufe0f●⏺•✗×│└⎿]+")

LOOK_BACK = 15
# How clients say on their error stream that they try a request again.
RETRIES = re.compile(
    r"\b(?:retry(?:ing)?\b(?! in an interactive)|reconnecting\b|attempt \d+ failed)|AI_APICallError", re.IGNORECASE
)
# On a screen, agents write about such things, too.
_RETRIES_ON_SCREEN = re.compile(
    r"(?:reconnecting|retrying)(?:\.\.|…| in \d)|attempt \d+ failed|.*\bretrying in \d", re.I
)
# What a screen shows whatever the agent does: its input, hints about keys, what is left of its context.
_FURNITURE = re.compile(
    r"^[❯›>$%]|for shortcuts|to interrupt|shift\+tab|ctrl\+|context left|auto-?update|bypass permissions|accept edits|"
    r"/help|/model|tokens used|esc to |⏎ send|\? for",
    re.IGNORECASE,
)
_LETTERS = re.compile(r"\w{2}")


def plain(text: str) -> str:
    """The text without escape sequences and control characters."""
    return _CONTROLS.sub("", _ESCAPES.sub("", whole(text).replace("\r\n", "\n").replace("\r", "\n")))


def whole(text: str) -> str:
    """The text with lone surrogates replaced."""
    return _HALVES.sub("\ufffd", text)


def last_lines(screen: str, count: int = LOOK_BACK) -> list[str]:
    return [line.strip() for line in plain(screen).splitlines() if line.strip()][-count:]


def end_of(text: str, lines: int = 5) -> str:
    """The last lines of an output on one line, for a message."""
    return " ⏎ ".join(last_lines(text, lines))[:600]


def shows_shell(screen: str) -> bool:
    """Whether the screen ends with a shell prompt: the agent has exited."""
    lines = last_lines(screen, 1)
    return bool(lines) and _SHELL_PROMPT.match(lines[0]) is not None


def steps_on(screen: str) -> tuple[Step, ...]:
    """What the agent does, as far as its screen shows: the last meaningful line, and clients that try again."""
    lines = [_BULLETS.sub("", line.strip("│┃|╎ ")).strip() for line in last_lines(screen, 2 * LOOK_BACK)]
    told = [line for line in lines if _LETTERS.search(line) and not _FURNITURE.search(line)]
    retries = [Step(StepKind.RETRY, line[:300]) for line in told[-LOOK_BACK:] if _RETRIES_ON_SCREEN.match(line)]
    return (*retries, *(Step(StepKind.MESSAGE, line[:300]) for line in told[-1:]))


def provider_error(screen: str) -> str | None:
    """The newest provider error near the end of the screen, as the provider words it."""
    for line in reversed(last_lines(screen)):
        text = _BULLETS.sub("", line)
        # A client that retries has not failed yet.
        if not re.search(r"\bretrying\b", text, re.IGNORECASE) and any(p.fullmatch(text) for p in _COMPLAINTS):
            return text[:300]
    return None
