"""Post-processing after a PASS: archive the OpenSpec change, commit the work. Neither changes the exit code."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL

from logos.adapters.git.command import Git, is_repository, text_of
from logos.adapters.git.contents import stage_as_user
from logos.adapters.programs import command_of
from logos.app.settings import Settings
from logos.domain.artifacts import SPECS, Artifacts, changes_folder
from logos.domain.events import Noted, Topic
from logos.domain.turns import Outcome, RunId
from logos.engine.checkpoints import ChangedFiles
from logos.engine.journal import Journal
from logos.errors import HostError, ProgramNotFound
from logos.flows.cycle.flow import CycleState
from logos.views.run import RunView
from logos.views.text import cut

# How long archiving may take.
SECONDS = 120
# Files that Logos writes are never committed; the state file, which may lie elsewhere, is added to them.
OURS = (".telos", ".tmp")

# How many files a message names.
_NAMES = 5
_HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")

Tell = Callable[[str], object]


def active_changes(wd: Path) -> list[str]:
    folder = wd / changes_folder(Artifacts.OPENSPEC)
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name != "archive")


def detect_active_change(wd: Path) -> str | None:
    """The one active change, or None when there is none or more than one."""
    found = active_changes(wd)
    return found[0] if len(found) == 1 else None


def archive(wd: Path, tell: Tell) -> bool:
    """False when archiving failed; True also when there was nothing to do."""
    change = detect_active_change(wd)
    if change is None:
        found = ", ".join(active_changes(wd)) or "none"
        tell(f"openspec archive skipped: exactly one active change is needed, found: {found}")
        return True
    try:
        words = [*command_of("openspec", wd), "archive", change, "--yes"]
        ran = subprocess.run(
            words, cwd=wd, capture_output=True, text=True, errors="replace", stdin=DEVNULL, timeout=SECONDS, check=False
        )
    except ProgramNotFound as error:
        tell(f"openspec archive failed: {error}")
        return False
    except (OSError, subprocess.TimeoutExpired) as error:
        tell(f"openspec archive {change} failed: {error}")
        return False
    if ran.returncode != 0:
        tell(f"openspec archive {change} failed: {(ran.stderr or ran.stdout).strip()[-300:]}")
        return False
    tell(f"openspec change {change} archived")
    return True


def commit(wd: Path, settings: Settings, explore: str, tell: Tell) -> bool:
    """False when the commit failed; True also when there was nothing to do."""
    if not is_repository(wd):
        tell("git commit skipped: not a git repository")
        return True
    # Without a message of the person, the first line of what was asked for.
    asked_for = next(filter(None, (line.strip(" #*-") for line in explore.splitlines())), "agents' work")
    ours, git = [*OURS, *_within(wd, settings.state_path)], Git(wd).as_user().disarmed()
    try:
        problems = stage_as_user(git, wd, ours)
        # An agent may have staged them.
        git.run("reset", "-q", "--", *(f":(literal){name}" for name in ours))
        if problems:
            raise HostError(problems[0].describe(""))
        if git.run("diff", "--cached", "--quiet").returncode == 0:
            tell("No changes to commit")
            return True
        git.ask("commit", "-q", "-m", settings.post_processing.git_commit_comment or cut(asked_for, 72))
    except HostError as error:
        tell(f"git commit failed: {error}")
        return False
    tell(f"committed: {text_of(git.ask('log', '-1', '--format=%h %s')).strip()}{_hooks_not_run(git)}")
    return True


def _hooks_not_run(git: Git) -> str:
    """What to know where the repository has hooks for a commit: an agent may have written them, so none is run."""
    folder = git.cwd / git.line("rev-parse", "--git-common-dir") / "hooks"
    found = [name for name in _HOOKS if os.access(folder / name, os.X_OK)]
    return f"; hooks that were not run: {', '.join(found)}" if found else ""


def _within(wd: Path, path: Path) -> list[str]:
    """The path relative to the work dir, where it is in its repository: git refuses others."""
    top = Path(Git(wd).line("rev-parse", "--show-toplevel"))
    found = path.parent.resolve() / path.name
    return [os.path.relpath(found, wd.resolve())] if found.is_relative_to(top.resolve()) else []


def is_left(view: RunView) -> bool:
    """Whether a run has passed, but was stopped before its post-processing was done."""
    if view.outcome is not Outcome.PASSED or view.build is not None or not view.fold.ended or not view.ledger.files:
        return False
    notes = (record.event for record in view.records if isinstance(record.event, Noted))
    return all(note.topic is not Topic.POST_PROCESSED for note in notes)


def post_process_once(journal: Journal[CycleState], settings: Settings, changed: ChangedFiles) -> None:
    """Do it, and record that it is done; done again after a kill in between, it finds nothing to do.

    A work tree that is not the proven one stays as it is. Its post-processing is left to be done.
    """
    post = settings.post_processing
    if not (post.openspec_archive or post.git_commit):
        return
    if problem := not_as_proven(journal.state, journal.run, changed):
        journal.record(Noted(Topic.AFTERWARDS, f"{problem}; nothing is archived or committed"))
        return
    explore = journal.state.plan.explore
    post_process(settings.work_dir, settings, explore, lambda text: journal.record(Noted(Topic.AFTERWARDS, text)))
    journal.record(Noted(Topic.POST_PROCESSED, "post-processing is done"))


def not_as_proven(state: CycleState, run: RunId, changed: ChangedFiles) -> str:
    """How the work tree differs from the one that was proven; empty if it does not, or if nothing was proven.

    Specs are not compared: archiving moves them.
    """
    if state.proof is None:
        return ""
    files, *_ = changed(run, state.proof.result)
    if files is None:
        return "what has changed in the work tree since it was proven is not known"
    names = [path for path in files if not path.startswith(SPECS)]
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"the work tree has changed since it was proven ({', '.join(names[:_NAMES])}{more})" if names else ""


def post_process(wd: Path, settings: Settings, explore: str, tell: Tell) -> None:
    """Do what the settings ask for; `explore` is what the run was asked for."""
    post = settings.post_processing
    if post.openspec_archive and settings.artifacts is not Artifacts.OPENSPEC:
        tell(f"openspec archive skipped: the artifacts of this run are in {changes_folder(settings.artifacts)}")
        archived = True
    else:
        archived = not post.openspec_archive or archive(wd, tell)
    if post.git_commit and not archived:
        tell("git commit skipped: archiving failed")
    elif post.git_commit:
        commit(wd, settings, explore, tell)
