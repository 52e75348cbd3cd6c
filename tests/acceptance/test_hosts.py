"""Which host the agents run on, chosen for a person who has one agent CLI and nothing else; and what they are told."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fake_cli import calls, install_fake_cli
from tests.support.isolation import bare_env
from tests.support.sandbox import PROMPT, Sandbox
from tests.support.waiting import wait_for_exit

ROOT = Path(__file__).parents[2]


class Person(Sandbox):
    """Somebody at a shell, with a few programs on the PATH."""

    @property
    def programs(self) -> Path:
        return self.wd.parent / "bin"


@pytest.fixture
def person(tmp_path: Path) -> Person:
    person = Person(tmp_path / "work")
    git = shutil.which("git")
    assert git is not None
    for folder in (person.wd, person.programs):
        folder.mkdir()
    (person.programs / "git").symlink_to(git)
    person.set(PATH=str(person.programs), PROMPT=PROMPT, MIN_REVIEW_CYCLES_BEFORE_APPROVAL="1")
    return person


def test_one_agent_cli_and_nothing_else_is_enough(person: Person) -> None:
    notes = install_fake_cli(person.programs, "codex")
    done = person.apart("run")
    assert done.code == 0, done.err
    assert (
        "agents run on this machine with codex (no CAO server answers at http://localhost:9889; the first installed one"
        in done.err
    )
    assert len(calls(notes)) == 5
    first = calls(notes)[0]
    assert str(first["prompt"]).index("Turn: r1.analyst.c1") > 0, "the profile comes before the first prompt"
    assert person.state["session_name"] == "local"


def test_where_no_provider_is_named_the_first_installed_one_is_used(person: Person) -> None:
    notes = install_fake_cli(person.programs, "claude")
    done = person.apart("run")
    assert done.code == 0, done.err
    assert "with claude_code" in done.err
    assert "with claude_code (no CAO server answers at http://localhost:9889; the first installed one" in done.err
    assert len(calls(notes)) == 5


def test_nothing_to_run_agents_with_says_what_to_install_and_names_the_demo(person: Person) -> None:
    done = person.apart("run")
    assert done.code == 1
    assert "npm install -g @openai/codex" in done.err
    assert "logos demo" in done.err
    assert not (person.wd / ".tmp" / "agent-responses" / "analyst_summary.md").exists()


@pytest.mark.long
def test_an_address_that_was_given_means_that_server_and_no_other_host(person: Person) -> None:
    notes = install_fake_cli(person.programs, "codex")
    done = person.apart("run", API="http://127.0.0.1:9")
    assert done.code == 1
    assert "no CAO server answers at http://127.0.0.1:9" in done.err
    assert calls(notes) == []


def test_any_other_program_can_be_an_agent(person: Person) -> None:
    notes = install_fake_cli(person.programs, "my-agent")
    done = person.apart(
        "run",
        LOGOS_HOST="local",
        PROVIDER="command",
        AGENT_COMMAND="my-agent --file '{prompt_file}' --talk {session} --in '{cwd}'",
    )
    assert done.code == 0, done.err
    sessions = {call["argv"][3] for call in calls(notes)}  # type: ignore[index]
    assert len(sessions) == 5, "one conversation per role"
    assert calls(notes)[0]["argv"][5] == str(person.wd)  # type: ignore[index]


def test_a_program_that_is_not_there_is_an_error_before_anything_starts(person: Person) -> None:
    install_fake_cli(person.programs, "codex")
    config = person.wd / "logos.json"
    config.write_text(json.dumps({"agents": {"tester": {"provider": "opencode_cli"}}}))
    done = person.apart("run", "logos.json", LOGOS_HOST="local")
    assert done.code == 1
    assert "its program `opencode` is not on PATH; install it (npm install -g opencode-ai)" in done.err
    assert person.logs() == {}


@pytest.mark.parametrize(
    ("server", "why"),
    [("", "its program `opencode` is not on PATH"), ("http://127.0.0.1:9", "unknown provider 'nonesuch'")],
)
def test_a_fallback_that_cannot_be_had_is_an_error_before_anything_starts(
    person: Person, server: str, why: str
) -> None:
    notes = install_fake_cli(person.programs, "codex")
    spare = "nonesuch" if server else "opencode"
    agents = {"tester": {"provider": "codex", "providers": [spare]}}
    (person.wd / "logos.json").write_text(json.dumps({"provider": "codex", "agents": agents}))
    done = person.apart("run", ON_LIMIT="fallback", API=server)
    assert (done.code, why in done.err) == (1, True), done.err
    assert (person.logs(), calls(notes)) == ({}, [])


def test_agents_get_the_mildest_leave_their_role_needs(person: Person) -> None:
    notes = install_fake_cli(person.programs, "claude")
    person.apart("run", PROVIDER="claude_code")
    allowed = {str(call["prompt"]).split("Turn: ")[1].split()[0]: call["argv"] for call in calls(notes)}
    words = {turn: [str(word) for word in argv] for turn, argv in allowed.items()}  # type: ignore[attr-defined]
    tools = {turn: [word for word in argv if word == "Bash" or "(" in word] for turn, argv in words.items()}
    own = "Edit(./.tmp/agent-responses/**)"
    assert tools["r1.tester.c1"] == ["Bash"]
    assert tools["r1.analyst.c1"] == [own, "Edit(./openspec/**)", "Edit(./.logos/**)"]
    assert tools["r1.peer_analyst.c1"] == tools["r1.peer_programmer.c1"] == [own]
    assert "acceptEdits" in allowed["r1.programmer.c1"]  # type: ignore[operator]
    assert all("--dangerously-skip-permissions" not in argv for argv in allowed.values())  # type: ignore[operator]


@pytest.mark.long
def test_a_codex_whose_sandbox_cannot_work_is_an_error_before_anything_starts(person: Person) -> None:
    notes = install_fake_cli(person.programs, "codex", sandbox="bwrap: Creating new namespace failed")
    done = person.apart("run")
    assert done.code == 1
    assert "codex: its sandbox does not work here (bwrap: Creating new namespace failed)" in done.err
    assert "AUTO_ACCEPT_PERMISSIONS=1" in done.err
    assert (calls(notes), person.logs()) == ([], {})
    assert person.apart("run", AUTO_ACCEPT_PERMISSIONS="1").code == 0, "no sandbox is used then"


def test_reviewers_and_the_analyst_on_codex_cannot_change_the_work_tree(person: Person) -> None:
    notes = install_fake_cli(person.programs, "codex")
    assert person.apart("run").code == 0
    modes = {
        str(call["prompt"]).split("Turn: r1.")[1].split(".")[0]: "workspace-write" in call["argv"]  # type: ignore[operator]
        for call in calls(notes)
    }
    writers = {name for name, writes in modes.items() if writes}
    assert (writers, len(modes)) == ({"programmer", "tester"}, 5)


def test_a_version_that_runs_what_it_downloads_is_not_started(person: Person) -> None:
    notes = install_fake_cli(person.programs, "kimi", version="kimi, version 1.52.0")
    done = person.apart("run", PROVIDER="kimi_cli")
    assert done.code == 1
    assert "kimi_cli is not started in version kimi, version 1.52.0: kimi 1.52 pipes a script" in done.err
    assert "pip install kimi-cli==1.51.0" in done.err
    assert (calls(notes), person.logs()) == ([], {})


def test_a_cli_that_knows_no_permissions_is_used_with_a_warning(person: Person) -> None:
    notes = install_fake_cli(person.programs, "goose")
    done = person.apart("run", PROVIDER="goose", GOOSE_MODE="approve")
    assert done.code == 0, done.err
    assert done.err.count("warning: goose knows no permissions without a keyboard") == 1
    assert len(calls(notes)) == 5


@pytest.mark.long
def test_tool_calls_that_were_refused_are_shown_and_kept(person: Person) -> None:
    denials = [{"tool_name": "Bash", "tool_input": {"command": f"rm {n}"}} for n in range(5)]
    result = {"type": "result", "is_error": False, "result": "done", "permission_denials": denials}
    install_fake_cli(person.programs, "claude", prints=json.dumps(result))
    done = person.apart("run", PROVIDER="claude_code", START_AGENT="tester")
    assert done.code == 0, done.err
    # Some are named when the client prints them, the others at the end of the turn, where many are counted.
    for said in (done.err, person.apart("log").out):
        told = "; ".join(re.findall(r"warning: tester was not allowed: (.*)", said))
        assert all(f"Bash rm {n}" in told for n in range(3)), said
        assert told.endswith(("Bash rm 4", "and 2 more", "and 1 more")), said


def test_full_leave_is_given_only_when_allowed_and_said_in_plain_words(person: Person) -> None:
    notes = install_fake_cli(person.programs, "claude")
    done = person.apart("run", PROVIDER="claude_code", AUTO_ACCEPT_PERMISSIONS="1")
    assert "agents may run any command and change any file that you can" in done.err
    assert all("--dangerously-skip-permissions" in call["argv"] for call in calls(notes))  # type: ignore[operator]


@pytest.mark.long
def test_a_run_that_began_here_is_resumed_here(person: Person) -> None:
    install_fake_cli(person.programs, "codex", tester="no verdict")
    assert person.apart("run", MAX_ROUNDS="1").code == 1
    install_fake_cli(person.programs, "codex")
    state = person.state
    assert state["final_status"] == "FAIL"
    env = bare_env(PATH=str(person.programs), WD=str(person.wd), PROMPT=PROMPT, DIE_AFTER="turn_answered:2")
    driver = subprocess.Popen([sys.executable, "-m", "tests.driver"], cwd=ROOT, env=env, stderr=subprocess.DEVNULL)
    assert wait_for_exit(driver) == -signal.SIGKILL
    done = person.apart("run", MIN_REVIEW_CYCLES_BEFORE_APPROVAL="2")
    assert done.code == 0, done.err
    assert "as the unfinished run started" in done.err
    assert len(person.asked) == len(set(person.asked)) == 9


def test_profiles_of_the_persons_own_are_used(person: Person) -> None:
    notes = install_fake_cli(person.programs, "codex")
    own = person.wd / ".telos" / "profiles" / "tester.md"
    own.parent.mkdir(parents=True)
    own.write_text("---\nname: tester\n---\nYou are the strictest tester there is.\n")
    assert person.apart("run").code == 0
    tester = next(str(call["prompt"]) for call in calls(notes) if "r1.tester" in str(call["prompt"]))
    assert tester.startswith("You are the strictest tester there is.")
