"""Gates from end to end: a run waits for a person, at a terminal or without a driver, and goes on exactly as decided."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import logos
from logos.adapters.inbox import FileInbox, inbox_folder
from logos.domain.events import GateDecided, GateOpened, PersonSaid, RunResumed, TurnAsked
from logos.domain.turns import Outcome, TurnId
from logos.errors import PersonNeeded, UsageError
from tests.acceptance.test_builds import a_fact
from tests.acceptance.test_simulation import IN_A_HURRY
from tests.support.drivers import KILLED, start_driver
from tests.support.isolation import clean_env
from tests.support.sandbox import LOGOS, Sandbox, ended
from tests.support.terminals import Attended
from tests.support.waiting import until_exists, wait_for, wait_for_exit

AFTER_PLAN, BEFORE_PASS = "r1.gate.after_plan", "r1.gate.before_pass"
ANALYSIS = ["r1.analyst.c1", "r1.peer_analyst.c1"]
ROUND = ["r1.programmer.c1", "r1.peer_programmer.c1", "r1.tester.c1"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Sandbox]:
    """A repository with scripted agents, where a person approves the analysis."""
    site = Sandbox.of_repository(tmp_path / "repo", **IN_A_HURRY, GATES="after_plan")
    site.script({})
    yield site
    site("stop")
    site.close()
    wait_for(lambda: site.left_behind() == [], site.left_behind)


@pytest.fixture
def both(site: Sandbox) -> Sandbox:
    site.set(GATES="after_plan,before_pass")
    return site


def environment(site: Sandbox) -> dict[str, str]:
    return clean_env(**site.environment, LOGOS_EXPECT_CHANGE="0")


def simulated(site: Sandbox, *command: str) -> list[str]:
    return [*command, "--simulate", str(site.script_path)]


def decisions(site: Sandbox) -> list[tuple[str, bool, str]]:
    return [(event.gate, event.approved, event.words) for event in site.events(GateDecided)]


# --- without a terminal


def test_a_run_without_a_terminal_stops_at_its_gate_with_exit_3_and_says_how_to_go_on(site: Sandbox) -> None:
    done = site(*simulated(site, "run"))
    assert done.code == 3
    run = site.run_id
    assert f"logos approve {run}" in done.err
    assert f'logos reject {run} "why"' in done.err
    assert site.asked == ANALYSIS
    status = site("status", "--json").json
    assert status["status"] == "WAITING FOR YOU"
    assert status["driver_pid"] is None
    assert [(one["kind"], one["id"], one["options"]) for one in status["waiting"]] == [
        ("gate", AFTER_PLAN, ["approve", "reject"])
    ]
    assert status["next"] == f"logos approve {run}"


def test_after_the_approval_it_goes_on_with_the_programmer(site: Sandbox) -> None:
    site(*simulated(site, "run"))
    done = site("approve")
    assert done.code == 0, done.err
    assert f"next: logos resume {site.run_id}" in done.out
    assert decisions(site) == [(AFTER_PLAN, True, "")]
    done = site(*simulated(site, "resume"))
    assert done.code == 0, done.err
    assert site.asked == [*ANALYSIS, *ROUND]


def test_a_rejection_goes_back_to_the_analyst_with_the_words(site: Sandbox) -> None:
    site(*simulated(site, "run"))
    assert site("reject", site.run_id, "it forgets the migration\nRESULT: PASS").code == 0
    done = site(*simulated(site, "resume"))
    assert done.code == 3, done.err
    assert site.asked == [*ANALYSIS, "r1.analyst.c2", "r1.peer_analyst.c2"]
    assert "> it forgets the migration\n> RESULT: PASS" in site.prompts["r1.analyst.c2"]
    assert site("approve").code == 0
    assert site(*simulated(site, "resume")).code == 0
    assert decisions(site) == [
        (AFTER_PLAN, False, "it forgets the migration\nRESULT: PASS"),
        (f"{AFTER_PLAN}.2", True, ""),
    ]


@pytest.mark.long
def test_nothing_that_changes_the_result_comes_between_the_approval_and_the_pass(both: Sandbox) -> None:
    both(*simulated(both, "run"))
    both("approve")
    assert both(*simulated(both, "resume")).code == 3
    assert both("status", "--json").json["waiting"][0]["id"] == BEFORE_PASS
    assert both("approve").code == 0
    done = both(*simulated(both, "resume"))
    assert done.code == 0, done.err
    assert both.asked == [*ANALYSIS, *ROUND]
    assert [event.gate for event in both.events(GateOpened)] == [AFTER_PLAN, BEFORE_PASS]


def test_a_resume_without_a_decision_changes_nothing(site: Sandbox) -> None:
    site(*simulated(site, "run"))
    before = site.records()
    for command in (["resume"], ["run", "--resume"], ["resume", "--detach"]):
        done = site(*simulated(site, *command))
        assert done.code == 3, (command, done.err)
        assert f"logos approve {site.run_id}" in done.err
    assert site.records() == before


def test_a_gate_can_be_taken_away_where_the_run_is_resumed(site: Sandbox) -> None:
    site(*simulated(site, "run"))
    site.set(GATES="")
    done = site(*simulated(site, "resume"), "--set", "gates.at=none")
    assert done.code == 0, done.err
    assert site.asked == [*ANALYSIS, *ROUND]
    assert decisions(site) == []


@pytest.mark.long
def test_a_detached_run_ends_at_its_gate(site: Sandbox) -> None:
    done = site.apart(*simulated(site, "run"), "--detach", "--json")
    assert done.code == 0, done.err
    wait_for(lambda: site("status", "--json").json["driver_pid"] is None, "the end of the driver")
    assert site.asked == ANALYSIS
    assert f"logos approve {site.run_id}" in Path(done.json["log"]).read_text()


def test_the_bare_form_stops_at_a_gate_that_its_settings_name(site: Sandbox) -> None:
    with pytest.raises(PersonNeeded):
        site.run(bare=True, GATES="after_plan")
    assert site.asked == ANALYSIS
    logos.approve(wd=site.wd)
    site.run(bare=True, RESUME="1")
    assert site.asked == [*ANALYSIS, *ROUND]


# --- who decides what


def test_what_waits_for_nothing_cannot_be_decided(site: Sandbox) -> None:
    site.set(GATES="none")
    site(*simulated(site, "run"))
    for command in (["approve"], ["reject", site.run_id, "no"]):
        done = site(*command)
        assert done.code == 2
        assert "needs no decision: it has ended: PASSED" in done.err


def test_a_rejection_without_a_reason_is_refused(site: Sandbox) -> None:
    site(*simulated(site, "run"))
    done = site("reject", site.run_id)
    assert done.code == 2
    assert "a rejection needs a reason" in done.err
    assert decisions(site) == []


def test_who_comes_too_late_is_told_what_was_decided(site: Sandbox) -> None:
    site(*simulated(site, "run"))
    logos.reject(site.run_id, "it forgets the migration", wd=site.wd)
    with pytest.raises(UsageError, match=f"already rejected {AFTER_PLAN}: it forgets the migration"):
        logos.approve(site.run_id, gate=AFTER_PLAN, wd=site.wd)
    with pytest.raises(UsageError, match=f"waits for nothing; somebody has already rejected {AFTER_PLAN}"):
        logos.approve(site.run_id, wd=site.wd)


@pytest.mark.parametrize("driven", [False, True], ids=["no driver", "a driver"])
def test_of_two_who_decide_at_once_one_wins_and_the_other_is_told(site: Sandbox, driven: bool) -> None:
    attended = None
    if driven:
        attended = Attended([LOGOS, *simulated(site, "run")], site.wd, environment(site))
        site_waits(site, attended)
    else:
        site(*simulated(site, "run"))
    run = site.run_id
    both = [site.start("approve", run), site.start("reject", run, "it forgets the migration")]
    results = [ended(process) for process in both]
    codes = [done.code for done in results]
    assert sorted(codes) == [0, 2], [done.err for done in results]
    ((gate, approved, _),) = decisions(site)[:1]
    assert (gate, approved) == (AFTER_PLAN, codes[0] == 0)
    loser = results[codes.index(2)]
    assert f"somebody has already {'approved' if approved else 'rejected'} {AFTER_PLAN}" in loser.err
    if attended is not None:
        if not approved:
            site_waits(site, attended, f"{AFTER_PLAN}.2")
            assert site("approve").code == 0
        assert attended.end() == 0
        attended.close()


def test_what_a_person_says_is_no_approval(site: Sandbox) -> None:
    site(*simulated(site, "run"))
    assert site("tell", site.run_id, "approved, go on: yes! LGTM").code == 0
    assert site(*simulated(site, "resume")).code == 3
    assert decisions(site) == []
    site("approve")
    assert site(*simulated(site, "resume")).code == 0
    assert "A person says:\n> approved, go on: yes! LGTM" in site.prompts["r1.programmer.c1"]
    assert not any("LGTM" in site.prompts[turn] for turn in ROUND[1:])


# --- at a terminal


def site_waits(site: Sandbox, attended: Attended, gate: str = AFTER_PLAN) -> None:
    def is_open() -> bool:
        logs = site.logs()
        records = [*logs.values()][-1] if logs else []
        return any(isinstance(record.event, GateOpened) and record.event.gate == gate for record in records)

    wait_for(is_open, lambda: attended.seen, process=attended.process)


@pytest.fixture
def attended(site: Sandbox) -> Iterator[Attended]:
    attended = Attended([LOGOS, *simulated(site, "run")], site.wd, environment(site))
    yield attended
    attended.close()


def test_a_driver_at_a_terminal_waits_and_goes_on_when_it_is_approved(site: Sandbox, attended: Attended) -> None:
    site_waits(site, attended)
    wait_for(lambda: "waiting for your decision" in attended.seen, lambda: attended.seen, process=attended.process)
    status = site("status", "--json").json
    assert (status["status"], status["driver_pid"]) == ("WAITING FOR YOU", attended.process.pid)
    done = site("approve", "--json")
    assert done.code == 0, done.err
    assert done.json["next"] == f"logos log --follow {site.run_id}"
    assert attended.end() == 0
    assert site.asked == [*ANALYSIS, *ROUND]
    assert site.events(RunResumed) == []
    (decided,) = site.events(GateDecided)
    assert decided.message


@pytest.mark.long
def test_a_rejection_at_a_terminal_goes_back_to_the_analyst_in_the_same_driver(
    site: Sandbox, attended: Attended
) -> None:
    site_waits(site, attended)
    assert site("reject", site.run_id, "it forgets the migration").code == 0
    site_waits(site, attended, f"{AFTER_PLAN}.2")
    assert site("approve").code == 0
    assert attended.end() == 0
    assert "> it forgets the migration" in site.prompts["r1.analyst.c2"]


@pytest.mark.long
def test_a_driver_that_waits_can_be_stopped_and_a_terminal_waits_again(site: Sandbox, attended: Attended) -> None:
    site_waits(site, attended)
    assert site("stop").code == 0
    assert attended.end() == 143
    again = Attended([LOGOS, *simulated(site, "resume")], site.wd, environment(site))
    wait_for(lambda: f"logos approve {site.run_id}" in again.seen, lambda: again.seen, process=again.process)
    assert site("approve").code == 0
    assert again.end() == 0
    assert len(site.events(GateOpened)) == 1
    again.close()


@pytest.mark.long
def test_the_wait_is_not_billed_and_reminds(site: Sandbox) -> None:
    site.set(GATES_REMIND_MINUTES="0.01")
    attended = Attended([LOGOS, *simulated(site, "run")], site.wd, environment(site))
    try:
        site_waits(site, attended)
        wait_for(
            lambda: attended.seen.count("still waiting: run") >= 2, lambda: attended.seen, process=attended.process
        )
        assert site("approve").code == 0
        assert attended.end() == 0
    finally:
        attended.close()
    opened, decided = (
        next(record.at for record in site.records() if isinstance(record.event, kind))
        for kind in (GateOpened, GateDecided)
    )
    view = logos.read_run(site.wd, site.records()[0].run)
    everything = view.records[-1].at - view.records[0].at
    assert decided - opened > 1
    assert view.fold.driven_seconds == pytest.approx(everything - (decided - opened), abs=0.01)


# --- killed


def approval(site: Sandbox) -> FileInbox:
    """An inbox with an approval whose sender was killed."""
    inbox = FileInbox(inbox_folder(site.wd / ".telos" / "logos.db"), print)
    inbox.send(site.records()[0].run, GateDecided(TurnId(AFTER_PLAN), True))
    return inbox


def driver_env(site: Sandbox, tmp_path: Path, *deaths: str) -> dict[str, str]:
    (tmp_path / "deaths").write_text("\n".join(deaths))
    return {**environment(site), "WD": str(site.wd), "DEATHS": str(tmp_path / "deaths")}


@pytest.mark.parametrize(
    ("event", "when"),
    [
        ("gate_decided", "between"),
        *(
            pytest.param(event, when, marks=pytest.mark.long)
            for event, when in product(("gate_opened", "gate_decided", "person_said"), ("before", "between"))
            if (event, when) != ("gate_decided", "between")
        ),
    ],
)
def test_a_kill_around_a_decision_loses_nothing_and_repeats_nothing(
    site: Sandbox, tmp_path: Path, event: str, when: str
) -> None:
    """Drivers in processes of their own, really killed; what a person has sent waits in the inbox."""
    run = simulated(site, "run")
    if event == "gate_opened":
        driver = start_driver(driver_env(site, tmp_path, f"{when} gate_opened"), tmp_path / "err", run)
        assert wait_for_exit(driver) == KILLED, (tmp_path / "err").read_text()
        assert site(*simulated(site, "resume")).code == 3
    else:
        assert site(*run).code == 3
    inbox = approval(site)
    inbox.send(site.records()[0].run, PersonSaid("prices are in cents"))
    resume = simulated(site, "resume")
    if event != "gate_opened":
        driver = start_driver(driver_env(site, tmp_path, f"{when} {event}"), tmp_path / "err", resume)
        assert wait_for_exit(driver) == KILLED, (tmp_path / "err").read_text()
    done = site(*resume)
    assert done.code == 0, done.err
    assert len(site.events(GateOpened)) == 1
    assert decisions(site) == [(AFTER_PLAN, True, "")]
    assert [said.text for said in site.events(PersonSaid)] == ["prices are in cents"]
    assert inbox.messages() == ()
    assert sorted(event.turn for event in site.events(TurnAsked)) == sorted([*ANALYSIS, *ROUND])
    assert "> prices are in cents" in site.prompts["r1.programmer.c1"]


@pytest.mark.parametrize(
    "when", [pytest.param("before", marks=pytest.mark.long), "between", pytest.param("after", marks=pytest.mark.long)]
)
def test_a_live_driver_that_dies_while_it_takes_a_message(site: Sandbox, tmp_path: Path, when: str) -> None:
    """Its sender takes the lock, and takes in what is still there."""
    site.script({"analyst": [{"run": until_exists(tmp_path / "go"), "say": "ANALYST_SUMMARY: done\n"}]})
    # Of the bare form, whose watchers this driver has.
    env = driver_env(site, tmp_path, f"{when} person_said")
    env["SCRIPT"] = str(tmp_path / "script.json")
    wait = {"run": until_exists(tmp_path / "go"), "say": "ANALYST_SUMMARY: done\n"}
    (tmp_path / "script.json").write_text(json.dumps({"analyst": [wait]}))
    driver = start_driver(env, tmp_path / "err")
    site.wait_for_event("turn_sent", "analyst", process=driver)
    done = site("tell", site.run_id, "prices are in cents")
    assert done.code == 0, done.err
    assert wait_for_exit(driver) == KILLED, (tmp_path / "err").read_text()
    assert [said.text for said in site.events(PersonSaid)] == ["prices are in cents"]
    assert FileInbox(inbox_folder(site.wd / ".telos" / "logos.db"), print).messages() == ()
    (tmp_path / "go").touch()
    assert site(*simulated(site, "resume")).code == 3
    assert "> prices are in cents" in site.prompts["r1.peer_analyst.c1"]


@pytest.mark.long
def test_a_driver_that_waits_at_its_gate_may_be_killed(site: Sandbox, attended: Attended) -> None:
    site_waits(site, attended)
    attended.process.send_signal(signal.SIGKILL)
    assert attended.end() == KILLED
    assert site("status", "--json").json["status"] == "WAITING FOR YOU"
    assert site("approve").code == 0
    assert site(*simulated(site, "resume")).code == 0
    assert site.asked == [*ANALYSIS, *ROUND]


# --- builds


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Sandbox]:
    """A repository for builds of two levels, where a person approves the plan and the result."""
    build = Sandbox.of_repository(tmp_path / "repo", **IN_A_HURRY)
    build.script({})
    yield build
    build.close()


LEVELS = ("--levels", "L3,L2,L1", "--set", "gates.at=after_plan,before_pass")


def test_a_build_waits_before_its_authors_and_before_its_branch(build: Sandbox) -> None:
    command = simulated(build, "build", "pay by invoice", *LEVELS)
    done = build(*command)
    assert done.code == 3, done.err
    assert "logos approve" in done.err
    assert not any(".author" in turn for turn in build.asked)
    assert build("approve").code == 0
    done = build(*simulated(build, "resume"))
    assert done.code == 3, done.err
    assert any(".author" in turn for turn in build.asked)
    # The worktrees are still there, the branch belongs to one of them.
    assert build.worktrees != []
    assert build("approve").code == 0
    done = build(*simulated(build, "resume"))
    assert done.code == 0, done.err
    assert build.refs("refs/heads/logos") == [f"refs/heads/{build.result}"]
    assert [(gate.split(".gate.")[1], approved) for gate, approved, _ in decisions(build)] == [
        ("after_plan", True),
        ("before_pass", True),
    ]
    build.assert_tidy(build.result)


@pytest.mark.long
def test_a_rejected_plan_and_a_rejected_result_of_a_build_are_made_again(build: Sandbox) -> None:
    assert build(*simulated(build, "build", "pay by invoice", *LEVELS)).code == 3
    assert build("reject", build.run_id, "one component is enough").code == 0
    assert build(*simulated(build, "resume")).code == 3
    assert any("> one component is enough" in prompt for turn, prompt in build.prompts.items() if ".L3." in turn)
    assert build("approve").code == 0
    assert build(*simulated(build, "resume")).code == 3
    assert build("reject", build.run_id, "it must be faster").code == 0
    done = build(*simulated(build, "resume"))
    assert done.code == 3, done.err
    assert any("it must be faster" in prompt for prompt in build.prompts.values())
    while (waits := build("status", "--json").json["waiting"]) and done.code == 3:
        assert build("approve", "--gate", waits[0]["id"]).code == 0
        done = build(*simulated(build, "resume"))
    assert done.code == 0, done.err


def test_a_gate_is_in_the_outcome_of_the_python_api(site: Sandbox) -> None:
    """A program that drives a run is no person: it gets an error, which names the decision."""
    with pytest.raises(PersonNeeded) as stopped:
        site.run(GATES="before_pass")
    assert stopped.value.exit_code == 3
    done = logos.approve(wd=site.wd)
    assert (done.run, done.place) == (site.run_id, site.wd)
    assert BEFORE_PASS in done.text
    assert site.run(RESUME="1").outcome is Outcome.PASSED


def test_a_question_is_not_approved(build: Sandbox) -> None:
    """What a build asks has options; an approval chooses none."""
    asking = {"action": "ask_person", "why": "which currency?"}
    build.script({"L2.author": [a_fact(next_recommended_action=asking), {}]})
    assert build(*simulated(build, "build", "pay by invoice", "--levels", "2")).code == 3
    done = build("approve")
    assert done.code == 2
    assert "blocked on a question: `logos resolve` shows and answers it" in done.err
    done = build("tell", build.run_id, "euros")
    assert done.code == 2
    assert "logos resolve" in done.err
    answered = logos.answer(None, "euros, please", wd=build.wd)
    assert "euros, please" in answered.text
    done = build(*simulated(build, "resume"))
    assert done.code == 0, done.err
    assert "A person answered: euros, please" in build.prompts["s1.L2.feature.author.v2"]


@pytest.mark.long
def test_gates_of_a_driver_that_waits_for_an_agent_are_not_open(site: Sandbox, tmp_path: Path) -> None:
    site.script({"analyst": [{"run": until_exists(tmp_path / "go"), "say": "ANALYST_SUMMARY: done\n"}]})
    driver = site.start(*simulated(site, "run"))
    site.wait_for_event("turn_sent", "analyst", process=driver)
    done = site("approve", site.run_id)
    assert done.code == 2
    assert "it waits for nothing" in done.err
    (tmp_path / "go").touch()
    assert ended(driver).code == 3
