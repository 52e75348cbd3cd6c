"""The cycle in a walk: agents that change the person's own work tree, and checkpoints of it at every event."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from logos import testing
from logos.domain.roles import Role
from tests.torture.files import IGNORE_RULES, Edit, Tree, fingerprint
from tests.torture.model import KNOWN_BUGS, Model, is_look, ref_of
from tests.torture.place import Due, Worktree, read_mark, restored
from tests.torture.walk import Flow
from tests.torture.world import History, World, work

PROMPT = "*** ORIGINAL EXPLORE SUMMARY ***\nA greeting is missing.\n*** SCENARIO TEST ***\nRun it.\n"
STANDING = {
    "PROMPT": PROMPT,
    "MAX_ROUNDS": "3",
    "MAX_REVIEW_CYCLES": "2",
    "MIN_REVIEW_CYCLES_BEFORE_APPROVAL": "1",
    "VERIFY_PASS": "1",
    "PROJECT_TEST_CMD": "! test -e broken",
}
ROUNDS, CYCLES = 3, 2

# What is said, and how likely.
VERDICTS: dict[Role, Sequence[tuple[str, int]]] = {
    Role.ANALYST: [(testing.GOOD_ANALYSIS, 1)],
    Role.PEER_ANALYST: [(testing.APPROVED, 3), (testing.REVISE, 1)],
    Role.PROGRAMMER: [(testing.GOOD_PROGRAM, 1)],
    Role.PEER_PROGRAMMER: [(testing.APPROVED, 3), (testing.REVISE, 1)],
    Role.TESTER: [(testing.PASS, 5), (testing.FAIL, 4), ("I could not find out.\n", 1)],
}

# Names that are hard to quote, to sort, to tell from a flag, to convert; one that is a file and a folder in turn.
PATHS = (
    *(f"work/{number}.txt" for number in range(4)),
    "notes.md",
    "old/code.py",
    "a file.txt",
    "ünï/cödé.txt",
    "-dash",
    "q'uo\"te.txt",
    "new\nline.txt",
    "tr*ck?[x].txt",
    " around ",
    os.fsdecode(b"\xff\xfe.bin"),
    "line ends.bat",
    "version.id",
    "run.sh",
    "thing",
    "thing/inside",
    "thing/more",
    "broken",
    "debug.log",
    "build/out.o",
)
CONTENTS = (b"", b"no end", b"\0\xff\x80\0", b"a\r\nb\nc\rd\r\n", b"#!/bin/sh\necho 100%\n", b"$Id$ {nonce}\n")
TARGETS = ("notes.md", "nowhere", "../outside", "work")


def some_edit(rng: Random) -> Edit:
    path = rng.choice(PATHS)
    match rng.randrange(10):
        case 0 | 1:
            return Edit("delete", path)
        case 2:
            return Edit("link", "link", rng.choice(TARGETS).encode())
        case 3:
            return Edit("mark", "run.sh")
        case 4 | 5 | 6:
            return Edit("append", path, b"%d {nonce}\n" % rng.randrange(1000))
        case _:
            return Edit("write", path, rng.choice(CONTENTS))


def make_story(name: str, rng: Random) -> tuple[dict[str, Any], dict[str, list[Edit]]]:
    """A script for every turn there can be, and what each changes; every turn leaves a trace of its own."""
    turns: dict[str, Any] = {}
    edits: dict[str, list[Edit]] = {}
    for round_ in range(1, ROUNDS + 1):
        for role in Role:
            for cycle in range(1, CYCLES + 1):
                turn = f"r{round_}.{role}.c{cycle}"
                trace = Edit("append", f"work/{role}.txt", f"{turn} {{nonce}}\n".encode())
                edits[turn] = [trace, *(some_edit(rng) for _ in range(rng.choice((0, 1, 1, 2, 4))))]
                turns[turn] = _step(role, work(name, edits[turn]), rng)
    return {"turns": turns, "otherwise": "error"}, edits


def _step(role: Role, run: str, rng: Random) -> dict[str, Any]:
    said, weights = zip(*VERDICTS[role], strict=True)
    step: dict[str, Any] = {"say": rng.choices(said, weights)[0] + "- {output}\n", "run": run}
    if rng.random() < 0.2:
        step["delay"] = round(rng.uniform(0.02, 0.2), 2)
    if rng.random() < 0.1:
        step["after"] = 0.1
    if rng.random() < 0.03:
        step |= {"fault": "crash", "times": 1}
    return step


def make_repository(world: World, folder: Path) -> None:
    """A person's repository, with something staged and something in the stash."""
    folder.mkdir()
    files = {
        ".gitignore": IGNORE_RULES.encode(),
        ".gitattributes": b"*.bat text eol=crlf\n*.id ident\n",
        "notes.md": b"mine\n",
        "old/code.py": b"pass\n",
        "line ends.bat": b"echo\r\nend\r\n",
        "debug.log": b"ignored\n",
    }
    world.edit(folder, [Edit("write", path, content) for path, content in files.items()])
    world.git(folder, "init", "-q", "-b", "trunk")
    world.git(folder, "add", "-A")
    world.git(folder, "commit", "-qm", "start")
    world.edit(folder, [Edit("append", "notes.md", b"put aside\n")])
    world.git(folder, "stash", "-q")


HOLES = "a signal while a checkpoint is taken leaves a hole"


class CycleModel(Model):
    """Every event has the work tree that was there: what its driver saw at that moment, to the byte.

    Where the driver died before it could keep that, whoever comes next keeps what lies there then.
    """

    def expect(self, history: History, seq: int) -> None:
        commit = self.refs[ref_of(history, seq)]
        self.expected[history.run, seq] = self._expected(history, seq, commit)
        self.check_commit(history, seq, commit)

    def _expected(self, history: History, seq: int, commit: str) -> set[str]:
        run, visits, look = history.run, self.visits[history.folder], self._look(history, seq)
        if look < seq or look <= history.born:
            return self.acceptable(run, seq)
        answers = history.each("turn_answered", after=visits[0].since.get(run, 0))
        unsettled = any(visit.unsettled for visit in visits) and not any(own <= seq for own, _ in answers)
        if unsettled or history.events[look - 1]["kind"] == "noted":
            # An agent may have been at work beside whoever took it.
            return {self.print_of(commit)}
        driver, tree = self.noted.get((run, seq), ("", ""))
        return {tree} if driver in {visit.name for visit in visits} else self._lay(history)

    def _lay(self, history: History) -> set[str]:
        """What lay there when somebody came."""
        return {tree for visit in self.visits[history.folder] for tree in visit.lay}

    def _look(self, history: History, seq: int) -> int:
        """The last event up to this one at which the work tree was looked at."""
        return max(own for own, event in history.each() if own <= seq and is_look(event))

    def acceptable(self, run: str, seq: int) -> set[str]:
        """What going back to an event may give."""
        history = self.histories[run]
        look = self._look(history, seq)
        if (run, look) in self.expected:
            return self.expected[run, look]
        found = self._lay(history) if look >= history.born else set[str]()
        if look <= history.born and history.origin is not None:
            parent, at = history.origin
            return found | self.acceptable(parent, min(look, at))
        return found | ({self.noted[run, look][1]} if (run, look) in self.noted else set())

    def commit_at(self, history: History, seq: int) -> str:
        kept = [own for own in range(1, seq + 1) if ref_of(history, own) in self.refs]
        look = self._look(history, seq)
        # What nobody has kept yet, nobody can check.
        uncommitted = look not in kept and look != history.born
        return "" if uncommitted or not kept else self.refs[ref_of(history, kept[-1])]

    def fits(self, history: History, seq: int) -> bool:
        look = self._look(history, history.meant_by(seq))
        later = any(ref_of(history, own) in self.refs for own in range(look + 1, history.last + 1))
        hole = ref_of(history, look) not in self.refs and later and look != history.born
        assert not hole or HOLES in KNOWN_BUGS, f"event {look} of {history.run} has no checkpoint, and later ones have"
        return not hole

    def check_commit(self, history: History, seq: int, commit: str) -> None:
        assert self.print_of(commit) in self.acceptable(history.run, seq), (
            f"checkpoint {seq} of {history.run} ({history.events[seq - 1]['kind']}, commit {commit}) is not what lay "
            f"there: {self.noted.get((history.run, seq))}, {self.visits[history.folder]}"
        )

    def laid_out(self, history: History, at: History) -> Tree:
        return self._target(history, at)[1]

    def _target(self, run: History, at: History) -> tuple[str, Tree]:
        """The commit with which a run began at a checkpoint of another, and its files."""
        event = run.events[run.born - 1]
        tree = self.objects.tree(event["commit"])
        accepted = self.acceptable(at.run, event["at"])
        assert fingerprint(tree) in accepted, f"run {run.run} does not begin with the files of {at.run}@{event['at']}"
        return event["commit"], tree

    def forked(self, history: History, seq: int, folder: Path, name: str) -> None:
        super().forked(history, seq, folder, name)
        commit, _ = self._target(self.histories[name], history)
        assert [self.places[-1].head] == self.objects.parents(commit), "the fork is not where HEAD was"

    def rolled_back(self, place: Worktree, history: History, seq: int, *, finished: bool) -> None:
        known = set(self.histories)
        self.check_logs()
        self.check_works()
        mark = read_mark(place)
        if place.due is not None and mark.get("run") != place.due.run:
            # Whoever goes back finishes first what somebody else had begun.
            self.finish(place, place.due)
        new = next((self.histories[run] for run in self.histories if run not in known), None)
        assert new is not None or not finished
        if new is None:
            return
        assert new.origin == (history.run, seq)
        _, tree = self._target(new, history)
        if mark:
            place.due = Due(new.run, before=dict(place.tree), target=tree)
            return
        assert place.free or fingerprint(place.tree) in self.kept(), "what lay there was not kept"
        place.unsure.clear()
        place.tree = restored(place.tree, tree)

    def files_put_back(self, place: Worktree, history: History, seq: int, document: Mapping[str, Any]) -> None:
        tree = self.objects.tree(document["commit"])
        assert fingerprint(tree) in self.acceptable(history.run, seq), f"these are not the files of {history.run}@{seq}"
        lay = self.print_of(document["kept"])
        assert place.due is not None or lay == fingerprint(place.tree), "what lay there was not kept"
        # Whoever puts files back by hand has decided what is to lie there, whatever was to be finished.
        place.due = None
        place.tree = restored(place.tree, tree)


CYCLE = Flow(STANDING, make_repository, make_story, CycleModel, some_edit)
