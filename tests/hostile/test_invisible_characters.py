"""What an agent writes cannot reverse, hide or break a line of what a person reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repositories import make_repository
from tests.support.sandbox import PROMPT, Sandbox

BAD = "\u202e\u2066\u200b\u200f\ufeff\u2060\U000e0041\u034f\u17b4\u180b\U0001d173\U000e0101"
NAME = "pass\u202eword\u200b.py"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """A run whose agents say such characters, use them in file names, and fail with them in the message."""
    shop = Sandbox(
        make_repository(tmp_path_factory.mktemp("bad") / "repo"),
        {"PROMPT": PROMPT.replace("A greeting", f"A {BAD}greeting")},
    )
    agents = {
        "programmer": [{"edit": {NAME: f"x = 1  # {BAD}\n"}, "say": f"Done {BAD} it\n"}],
        "tester": [
            {"say": f"{BAD} I saw it\nRESULT: FAIL\n{BAD} evidence"},
            {"fault": "crash", "message": f"broken {BAD}"},
        ],
    }
    shop("run", "--simulate", str(shop.script(agents)))
    return shop


COMMANDS = (
    *(("status",), ("log",), ("runs",), ("cost",), ("sessions",), ("report",), ("report", "--format", "html")),
    *(
        ("diff", "1", "--json"),
        ("diff", "1", "--stat"),
        ("show", "{run}", "r1.tester.c1"),
        ("show", "{run}", "r1.programmer.c1"),
        ("show", "{run}", "r1.tester.c1", "--transcript"),
        ("show", "{run}", "r1.tester.c1", "--transcript", "--json"),
    ),
    *(("compare", "{run}", "{run}"), ("lineage",), ("telos",), ("resolve",), ("gc", "--dry-run"), ("doctor",)),
    *(("log", "--json"), ("status", "--json"), ("report", "--format", "md"), ("fork", "--at", "4"), ("resume",)),
    *(("proof",), ("proof", "--json"), ("runs", "--all"), ("status", "{run}", "--json"), ("doctor", "--trust")),
    *(("approve", "{run}"), ("reject", "{run}", "no"), ("stop", "{run}"), ("validate",), ("profiles",)),
    *(("tell", "{run}", BAD), ("log", "{run}"), ("export", "--otlp", "{run}", "http://127.0.0.1:9")),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_prints_an_invisible_character(ran: Sandbox, words: tuple[str, ...]):
    run = ran.run_id
    done = ran(*(word.format(run=run) for word in words))
    assert not {*BAD} & {*done.out, *done.err}


def test_such_characters_are_shown_as_escapes(ran: Sandbox):
    assert "\\u202e" in ran("show", ran.run_id, "r1.tester.c1").out
    assert "\\u202e" in ran("show", ran.run_id, "r1.tester.c1", "--transcript").out


def test_the_live_view_shows_escapes(tmp_path: Path):
    shop = Sandbox(make_repository(tmp_path / "repo"), {"PROMPT": PROMPT})
    agents = {"tester": [{"fault": "crash", "message": f"broken {BAD}"}]}
    done = shop("run", "--simulate", str(shop.script(agents)))
    assert not {*BAD} & {*done.out, *done.err}
    assert "broken \\u202e" in done.err + done.out
