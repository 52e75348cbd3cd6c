"""Builds by levels in a walk: authors in places of their own, conflicts, refused reports, and a tree that is nobody's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.torture.files import IGNORE_RULES, Edit, Entry, Tree
from tests.torture.model import Model, ref_of
from tests.torture.place import Worktree
from tests.torture.walk import Flow
from tests.torture.world import History, Work, World, work

TELOS = b"""
purpose = "A shop that never sells what it does not have."
[[tools]]
level = 1
name = "tidy"
command = "! grep -rq TODO --include=*.py ."
[[tools]]
level = 2
name = "whole"
command = "cat *.py | grep -q 'return 2'"
"""
STANDING = {"FEATURE": "a shop", "LEVELS": "3-1", "BUILD_MAX_PARALLEL": "3"}
SWEEPS = 6
NAMES = ("cart", "price", "shop")
ATTEMPT = re.compile(r"(?P<key>.*?)(?:\.t(?P<number>\d+))?")
TELOS_FILE = "telos.toml"


def make_story(name: str, rng: Random) -> tuple[dict[str, Any], dict[str, list[Edit]]]:
    """Steps by turn for authors; the others by what they are asked for."""
    names = NAMES[: rng.choice((2, 2, 3))]
    agents = {key: [_step(name, report, rng)] for key, report in _reports(names, rng).items()}
    if rng.random() < 0.3:
        agents["L2.agree"].insert(0, _step(name, {"verdict": "OBJECT", "objection": "which names?"}, rng))
    turns: dict[str, Any] = {}
    if rng.random() < 0.3:
        turns["s1.L3.decompose"] = {"say": "no report at all: {output}", "run": work(name, [])}
    edits: dict[str, list[Edit]] = {}
    trouble = rng.choice(("", "", "", "same name", "same file", "untidy"))
    # A fork may go on by another story than the run it comes from.
    for own in NAMES:
        for sweep in range(1, SWEEPS + 1):
            for again in ("", ".v2"):
                told = _authored(own, f"s{sweep}.L2.{own}.author{again}", trouble if sweep == 1 else "", rng)
                for turn, (changes, step) in told.items():
                    edits[turn] = changes
                    turns[turn] = {**_step(name, step, rng), "run": work(name, changes), "edit": {}}
                    if step is None:
                        turns[turn]["say"] = "no report: {output}"
    return {"agents": agents, "turns": turns, "otherwise": "error"}, edits


def _reports(names: Sequence[str], rng: Random) -> dict[str, dict[str, Any]]:
    components = [
        {
            "name": own,
            "purpose": f"the {own}",
            "files": [f"{own}.py"],
            "provides": [],
            "depends_on": ["cart", "price"] if own == "shop" else [],
        }
        for own in names
    ]
    level = rng.choice(("L3", "L2"))
    proposal = {"summary": "mend it", "changes": [{"level": level, "change": "as said"}], "rework": [*names[:2]]}
    return {
        "L3.decompose": {"components": components},
        **{f"L{number}.propose": {"proposal": proposal} for number in (1, 2, 3)},
        **{f"L{number}.{kind}": {} for number in (1, 2, 3) for kind in ("position", "agree")},
        "L1.lint": {},
        "L3.validate": {},
    }


def _step(story: str, report: Mapping[str, Any] | None, rng: Random) -> dict[str, Any]:
    step: dict[str, Any] = {"run": work(story, [])}
    if report is not None:
        step["report"] = {"work_summary": "done: {output}", **report}
    if rng.random() < 0.2:
        step["delay"] = round(rng.uniform(0.02, 0.2), 2)
    return step


Done = tuple[list[Edit], dict[str, Any] | None]
TurnView = dict[str, Done]
# What keeps the first attempt at an author's work from being accepted.
MISHAPS: tuple[Callable[[list[Edit], dict[str, Any]], Done], ...] = (
    lambda edits, _: (edits, None),
    lambda edits, report: (edits, {**report, "files": ["nowhere.py"]}),
    lambda edits, report: ([*edits, Edit("append", TELOS_FILE, b"# mine\n")], {**report, "files": [edits[0].path]}),
)


def _authored(own: str, turn: str, trouble: str, rng: Random) -> TurnView:
    """What an author does in a turn, and in the next attempt where this one is sent back."""
    defined = "total" if trouble == "same name" else f"{own}_of"
    todo = b"# TODO\n" if trouble == "untidy" else b""
    code = b"# %s {nonce}\ndef %s():\n    return 2\n%s" % (turn.encode(), defined.encode(), todo)
    edits = [Edit("write", f"{own}.py", code)]
    if trouble == "same file":
        edits.append(Edit("write", "shared.md", b"%s {nonce}\n" % turn.encode()))
    if rng.random() < 0.3:
        # A file that it deletes must be named as well, and exists only in the first sweep: it is emptied instead.
        edits.append(Edit("write", f"old-{own}.txt", b""))
    if rng.random() < 0.3:
        edits.append(Edit("write", f"{own} ünï'\"/-x.txt", b"\0{nonce}\r\n"))
    files = [edit.path for edit in edits]
    report: dict[str, Any] = {"files": files, "tests": [], "why_no_tests": "the walk runs none", "provides": [defined]}
    # Further attempts are there for whoever needs them, also by another story's mishap.
    told: TurnView = dict.fromkeys((turn, f"{turn}.t2", f"{turn}.t3"), (edits, report))
    if rng.random() < 0.35:
        # What was done in the first attempt stays, and is gathered with the second.
        first = [Edit("write", f"{own} first.txt", b"%s {nonce}\n" % turn.encode())]
        told[turn] = rng.choice(MISHAPS)(first, report)
        more = {**report, "files": [*files, first[0].path]}
        told |= dict.fromkeys((f"{turn}.t2", f"{turn}.t3"), (edits, more))
    return told


def some_edit(rng: Random) -> Edit:
    path = rng.choice(("notes.md", "mine.txt", "a file.txt", "debug.log", "build/out.o", "sub/ünï.txt"))
    if rng.random() < 0.2:
        return Edit("delete", path)
    return Edit("append", path, b"%d\n" % rng.randrange(1000))


def make_repository(world: World, folder: Path) -> None:
    folder.mkdir()
    files = {".gitignore": IGNORE_RULES.encode(), "notes.md": b"mine\n", TELOS_FILE: TELOS, "debug.log": b"ignored\n"}
    files |= {f"old-{own}.txt": f"of {own}\n".encode() for own in NAMES}
    world.edit(folder, [Edit("write", path, content) for path, content in files.items()])
    world.git(folder, "init", "-q", "-b", "trunk")
    world.git(folder, "add", "-A")
    world.git(folder, "commit", "-qm", "start")
    world.edit(folder, [Edit("append", "notes.md", b"put aside\n")])
    world.git(folder, "stash", "-q")


class BuildModel(Model):
    """A build never touches the person's files; every checkpoint is what was merged, and holds every author's work."""

    def __init__(self, world: World, first: Path, stories: Mapping[str, Mapping[str, Sequence[Edit]]]) -> None:
        self._looked_at: dict[str, int] = {}
        super().__init__(world, first, stories)

    def changes(self, work: Work) -> Sequence[Edit]:
        del work
        return ()

    def check(self) -> None:
        super().check()
        for history in self.histories.values():
            seen = self._looked_at.get(history.run, history.born)
            for seq, event in history.each("work_gathered", "work_merged", after=seen):
                self._check_work(history, seq, event)
            self._looked_at[history.run] = history.last

    def _check_work(self, history: History, seq: int, event: Mapping[str, Any]) -> None:
        if event["kind"] == "work_gathered" and event["place"] != "main":
            wanted = self._done_for(history, event["turn"].removesuffix(".gather"), seq)
        elif event["kind"] == "work_merged" and not event["clashes"]:
            latest = {
                own["place"]: own["turn"].removesuffix(".gather")
                for before, own in history.each("work_gathered")
                if before < seq and not own["problems"] and own["place"] != "main"
            }
            wanted = {
                path: entry for turn in latest.values() for path, entry in self._done_for(history, turn, seq).items()
            }
        else:
            return
        there = self.objects.tree(event["commit"])
        for path, entry in wanted.items():
            if path != TELOS_FILE:
                assert there.get(path) == entry, (
                    f"{event['kind']} {event['turn']} of {history.run}@{seq}: {path!r} is {there.get(path)}, "
                    f"its author left {entry}"
                )

    def _done_for(self, history: History, turn: str, before: int) -> dict[str, Entry | None]:
        """What the attempts at a piece of work left, one after the other, by paths; None: deleted."""
        answers = {event["turn"]: event["text"] for seq, event in history.each("turn_answered") if seq < before}
        left: dict[str, Entry | None] = {}
        for attempt in attempts(turn):
            done = next(own for own in self.world.works.values() if own.nonce in answers[attempt])
            tree: dict[str, Entry] = {}
            for edit in self.stories[done.story].get(attempt, ()):
                edit.apply(tree, done.nonce)
                left[edit.path] = None
            left |= tree
        return left

    def expect(self, history: History, seq: int) -> None:
        self.check_commit(history, seq, self.head(history, seq))

    def head(self, history: History, seq: int) -> str:
        """What was merged when an event happened."""
        head = ""
        for event in history.events[:seq]:
            match event:
                case {"kind": "run_started", "plan": {"base": base}}:
                    head = base
                case {"kind": "run_forked", "commit": commit} if commit:
                    head = commit
                case {"kind": "work_merged", "commit": commit, "clashes": []}:
                    head = commit
                case {"kind": "work_gathered", "place": "main", "commit": commit, "problems": []}:
                    head = commit
                case _:
                    pass
        return head

    def commit_at(self, history: History, seq: int) -> str:
        return self.head(history, seq)

    def check_commit(self, history: History, seq: int, commit: str) -> None:
        ref = ref_of(history, seq)
        assert self.refs.get(ref, commit) == commit, f"{ref} is not what was merged then"
        assert self.print_of(commit), "all of it is there"

    def laid_out(self, history: History, at: History) -> Tree:
        del at
        return self.objects.tree(history.events[history.born - 1]["plan"]["base"])

    def rolled_back(self, place: Worktree, history: History, seq: int, *, finished: bool) -> None:
        known = set(self.histories)
        self.check_logs()
        new = [self.histories[run] for run in self.histories if run not in known]
        assert len(new) == 1 or not finished
        for run in new:
            assert (run.folder, run.origin) == (place.folder, (history.run, seq))
            assert run.events[run.born - 1]["commit"] == self.head(history, seq)

    def files_put_back(self, place: Worktree, history: History, seq: int, document: Mapping[str, Any]) -> None:
        del place, history, seq
        assert not document, "a build has no files in the work dir to put back"


def attempts(turn: str) -> Iterator[str]:
    """The attempts at a turn up to this one."""
    found = ATTEMPT.fullmatch(turn)
    assert found
    yield found["key"]
    yield from (f"{found['key']}.t{number}" for number in range(2, int(found["number"] or 1) + 1))


BUILDS = Flow(STANDING, make_repository, make_story, BuildModel, some_edit, commits_first=True)
