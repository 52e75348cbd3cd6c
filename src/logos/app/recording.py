"""What the turns of a run changed in its files, as edits of a script that replays them."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logos.adapters.git.command import Git, PathChange, is_repository, repository_of, text_of
from logos.adapters.git.snapshots import GitSnapshots
from logos.domain.events import TurnAnswered, WorkGathered
from logos.engine.checkpoints import commit_at
from logos.errors import HostError
from logos.flows.levels.turn_ids import level_turn
from logos.views.redact import redact
from logos.views.run import RunView
from logos.views.turns import GATHER

# Larger files are left out.
LARGEST_FILE = 10_000_000
_EXECUTABLE, _LINK, _REPOSITORY = "100755", "120000", "160000"
_NOT_KEPT = "the files at {} were not kept: checkpoints were off then, or `logos gc` has removed them"


@dataclass(slots=True)
class FileEdits:
    """The edits of each turn that changed files, and what of them the script cannot contain."""

    by_turn: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    gaps: list[str] = field(default_factory=list[str])


def file_edits(place: Path, view: RunView) -> FileEdits:
    """The file changes of a run, from its checkpoints or, in a build, from the commits of its authors."""
    found = FileEdits()
    if not is_repository(place):
        found.gaps.append(f"file changes: {place} is not a git repository")
        return found
    git, prefix = Git(place), repository_of(place).prefix
    turns = _gathered(git, view) if view.build is not None else _checkpoints(place, view)
    for turn, before, after in turns:
        try:
            changes = git.changes(before, after) if before and after and before != after else []
            edits = _edits(git, prefix, changes, found.gaps)
        except HostError:
            before, edits = "", {}
        if not (before and after):
            found.gaps.append(_NOT_KEPT.format(turn))
        if edits:
            found.by_turn[turn] = edits
    return found


def _checkpoints(place: Path, view: RunView) -> Iterator[tuple[str, str, str]]:
    """Each turn of a cycle with the commits before and after it. Changes between two turns belong to the second."""
    commits = GitSnapshots(place).of(view.run)
    before = commit_at(commits, 1)
    for record in view.records:
        if isinstance(record.event, TurnAnswered):
            after = commit_at(commits, record.seq)
            yield record.event.turn, before, after
            before = after


def _gathered(git: Git, view: RunView) -> Iterator[tuple[str, str, str]]:
    """Each turn whose work was gathered, with the commit that it began with and its own."""
    seen: dict[str, str] = {}
    for record in view.records:
        if not isinstance(record.event, WorkGathered):
            continue
        turn, commit = record.event.turn.removesuffix(GATHER), record.event.commit
        parents = git.run("rev-list", "--parents", "-n", "1", commit, "--").stdout.decode().split()[1:]
        known = level_turn(turn)
        # A second attempt goes on with the files of the first; work that nobody changed is a commit of earlier work.
        before = seen.get(known.key, "") if known is not None else ""
        unchanged = commit in seen.values() or not record.event.touched or len(parents) > 1
        yield turn, before or (commit if unchanged else "".join(parents)), commit
        seen[known.key if known is not None else turn] = commit


def _edits(git: Git, prefix: str, changes: list[PathChange], gaps: list[str]) -> dict[str, Any]:
    contents = git.blobs((change.blob for change in changes if change.mode not in ("", _REPOSITORY)), LARGEST_FILE)
    edits: dict[str, Any] = {}
    # Deletions first: a folder may take the place of a file, or a file that of a folder.
    for change in sorted(changes, key=lambda change: bool(change.mode)):
        path = text_of(change.path)
        if not path.startswith(prefix) or "\ufffd" in path or _REPOSITORY in (change.mode, change.old_mode):
            gaps.append(f"{path}: outside the work dir, a nested repository, or a name that is not UTF-8")
        elif change.mode and change.blob not in contents:
            gaps.append(f"{path}: larger than {LARGEST_FILE // 10**6} MB")
        elif not change.mode:
            edits[path.removeprefix(prefix)] = None
        else:
            edit = _written(change, contents[change.blob])
            if edit is None or edit.pop("redacted", False):
                gaps.append(f"{path}: secrets in it are {'redacted' if edit else 'not removable, so it is left out'}")
            if edit is not None:
                edits[path.removeprefix(prefix)] = edit["text"] if [*edit] == ["text"] else edit
    return edits


def _written(change: PathChange, content: bytes) -> dict[str, Any] | None:
    """A file as a script writes it; None for binary content with secrets."""
    kind, value = _as_text(content)
    if change.mode == _LINK:
        return {"link": value} if kind == "text" else None
    edit: dict[str, Any] = {kind: value}
    if kind == "text":
        edit["text"] = redact(value)
    elif redact(content.decode("latin-1")) != content.decode("latin-1"):
        return None
    if (change.mode == _EXECUTABLE) != (change.old_mode == _EXECUTABLE) or change.old_mode == _LINK:
        edit["executable"] = change.mode == _EXECUTABLE
    return {**edit, "redacted": True} if edit.get("text", value) != value else edit


def _as_text(content: bytes) -> tuple[str, str]:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if all(sign >= " " or sign in "\n\r\t" for sign in text):
        return "text", text
    return "base64", base64.b64encode(content).decode("ascii")
