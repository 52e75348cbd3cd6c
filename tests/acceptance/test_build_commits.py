"""Commits of a build, and the branches of builds that were abandoned."""

from __future__ import annotations

import pytest

from tests.support.sandbox import Sandbox

TEAM = {"L2": [{"edit": {"feature.py": "FEATURE = 1\n"}}]}
FEATURE = "give a discount of ten per cent to everybody who buys more than ten pieces of the same article at once"


@pytest.fixture
def site(repository: Sandbox) -> Sandbox:
    repository.set(LOGOS_POLL_SECONDS="0.02", LOGOS_LEVELS="9,2,1", LOGOS_VERIFY_PASS="0")
    repository.script(TEAM)
    return repository


def build(site: Sandbox, *more: str, feature: str = FEATURE) -> str:
    done = site("build", feature, "--simulate", str(site.script_path), *more)
    assert done.code in (0, 1, 3, 4), done.err
    return site.run_id


def made(site: Sandbox, run: str, form: str) -> set[str]:
    return set(site.git("log", f"--format={form}", f"main..logos/{run}").splitlines())


def test_the_subject_of_a_commit_is_a_sentence_about_the_feature(site: Sandbox) -> None:
    subjects = made(site, build(site), "%s")
    written = [subject for subject in subjects if subject.startswith("Write ")]
    assert [subject.partition(": ")[2][:20] for subject in written] == [FEATURE[:20]]
    assert all(len(subject) <= 72 and not subject.endswith(" ") for subject in subjects)


def test_author_and_subject_are_as_configured(site: Sandbox) -> None:
    more = (
        "--set",
        "build.author=Grace Hopper <grace@example.org>",
        "--set",
        "build.commit_subject=ABC-1 ({run}) {what}",
    )
    run = build(site, *more, feature="count {run} and\n{what}")
    assert made(site, run, "%an <%ae> %cn <%ce>") == {
        "Grace Hopper <grace@example.org> Grace Hopper <grace@example.org>"
    }
    written = [subject for subject in made(site, run, "%s") if "Write" in subject]
    assert written[0].startswith(f"ABC-1 ({run}) Write ")
    assert written[0].endswith("count {run} and {what}")


def test_the_author_can_be_the_one_of_git(site: Sandbox) -> None:
    assert made(site, build(site, "--set", "build.author=git"), "%an %ae") == {"Ada ada@example.org"}


def test_by_default_it_is_logos(site: Sandbox) -> None:
    assert made(site, build(site), "%an") == {"Logos"}


@pytest.mark.parametrize("author", ["Grace", "Grace <>", "<grace@example.org>", "a <b>\nGIT: c <d>"])
def test_an_author_that_git_would_refuse_is_an_error_before_anything_starts(site: Sandbox, author: str) -> None:
    done = site("build", FEATURE, "--set", f"build.author={author}")
    assert (done.code, "build.author" in done.err) == (1, True), done.err


# --- branches of abandoned builds


@pytest.fixture
def abandoned(site: Sandbox) -> tuple[Sandbox, str]:
    """A build that has merged work, was stopped by a limit, and abandoned."""
    run = build(site)
    seq = next(r.seq for r in reversed(site.records()) if type(r.event).__name__ in ("WorkGathered", "WorkMerged"))
    assert site("rollback", f"{run}@{seq}").code == 0
    later = site.run_id
    assert site("reset").code == 0
    site.git("branch", "-f", f"logos/{later}", f"logos/{run}")
    return site, later


def branches(site: Sandbox) -> list[str]:
    return site.git("for-each-ref", "--format=%(refname:short)", "refs/heads/logos").split()


def clean(site: Sandbox, *more: str) -> str:
    done = site("gc", "--keep-days", "0", "--keep-runs", "0", *more)
    assert done.code == 0, done.err
    return done.out


def test_branches_of_an_abandoned_build_are_removed(abandoned: tuple[Sandbox, str]) -> None:
    site, run = abandoned
    own = site.git("rev-list", "--count", f"main..logos/{run}")
    assert int(own) > 0
    before = branches(site)
    assert f"branches of build {run} (ABANDONED on " in clean(site, "--dry-run")
    assert branches(site) == before
    clean(site)
    assert [name for name in before if name not in branches(site)] == [f"logos/{run}"]


def test_a_branch_on_which_a_person_has_committed_stays(abandoned: tuple[Sandbox, str]) -> None:
    site, run = abandoned
    mine = site.git("commit-tree", f"logos/{run}^{{tree}}", "-p", f"logos/{run}", "-m", "mine").strip()
    site.git("branch", "-f", f"logos/{run}", mine)
    clean(site)
    assert f"logos/{run}" in branches(site)


def test_a_branch_that_is_checked_out_stays(abandoned: tuple[Sandbox, str]) -> None:
    site, run = abandoned
    site.git("checkout", "-q", f"logos/{run}")
    clean(site)
    assert f"logos/{run}" in branches(site)


def test_a_log_without_checkpoints_is_asked_for_as_the_docs_say(site: Sandbox) -> None:
    build(site)
    everything = site.git("log", "--all", "--format=%H").split()
    shown = site.git("log", "--exclude=refs/logos/*", "--all", "--format=%H").split()
    kept = site.git("for-each-ref", "--format=%(refname)", "refs/logos").split()
    assert kept
    assert len(shown) <= len(everything)
    assert set(shown) == set(site.git("log", "--branches", "--format=%H").split())
