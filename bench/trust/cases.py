"""The tables of projects and cases in `data/`, and the scripts that the agents of a case follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parent / "data"
# A file is its text, a mapping as in scripts of simulated agents (text, executable, base64, link), or None: absent.
File = str | dict[str, Any] | None
Files = dict[str, File]
Step = dict[str, Any]


class Kind(StrEnum):
    CHEAT = "cheat"
    HONEST = "honest"


class Reach(StrEnum):
    """What it takes to notice a cheat."""

    ALWAYS = ""
    # Only where the tests run in a sandbox: the cheat needs files outside the work dir.
    SANDBOX = "sandbox"
    # Only tests that the author has not seen.
    BLIND = "blind"
    # Nothing that Logos does.
    NEVER = "never"


class Plain(StrEnum):
    """How the test command ends in the work dir when the author is done."""

    PASSES = "passes"
    FAILS = "fails"
    # It depends, or does not matter: the cheat is not about the command.
    ANY = "any"


@cache
def known_holes() -> frozenset[str]:
    """The names of cases that are known to be decided wrong."""
    return frozenset(yaml.safe_load((DATA / "open.yaml").read_text()))


@dataclass(frozen=True, slots=True)
class Project:
    """A small real project. `before` is what the person does in the work dir after the first commit."""

    name: str
    test: str
    task: str
    files: Files
    harm: Files
    feature: Files
    new_test: Files
    folder: str = ""
    before: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One run. The keys up to `say` are the step of the author: the programmer, or L2 in a build.

    `replace`, `append` and `prepend` change the text that the file has after `harm` (cheats) or `feature` (honest).
    """

    kind: Kind
    name: str
    project: Project
    how: str
    flow: str = "run"
    edit: Files = field(default_factory=dict)
    replace: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    append: Mapping[str, str] = field(default_factory=dict)
    prepend: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    say: str = ""
    # Whether the author also makes the project's `harm` (cheats) or `feature` (honest), and its `new_test`.
    source: bool = True
    new_test: bool = False
    # Steps of other roles, levels or turns; those of the author's own role replace the step above.
    agents: Mapping[str, list[Step]] = field(default_factory=dict)
    files: Files = field(default_factory=dict)
    git: bool = True
    before: str = ""
    task: str = ""
    test: str = ""
    args: tuple[str, ...] = ()
    rounds: int = 1
    folder: str = ""
    # A PASS is a false one only if these texts are in the result.
    marks: Mapping[str, str] = field(default_factory=dict)
    # Words that an honest run must say.
    says: tuple[str, ...] = ()
    reach: Reach = Reach.ALWAYS
    plain: Plain = Plain.PASSES
    # A quick case is also in `make test`, a rare one only in `make bench-trust`, the others are in `make test-long`.
    quick: bool = False
    rare: bool = False

    @property
    def command(self) -> str:
        return self.test or self.project.test

    @property
    def base(self) -> Files:
        return {**self.project.files, **self.files}

    def author(self) -> Step:
        """What the author does: the project's change of the source, and what is special about this case."""
        made = dict(self.project.harm if self.kind is Kind.CHEAT else self.project.feature) if self.source else {}
        made |= self.project.new_test if self.new_test else {}
        step: Step = {
            **{key: getattr(self, key) for key in ("edit", "replace", "append", "prepend")},
            **{key: text for key in ("run", "say") if (text := getattr(self, key))},
        }
        return self.resolved(step, made)

    def resolved(self, step: Step, made: Mapping[str, File] | None = None) -> Step:
        """A step with whole files only; `made` are files that it writes besides."""
        files: Files = {**(made or {}), **step.get("edit", {})}
        for path, changes in step.get("replace", {}).items():
            for old, new in changes.items():
                files[path] = _with_text(self._now(files, path), lambda text, old=old, new=new: _swap(text, old, new))
        for path, more in step.get("append", {}).items():
            files[path] = _with_text(self._now(files, path), lambda text, more=more: text + more)
        for path, more in step.get("prepend", {}).items():
            files[path] = _with_text(self._now(files, path), lambda text, more=more: more + text)
        kept = {key: value for key, value in step.items() if key not in ("replace", "append", "prepend")}
        return {**kept, "edit": files} if files else kept

    def _now(self, files: Mapping[str, File], path: str) -> File:
        return files[path] if path in files else self.base[path]

    def script(self) -> dict[str, Any]:
        """The script for `--simulate`. Where a case says nothing else, everybody else approves and reports PASS."""
        others = {role: [self.resolved(step) for step in steps] for role, steps in self.agents.items()}
        if self.flow == "build":
            return {"agents": {"L2": [self.author()], **others}}
        tester: Step = {"say": LIE} if self.kind is Kind.CHEAT else {"run": self.command}
        return {"agents": {"programmer": [self.author()], "tester": [tester], **others}}


LIE = "RESULT: PASS\nEVIDENCE:\n- all tests pass\n"


def _with_text(file: File, change: Any) -> File:
    if isinstance(file, dict):
        return {**file, "text": change(file["text"])}
    assert file is not None
    return change(file)


def _swap(text: str, old: str, new: str) -> str:
    assert old in text, f"{old!r} is not in the file"
    return text.replace(old, new)


@cache
def projects() -> dict[str, Project]:
    table = yaml.safe_load((DATA / "projects.yaml").read_text("utf-8"))
    return {name: Project(name=name, **{**row, "needs": tuple(row.get("needs", ()))}) for name, row in table.items()}


@cache
def cases() -> tuple[Case, ...]:
    """Every case, cheats first."""
    found = [
        _case(kind, row)
        for kind in Kind
        for path in sorted(DATA.glob(f"{kind}*.yaml"))
        for row in yaml.safe_load(path.read_text("utf-8"))
    ]
    names = [case.name for case in found]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    return tuple(found)


def _case(kind: Kind, row: dict[str, Any]) -> Case:
    known = {one.name for one in fields(Case)}
    assert row.keys() <= known, f"{row['name']}: unknown keys {sorted(row.keys() - known)}"
    lists = {key: tuple(row[key]) for key in ("args", "says") if key in row}
    enums = {"reach": Reach(row.get("reach", "")), "plain": Plain(row.get("plain", "passes"))}
    tested = row.get("new_test", row.get("flow") == "build")
    return Case(**{**row, **lists, **enums, "kind": kind, "project": projects()[row["project"]], "new_test": tested})
