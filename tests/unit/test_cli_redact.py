"""What is shown to a person: no secrets, no control sequences, no markup that does something."""

from __future__ import annotations

import pytest
from rich.text import Text

from logos.cli.output.console import console, document, long_document, put
from logos.views.redact import HIDDEN, clean, one_line, redact, redacted

SECRETS = (
    "sk-abcdefghijklmnopqrstuvwx",
    "sk-proj-abc_DEF-1234567890abcdef",
    "ghp_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "AKIAIOSFODNN7EXAMPLE",
    "glpat-abcdefgh12345678",
    "xoxb-1234567890-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghij",
)


@pytest.mark.parametrize("secret", SECRETS)
def test_well_known_keys_are_hidden(secret: str) -> None:
    assert redact(f"the key is {secret}, keep it") == f"the key is {HIDDEN}, keep it"


def test_what_surrounds_a_secret_stays() -> None:
    assert redact("Authorization: Bearer abc.def-123456") == f"Authorization: Bearer {HIDDEN}"
    assert redact("https://me:hunter22@example.org/x") == f"https://me:{HIDDEN}@example.org/x"


def test_a_private_key_is_hidden_whole() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----"
    assert redact(f"before\n{key}\nafter") == f"before\n{HIDDEN}\nafter"


def test_secrets_of_the_environment_are_hidden_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"MY_API_KEY": "correct horse", "CI_TOKEN": "battery staple", "APP_SECRET": "short", "HOME": "/home/someone"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    text = redact("correct horse battery staple short /home/someone")
    assert text == f"{HIDDEN} {HIDDEN} short /home/someone"


@pytest.mark.parametrize("address", ["postgres://ada:{}@db:5432/runs", "postgres://db/runs?user=ada&password={}&x=1"])
def test_the_password_of_the_database_is_hidden_also_where_it_stands_alone(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("LOGOS_DATABASE", address.format("cor%20rect-horse"))
    monkeypatch.setenv("PGPASSWORD", "battery-staple")
    text = redact(f"{address.format('cor%20rect-horse')}, cor%20rect-horse, cor rect-horse, battery-staple, postgres")
    assert text == f"{HIDDEN}, {HIDDEN}, {HIDDEN}, {HIDDEN}, postgres"


@pytest.mark.parametrize(
    "text", ["task-force ask-me", "a skeleton", "Bearer of news", "AKIA", "http://host:8080/x", "P1-P4"]
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


def test_control_sequences_are_taken_out() -> None:
    assert clean("a\x1b[2Jb\x1b]0;title\x07c\x00d") == "abcd"
    assert one_line("a\n  b\tc") == "a b c"


def test_json_is_redacted_at_every_depth() -> None:
    secret = SECRETS[0]
    assert redacted({"a": [secret, {"b": (secret, 1, None)}]}) == {"a": [HIDDEN, {"b": [HIDDEN, 1, None]}]}


@pytest.mark.parametrize("many", [0, 1, 3])
def test_a_long_document_is_printed_like_any_other(many: int, capsys: pytest.CaptureFixture[str]) -> None:
    items = [{"seq": number, "text": f"one\ntwo {SECRETS[0]}", "more": [{"deep": {}}]} for number in range(many)]
    document({"version": 1, "run": "k3", "events": items})
    whole = capsys.readouterr().out
    long_document({"version": 1, "run": "k3"}, "events", iter(items))
    assert capsys.readouterr().out == whole


def test_a_secret_that_comes_into_the_environment_later_is_hidden_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert redact("correct horse") == "correct horse"
    monkeypatch.setenv("MY_API_KEY", "correct horse")
    assert redact("correct horse") == HIDDEN
    monkeypatch.setenv("MY_API_KEY", "battery staple")
    assert redact("correct horse battery staple") == f"correct horse {HIDDEN}"


def test_a_line_is_the_same_in_a_pipe_whoever_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = "[bold]r1.tester.c1[/bold] answered :smile: “FAIL”  " + "long " * 60
    put(console(), text, "red")
    ours = capsys.readouterr().out
    console().print(Text(clean(text), "red"))
    assert capsys.readouterr().out == ours == f"{text}\n"
