"""Builds with bad input, hostile agents and interruptions: one clear line, and nothing of the person's is touched."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from logos.adapters.lock import driver_lock
from logos.app.telos_file import TEMPLATE_PURPOSE
from logos.domain.events import TurnAnswered, TurnAsked, WorkGathered
from tests.acceptance.test_builds import FAST, TELOS, a_division, a_fact, problems_of
from tests.support.sandbox import Done, Json, Sandbox, Started, ended
from tests.support.waiting import until_exists, wait_for


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Sandbox]:
    site = Sandbox.of_repository(tmp_path / "repo", **FAST)
    site.script()
    yield site
    site.close()


def assert_refused(site: Sandbox, done: Done, code: int, *words: str) -> None:
    """One line that names what is wrong, the right exit code, and nothing but .telos is touched."""
    assert done.code == code, done.err
    *_, last = done.err.splitlines()
    assert last.startswith("logos: "), done.err
    for word in words:
        assert word in last
    assert json.loads(done.out) == {"error": last.removeprefix("logos: "), "exit_code": code}
    site.assert_tidy()
    assert {path.name for path in site.wd.parent.iterdir()} == {"repo", "script.yaml"}


# --- what is asked for


def test_a_project_without_a_telos_is_told_how_to_get_one(site: Sandbox) -> None:
    site.git("rm", "--quiet", "telos.toml")
    site.git("commit", "--quiet", "--message", "no telos")
    site.remember()
    assert_refused(site, site.build("pay by invoice"), 1, "there is no telos.toml", "logos init")
    assert not (site.wd / ".telos").exists()


def test_a_telos_that_nobody_has_written_yet_is_refused(site: Sandbox) -> None:
    site.set_telos(f"purpose = {json.dumps(TEMPLATE_PURPOSE)}\n")
    assert_refused(site, site.build("pay by invoice"), 1, "telos.toml", "write what the project is for")


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ("L12", "'L12' is not a level; use 9-1 or L9,L5,L3-L1 (L1 to L9)"),
        ("0", "'0' is not a level"),
        ("9-", "'9-' is not a level"),
        ("9,,1", "'' is not a level"),
        ("9-3", "L2 must take part, no other level writes code"),
    ],
)
def test_levels_that_do_not_exist_or_build_nothing_are_refused(site: Sandbox, levels: str, says: str) -> None:
    assert_refused(site, site.build("pay by invoice", "--levels", levels), 1, f"levels = {levels!r}", says)
    assert not (site.wd / ".telos").exists()


@pytest.mark.parametrize("words", [(), ("",), ("  ",)])
def test_a_build_of_nothing_is_refused(site: Sandbox, words: tuple[str, ...]) -> None:
    assert_refused(site, site.build(*words), 2, "describe what to build")


@pytest.mark.parametrize("number", ["0", "-1", "65"])
def test_a_number_of_authors_that_cannot_be_is_refused(site: Sandbox, number: str) -> None:
    assert_refused(site, site.build("pay by invoice", f"--max-parallel={number}"), 1, "build.max_parallel", number)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("agents: {L12: [{}]}", "L12"),
        ("agents: {L3: [{reprot: {}}]}", "reprot"),
        ("levels: {L3: []}", "levels"),
        ("agents: {L2: [{edit: {../x: text}}]}", "must be a path inside the work dir"),
        ("agents: [", "line 1"),
    ],
)
def test_a_script_that_says_something_unknown_is_refused(site: Sandbox, script: str, says: str) -> None:
    site.script_path.write_text(script)
    assert_refused(site, site.build("pay by invoice"), 1, "script.yaml", says)
    assert not (site.wd / ".telos").exists()


def test_a_script_for_the_cycle_builds_nothing(site: Sandbox) -> None:
    site.script({"analyst": [{}]})
    assert_refused(site, site.build("pay by invoice"), 2, "is a script for `logos run`, not for `logos build`")


# --- where


def test_a_folder_without_git_is_told_how_to_begin(tmp_path: Path) -> None:
    wd = tmp_path / "repo"
    wd.mkdir()
    (wd / "telos.toml").write_text(TELOS)
    (tmp_path / "script.yaml").write_text("{}")
    done = Sandbox(wd)("build", "pay by invoice", "--simulate", "../script.yaml")
    assert done.code == 2
    last = done.err.splitlines()[-1]
    assert last.startswith(f"logos: {wd} is not a git repository")
    assert "git init" in last
    assert {path.name for path in wd.iterdir()} <= {"telos.toml", ".telos"}


def test_a_repository_without_a_commit_is_refused_or_taken_as_it_lies_there(tmp_path: Path) -> None:
    site = Sandbox.of_repository(tmp_path / "repo", {}, **FAST)
    (site.wd / "telos.toml").write_text(TELOS)
    site.remember()
    site.script()
    assert_refused(site, site.build("pay by invoice", "--levels", "2"), 2, "has no commit yet", "--allow-dirty")
    done = site.build("pay by invoice", "--levels", "2", "--allow-dirty")
    assert done.code == 0, done.err
    assert site.git("ls-tree", "--name-only", site.result).splitlines() == ["feature.py", "telos.toml"]
    site.assert_untouched()


def soil(site: Sandbox) -> None:
    """Something of every kind that is not committed."""
    (site.wd / "shop.py").write_text("stashed = True\n")
    site.git("stash", "push", "--quiet")
    (site.wd / "shop.py").write_text("staged = True\n")
    site.git("add", "shop.py")
    (site.wd / "shop.py").write_text("unstaged = True\n")
    (site.wd / "README.md").unlink()
    (site.wd / "new.py").write_text("untracked = True\n")
    (site.wd / "meant.py").write_text("meant = True\n")
    site.git("add", "--intent-to-add", "meant.py")
    (site.wd / ".gitignore").write_text("secret\n")
    (site.wd / "secret").write_text("never leaves\n")
    site.remember()


def test_uncommitted_work_is_never_built_on_unasked(site: Sandbox) -> None:
    soil(site)
    done = site.build("pay by invoice", "--levels", "2")
    assert_refused(site, done, 2, "has uncommitted changes", "--allow-dirty")


def test_uncommitted_work_is_built_on_as_a_snapshot_and_stays_as_it_is(site: Sandbox) -> None:
    soil(site)
    site.script({"L2.author": [{"run": "cat shop.py new.py; ls -A", "report": {"work_summary": "{output}"}}]})
    done = site.build("pay by invoice", "--levels", "2", "--allow-dirty")
    assert done.code == 0, done.err
    (answer,) = site.events(TurnAnswered)
    seen = json.loads(answer.text)["work_summary"].splitlines()
    assert seen[:2] == ["unstaged = True", "untracked = True"]
    assert {"meant.py", "new.py"} <= {*seen}
    assert not {"secret", "README.md"} & {*seen}
    assert site.git("show", f"{site.result}:shop.py") == "unstaged = True"
    assert site.git("rev-parse", f"{site.result}~2") == site.git("rev-parse", "HEAD")
    site.assert_untouched()
    assert site.worktrees == []


# --- what agents hand in


CIRCLE = a_division({"name": "cart", "depends_on": ["price"]}, {"name": "price", "depends_on": ["cart"]})


def test_components_that_need_each_other_are_sent_back_and_then_become_a_question(site: Sandbox) -> None:
    site.script({"L3.decompose": [CIRCLE]})
    done = site.build("pay by invoice", "--levels", "3-1")
    assert (done.code, done.json["outcome"]) == (3, "BLOCKED")
    assert site.asked == ["s1.L3.decompose", "s1.L3.decompose.t2", "s1.L3.decompose.t3"]
    assert "cart → price → cart" in problems_of(site.prompts["s1.L3.decompose.t2"])
    assert "cart → price → cart" in done.err
    assert "cart → price → cart" in site("resolve").out
    site.assert_untouched()
    assert site("resolve", "price needs nothing").code == 0
    site.script({"L3.decompose": [CIRCLE, CIRCLE, CIRCLE, a_division("cart", "price")]})
    done = site.build("--resume")
    assert done.code == 0, done.err
    assert "A person answered: price needs nothing" in site.prompts["s1.L3.decompose.v2"]
    site.assert_tidy(site.result)


def divided(*rows: Json) -> Json:
    return a_fact(components=[{"name": f"part{number}", "purpose": "a part", **row} for number, row in enumerate(rows)])


OUTSIDE = ("../x", "/etc/passwd", "a/../../x", ".git/config", "telos.toml", ".telos/state.json")
NAMES = ("../x", "Cart", "cart.lock", "-x", "a b")


def handed_back_to(level: str) -> Json:
    return a_fact(next_recommended_action={"action": "hand_back", "to": level, "why": "it cannot be"})


@pytest.mark.parametrize(
    ("tries", "says"),
    [
        (
            [divided(*({"files": [path]} for path in OUTSIDE), *({"name": name} for name in NAMES))],
            [
                *(f'components[{number}].files[0] = "{path}": ' for number, path in enumerate(OUTSIDE)),
                *(f'components[{number}].name = "{name}": ' for number, name in enumerate(NAMES, len(OUTSIDE))),
            ],
        ),
        ([divided({"name": "main"})], ["components[0].name = 'main': this is where all work is merged"]),
        ([divided({"depends_on": ["till"]})], ['components[0].depends_on[0] = "till": there is no such component']),
        ([handed_back_to("L12")], ['next_recommended_action.to = "L12": ']),
        ([handed_back_to("L9")], ["next_recommended_action.to = L9: must be a level above that takes part"]),
        ([a_fact(work_summary="x" * 300_000)], ["at most 200,000 are read; write a shorter report"]),
    ],
    ids=["paths and names", "main", "unknown component", "unknown level", "level that takes no part", "too long"],
)
def test_a_division_that_cannot_be_is_sent_back_with_every_reason(
    site: Sandbox, tries: list[Json], says: list[str]
) -> None:
    site.script({"L3.decompose": [*tries, {}]})
    done = site.build("pay by invoice", "--levels", "3,2")
    assert done.code == 0, done.err
    problems = problems_of(site.prompts["s1.L3.decompose.t2"])
    assert [line for line in says if line not in problems] == []
    assert list(site.built()) == ["feature.py"]
    site.assert_tidy(site.result)


def test_a_failure_that_blames_a_level_that_does_not_exist_is_sent_back(site: Sandbox) -> None:
    blame = a_fact(verdict="FAIL", failures=[{"what": "it is slow", "conflicts_with": ["L12"]}])
    site.script({"L3.validate": [blame, {}]})
    assert site.build("pay by invoice", "--levels", "3,2").code == 0
    assert 'failures[0].conflicts_with[0] = "L12"' in problems_of(site.prompts["s1.L3.validate.t2"])


def test_a_response_of_five_megabytes_is_not_taken_and_asked_again(site: Sandbox) -> None:
    huge = {"run": "head -c 5000000 /dev/zero | tr '\\0' x", "say": "{output}"}
    site.script({"L2.author": [huge, {}]})
    assert site.build("pay by invoice", "--levels", "2").code == 0
    assert site.asked == ["s1.L2.feature.author", "s1.L2.feature.author.t2"]
    problems = problems_of(site.prompts["s1.L2.feature.author.t2"])
    assert "its response cannot be used" in problems
    assert "bytes, more than 4000000" in problems
    assert (site.wd / ".telos" / "logos.db").stat().st_size < 1_000_000
    site.assert_tidy(site.result)


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ("ln -s /etc/passwd link", "link is a symbolic link that leads out of the repository"),
        ("ln -s ../../../.. up", "up is a symbolic link that leads out of the repository"),
        ("echo 'purpose = \"Sell everything\"' > telos.toml", "telos.toml belongs to the user"),
        ("rm telos.toml", "telos.toml belongs to the user"),
        ("git init --quiet inner && touch inner/x", "inner/ is a nested repository"),
    ],
)
def test_work_that_leaves_the_repository_or_is_not_the_authors_is_sent_back(site: Sandbox, run: str, says: str) -> None:
    mended = "rm -rf link up inner; git checkout --quiet HEAD -- telos.toml"
    site.script({"L2.author": [{**a_fact(), "run": run}, {**a_fact(), "run": mended}]})
    done = site.build("pay by invoice", "--levels", "2")
    assert done.code == 0, done.err
    assert site.asked == ["s1.L2.feature.author", "s1.L2.feature.author.t2"]
    assert says in problems_of(site.prompts["s1.L2.feature.author.t2"])
    assert list(site.built()) == ["feature.py"]
    assert site.git("ls-tree", "--name-only", site.result).splitlines() == [
        *("README.md", "feature.py", "shop.py", "telos.toml")
    ]
    site.assert_tidy(site.result)


@pytest.mark.long
def test_files_that_cannot_be_the_authors_or_are_not_there_are_sent_back(site: Sandbox) -> None:
    site.script(
        {
            "L2.author": [
                a_fact(files=["feature.py", *OUTSIDE]),
                {**a_fact(files=["no.py"]), "edit": {"a.py": "a = 1\n"}},
                {},
            ]
        }
    )
    done = site.build("pay by invoice", "--levels", "2")
    assert done.code == 0, done.err
    problems = problems_of(site.prompts["s1.L2.feature.author.t2"])
    assert [path for path in OUTSIDE if f' = "{path}": ' not in problems] == []
    assert "no.py is declared, but does not exist" in problems_of(site.prompts["s1.L2.feature.author.t3"])
    site.assert_tidy(site.result)


@pytest.mark.long
def test_an_author_that_only_talks_is_sent_back(site: Sandbox) -> None:
    site.script({"L2.author": [{**a_fact(files=["shop.py"]), "edit": {}}, {}]})
    done = site.build("pay by invoice", "--levels", "2")
    assert done.code == 0, done.err
    assert "nothing was changed" in problems_of(site.prompts["s1.L2.feature.author.t2"])


@pytest.mark.long
def test_a_linter_may_not_change_the_telos_either(site: Sandbox) -> None:
    harm = {"run": "echo '# better' >> telos.toml", **a_fact()}
    site.script({"L1.lint": [harm, {"run": "git checkout --quiet HEAD -- telos.toml", **a_fact()}]})
    done = site.build("pay by invoice", "--levels", "2,1")
    assert done.code == 0, done.err
    assert "telos.toml belongs to the user" in problems_of(site.prompts["s1.L1.lint.t2"])
    assert list(site.built()) == ["feature.py"]


# --- more than one


def test_an_unfinished_build_of_something_else_is_not_mixed_up(site: Sandbox) -> None:
    site.script({"L2.author": [{"fault": "crash"}]})
    stopped = site.build("pay by invoice", "--levels", "2")
    assert stopped.code == 1
    assert "--resume" in stopped.err
    run = site.run_id
    site.script()
    other = site.build("export as CSV", "--levels", "2")
    assert other.code == 2
    for words in (run, "pay by invoice", "--resume", "--fresh"):
        assert words in other.err.splitlines()[-1]
    site.assert_untouched()
    assert site.build("export as CSV", "--levels", "2", "--fresh").code == 0
    assert site.run_id != run
    assert site.build_state["feature"] == "export as CSV"
    # Nobody can go on with the one that was given up, so nothing of it stays.
    site.assert_tidy(site.result)


@pytest.mark.scenario("LOG-15")
def test_whoever_cannot_be_asked_is_shown_the_unfinished_build_and_told_the_flags(site: Sandbox) -> None:
    site.script({"L2.author": [{"fault": "crash"}]})
    assert site.build("pay by invoice", "--levels", "3,2").code == 1
    run, events = site.run_id, len(site.records())
    site.script()
    stopped = site.build("pay by invoice", "--levels", "3,2")
    assert stopped.code == 2
    for words in (f"unfinished build {run}: pay by invoice", "session 1, ", "next is s1.L2.feature.author"):
        assert words in stopped.err
    assert "recommended: resume it (logos resume --simulate SCRIPT)" in stopped.err
    assert all(flag in stopped.err.splitlines()[-1] for flag in ("--resume", "--fresh", f"logos fork {run}"))
    # Nothing was touched.
    assert len(site.records()) == events
    done = site.build("--resume", "--levels", "3,2")
    assert f"unfinished build {run}: pay by invoice" in done.err
    assert (done.code, done.json["run"]) == (0, run), done.err
    assert site.asked.count("s1.L3.decompose") == 1
    site.assert_tidy(site.result)
    ended = site.build("--resume")
    assert ended.code == 1
    assert "has ended (PASSED)" in ended.err


def test_a_second_driver_is_kept_out(site: Sandbox) -> None:
    with driver_lock(site.wd / ".telos" / "driver.lock"):
        done = site.build("pay by invoice", "--levels", "2")
        assert_refused(site, done, 1, "another driver", str(os.getpid()))


# --- stopped in the middle


def waiting_authors(site: Sandbox) -> Path:
    """Three authors: one is done at once, two wait for a file. Each leaves a line for every time it was started."""
    place = site.wd.parent / "meet"
    place.mkdir()

    def author(name: str, run: str) -> Json:
        return {"edit": {f"{name}.py": f"{name} = 1\n"}, "run": f"echo x >> {place}/{name}; {run}", **a_fact()}

    wait = until_exists(place / "go")
    site.script(
        {
            "L3.decompose": [a_division("cart", "price", "till")],
            **{f"L2.{name}": [author(name, wait)] for name in ("cart", "price")},
            "L2.till": [author("till", "true")],
        }
    )
    return place


def in_the_middle(site: Sandbox, place: Path) -> Started:
    """A build whose third author is done while two are at work."""
    process = site.start("build", "pay by invoice", "--levels", "3-1", "--simulate", str(site.script_path), "--json")

    def two_are_at_work() -> bool:
        if not all((place / name).exists() for name in ("cart", "price")):
            return False
        return any(event.place == "till" for event in site.events(WorkGathered))

    wait_for(two_are_at_work, process=process)
    return process


def agents_of(site: Sandbox) -> list[int]:
    words = str(site.wd)
    return [own.pid for own in psutil.process_iter(["cmdline"]) if words in " ".join(own.info["cmdline"] or [])]


def assert_finished(site: Sandbox) -> None:
    for turn in ("s1.L3.decompose", "s1.L2.till.author"):
        assert site.asked.count(turn) == 1
    prompts = {(event.turn, event.prompt) for event in site.events(TurnAsked)}
    assert len(prompts) == len({turn for turn, _ in prompts}), "a turn was asked again in other words"
    answered = [str(event.turn) for event in site.events(TurnAnswered)]
    assert len(answered) == len({*answered})
    assert site.built() == {f"{name}.py": f"{name} = 1" for name in ("cart", "price", "till")}
    site.assert_tidy(site.result)
    assert agents_of(site) == []


@pytest.mark.long
@pytest.mark.scenario("LOG-01")
def test_a_build_stopped_by_ctrl_c_goes_on_where_it_was(site: Sandbox) -> None:
    place = waiting_authors(site)
    process = in_the_middle(site, place)
    process.send_signal(signal.SIGINT)
    done = ended(process)
    assert done.code == 130, done.err
    assert "stopped by SIGINT" in done.err
    assert f"build {site.run_id} can be resumed" in done.json["hint"]
    wait_for(lambda: agents_of(site) == [])
    site.assert_untouched()
    assert site.build_state["status"] == "RUNNING"
    assert {agent["component"] for agent in site.build_state["active_agents"]} == {"cart", "price"}
    (place / "go").touch()
    done = site.build("--resume")
    assert done.code == 0, done.err
    assert (place / "till").read_text() == "x\n"
    assert_finished(site)


@pytest.mark.scenario("LOG-01")
def test_a_build_killed_in_the_middle_takes_what_its_authors_have_done_since(site: Sandbox) -> None:
    place = waiting_authors(site)
    process = in_the_middle(site, place)
    process.kill()
    ended(process)
    site.assert_untouched()
    (place / "go").touch()
    done = site.build("--resume")
    assert done.code == 0, done.err
    assert [(place / name).read_text() for name in ("cart", "price", "till")] == ["x\n"] * 3
    assert_finished(site)
