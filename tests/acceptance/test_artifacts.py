"""Where the analyst's artifacts are: `openspec/changes/` is explained, and `artifacts = logos` puts them elsewhere."""

from __future__ import annotations

import pytest

from logos.testing import PASS
from tests.support.sandbox import PROMPT, Sandbox

OWN = ("--set", "artifacts=logos")


def run(place: Sandbox, *more: str, edits: dict[str, str] | None = None) -> str:
    team = {"analyst": [{"edit": edits or {}}], "tester": [{"say": PASS}]}
    quick = ("--set", "limits.poll_seconds=0.02", "--set", "limits.min_review_cycles_before_approval=1")
    return place("run", "--simulate", str(place.script(team)), "--set", f"prompt={PROMPT}", *quick, *more).err


def test_a_folder_that_the_repository_does_not_have_is_explained(repository: Sandbox) -> None:
    said = run(repository)
    assert said.count("openspec/changes/; --set artifacts=logos puts it into .logos/changes/") == 1


def test_a_repository_that_knows_openspec_is_told_nothing(repository: Sandbox) -> None:
    (repository.wd / "openspec" / "changes").mkdir(parents=True)
    assert "openspec" not in run(repository)


def test_who_reads_or_writes_artifacts_is_told_where_they_are(repository: Sandbox) -> None:
    assert "will be in .logos/changes/\n" in run(repository, *OWN)
    told = {turn.split(".")[1]: ".logos/changes/" in prompt for turn, prompt in repository.prompts.items()}
    others = dict.fromkeys(("analyst", "peer_analyst", "programmer", "peer_programmer"), True)
    assert told == {**others, "tester": False}


def test_by_default_no_prompt_names_the_other_folder(repository: Sandbox) -> None:
    run(repository)
    assert not [prompt for prompt in repository.prompts.values() if ".logos/" in prompt]


def test_a_resumed_run_keeps_its_folder(repository: Sandbox) -> None:
    run(repository, *OWN, "--set", "limits.max_minutes=0")
    run(repository, "--resume", "--set", "limits.max_minutes=60")
    assert ".logos/changes/" in repository.prompts["r1.programmer.c1"]


@pytest.mark.parametrize("folder", [".logos", "openspec"])
def test_artifacts_implement_nothing(repository: Sandbox, folder: str) -> None:
    repository.set(LOGOS_EXPECT_CHANGE="1", LOGOS_MAX_ROUNDS="1")
    said = run(repository, *OWN, edits={f"{folder}/changes/x/tasks.md": "- [ ] one\n"})
    assert "FAILED" in said


def test_artifacts_are_in_checkpoints(repository: Sandbox) -> None:
    run(repository, *OWN, edits={".logos/changes/x/tasks.md": "- [ ] one\n"})
    assert ".logos/changes/x/tasks.md" in repository("diff", "1").out
    assert ".logos/changes/x/tasks.md" in repository.git("status", "--porcelain", "-uall")


def test_archiving_openspec_is_left_out(repository: Sandbox) -> None:
    run(repository, *OWN, "--set", "post_processing.openspec_archive=1")
    assert "openspec archive skipped: the artifacts of this run are in .logos/changes/" in repository("log").out


def test_a_variable_of_that_name_belongs_to_somebody_else(repository: Sandbox) -> None:
    repository.set(ARTIFACTS="/builds/out", LOGOS_ARTIFACTS="logos")
    assert "will be in .logos/changes/" in run(repository)
