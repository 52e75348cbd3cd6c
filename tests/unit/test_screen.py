"""Screens: a shell where an agent was, a provider's complaint, and everything that only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.waiting.screens import last_lines, plain, provider_error, shows_shell
from tests.builders import examples

SHELLS = {
    "debian": "user@host:~/project$ ",
    "root": "root@4f2a91c0de11:/work#",
    "venv": "(.venv) user@host:~$ ",
    "conda": "(base) user@host:~/a b$ ",
    "bash": "bash-5.2$ ",
    "sh": "sh-5.2# ",
    "plain dollar": "$ ",
    "plain hash": "# ",
    "fedora": "[user@host project]$ ",
    "zsh": "user@host project % ",
    "coloured": "\x1b[01;32muser@host\x1b[00m:\x1b[01;34m~\x1b[00m$ ",
    "with a window title": "\x1b]0;user@host: ~\x07user@host:~$ ",
    "title ended by ST": "\x1b]0;user@host: ~\x1b\\user@host:~$ ",
    "bracketed paste": "\x1b[?2004huser@host:~$ ",
    "blank lines below": "user@host:~$ \n\n\n",
    "after an agent": "❯ do it\n> MOCK: done\nSegmentation fault\nuser@host:~$ ",
    "CRLF": "Segmentation fault\r\nuser@host:~$ \r\n",
    "deep folder": f"user@host:/{'a' * 120}$ ",
}

NOT_SHELLS = {
    "empty": "",
    "blank": "\n  \n",
    "heavy angle": "❯ ",
    "light angle": "› ",
    "angle": "> ",
    "angle with a hint": '❯ Try "fix lint errors"',
    "agent's box": "╭────╮\n│ >  │\n╰────╯",
    "hint below a box": "╰────╯\n  ? for shortcuts",
    "a shell further up": "user@host:~$ claude\nWelcome\n❯ ",
    "working": "✻ Thinking… (12s · esc to interrupt)",
    "a price": "it costs 5$",
    "a percentage": "coverage: 93%",
    "progress": "Downloading 100%",
    "a heading": "# Summary",
    "a command shown": "$ make test",
    "a prompt quoted in prose": "I typed it at user@host:~$ and it worked",
    "an address": "mail user@example.com",
    "a typed command": "user@host:~$ make test",
    "regex": "^[a-z]+$",
    "a comment": "## end #",
}


@pytest.mark.parametrize("screen", SHELLS.values(), ids=SHELLS)
def test_a_screen_that_ends_in_a_shell_prompt_shows_a_shell(screen: str) -> None:
    assert shows_shell(screen)


@pytest.mark.parametrize("screen", NOT_SHELLS.values(), ids=NOT_SHELLS)
def test_agents_prompts_and_ordinary_output_show_no_shell(screen: str) -> None:
    assert not shows_shell(screen)


# As the programs print them; what stands between the bullet and the text is theirs.
COMPLAINTS = {
    "claude 500": 'API Error: 500 {"type":"error","error":{"type":"api_error","message":"Internal server error"}}',
    "claude 500, under a bullet": '⏺ API Error: 500 {"type":"error","error":{"type":"api_error"}}',
    "claude 500, under a corner": '  ⎿  API Error: 500 {"type":"error","error":{"type":"api_error"}}',
    "claude 529": 'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    "claude 401": "API Error: 401 Invalid authentication credentials",
    "claude limit": "Claude usage limit reached. Your limit will reset at 9am (America/Chicago).",
    "claude limit, under a corner": "  ⎿  Claude usage limit reached. Your limit will reset at 3pm.",
    "claude limit, headless": "Claude AI usage limit reached|1762952400",
    "claude limit, newer": "You've hit your limit · resets 10pm (America/New_York)",
    "claude session limit": "You've hit your session limit · resets 8:30pm (Asia/Tokyo)",
    "claude weekly limit": "You’ve hit your weekly limit · resets Mon 9am",
    "claude key": "Invalid API key · Please run /login",
    "codex 429": "stream error: unexpected status 429 Too Many Requests: slow down",
    "codex 429, under a square": "■ unexpected status 429 Too Many Requests: slow down",
    "codex 401": "■ unexpected status 401 Unauthorized: Missing bearer, url: https://api.openai.com/v1/responses",
    "codex gave up": "■ exceeded retry limit, last status: 429 Too Many Requests, request id: 32875bde",
    "codex limit": "■ You've hit your usage limit. Upgrade to Pro or try again in 3 days 4 hours.",
}

INNOCENT = {
    "empty": "",
    "prose about an error": "I made sure that API Error: 500 is shown to the person.",
    "a question": "What should happen when the API error is 500?",
    "a finding": "1. client.py: API Error: 500 is swallowed",
    "a list of what was done": "- API error 500 is now retried with back-off",
    "a starred list": "* API error 404 gives a JSON body",
    "rate limits in the code": "- Rate limit exceeded responses now carry Retry-After",
    "a route": "- Internal server error on an empty name: fixed in greet.py",
    "keys in the code": "- Invalid API key now gives 401 instead of 500",
    "logins in the code": "- Not logged in users are sent to /login",
    "statuses in the code": "- Too many requests from one address give 429",
    "prose about limits": "The usage limit was never reached in my runs.",
    "the reader's limit": "If you have reached your limit, wait.",
    "quoted": '"usage limit reached" is what it prints',
    "test output": "test_api_error_500 PASSED",
    "code": 'raise ApiError(f"unexpected status {code}")',
    "a log line": "12:00:01 GET /greet 500 Internal Server Error",
    "the limit is near": "Approaching usage limit · resets at 2am",
    "claude retrying": 'API Error (500 {"type":"error"}) · Retrying in 1 seconds… (attempt 1/10)',
    "codex retrying": "⚠ stream error: unexpected status 500 Internal Server Error; retrying 1/5 in 189ms…",
}


@pytest.mark.parametrize("line", COMPLAINTS.values(), ids=COMPLAINTS)
def test_a_providers_complaint_is_found_above_the_agents_prompt(line: str) -> None:
    found = provider_error(f"❯ do it\n\n{line}\n\n❯ \n")
    assert found is not None
    assert found in line


@pytest.mark.parametrize("line", INNOCENT.values(), ids=INNOCENT)
def test_text_that_only_mentions_an_error_is_no_complaint(line: str) -> None:
    assert provider_error(f"Done:\n{line}\n\n❯ \n") is None


def test_the_newest_complaint_is_named() -> None:
    assert provider_error("API Error: 500 first\nAPI Error: 529 second\n❯ ") == "API Error: 529 second"


def test_a_complaint_far_up_the_screen_is_old_news() -> None:
    screen = "API Error: 500 long ago\n" + "\n".join(f"line {n}" for n in range(40)) + "\n❯ "
    assert provider_error(screen) is None


def test_a_complaint_in_colours_is_read() -> None:
    assert provider_error("\x1b[31mAPI Error: 500 oops\x1b[0m\r\n❯ ") == "API Error: 500 oops"


def test_a_very_long_complaint_is_cut() -> None:
    found = provider_error("API Error: 500 " + "x" * 5000)
    assert found is not None
    assert len(found) <= 300


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "sign", ["─", "-", "a ", "a@", "(a) ", "\x1b[", "\x1b]", "you've hit your limi ", "error: ", "$ #"]
)
def test_a_long_line_costs_no_time(sign: str) -> None:
    screen = sign * 20_000 + "\n" + sign * 20_000
    assert provider_error(screen) is None
    assert not shows_shell(screen)


# --- plain text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("end of paste\x1b[201~rm -rf /", "end of pasterm -rf /"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("bell\x07 and null\x00", "bell and null"),
        ("8-bit\x9b31mred", "8-bit31mred"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
        ("grüße ❯ 語", "grüße ❯ 語"),
    ],
)
def test_escape_sequences_and_control_characters_go(text: str, expected: str) -> None:
    assert plain(text) == expected


@examples()
@given(
    st.text(
        st.characters(codec="utf-8", categories=["Cc", "L", "P"]) | st.sampled_from("\x1b[]0;m~\x07\\(B"), max_size=60
    )
)
def test_no_control_character_survives(text: str) -> None:
    left = plain(text)
    assert not [sign for sign in left if sign not in "\n\t" and (sign < " " or "\x7f" <= sign <= "\x9f")]
    assert plain(left) == left


@examples()
@given(st.text())
def test_any_screen_can_be_read(screen: str) -> None:
    assert isinstance(shows_shell(screen), bool)
    said = provider_error(screen)
    assert said is None or said in plain(screen)
    assert all(line == line.strip() != "" for line in last_lines(screen))
