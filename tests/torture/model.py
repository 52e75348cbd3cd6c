"""What must be true after every step, told from what agents and the person did, and compared with what is there."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from logos.adapters.store.sqlite import SqliteLog
from logos.app.checkpoints import checkpoint_at
from logos.app.runs import load_run
from logos.domain.turns import RunId
from tests.torture.files import Edit, Entry, Tree, different, fingerprint, read_tree, visible
from tests.torture.place import Due, Visit, Worktree, restored
from tests.torture.world import History, Objects, Work, World, read_log

# Faults of Logos that the walk goes around until they are mended.
KNOWN_BUGS: frozenset[str] = frozenset(
    {
        "a response in a closed terminal is asked for again",
        "a signal while a checkpoint is taken leaves a hole",
    }
)

# After these events a driver of the cycle looks at the work tree; between two of them nobody should have been at work.
LOOKS = (
    "run_started",
    "run_resumed",
    "run_forked",
    "turn_answered",
    "turn_failed",
    "check_ran",
    "run_ended",
    "run_abandoned",
)
LEAVING = ("interrupted", "afterwards")
# What git converts, by its .gitattributes.
CONVERTED = (".bat", ".id")
OF_OURS = re.compile(r"refs/(?:logos/|heads/logos(?:-work|-fork)?/).*")
CHECKPOINT = re.compile(r"refs/logos/([a-z0-9]{8})/(\d{1,9})")


class Model(ABC):
    """`stories` says what an agent changes in a turn of a story."""

    def __init__(self, world: World, first: Path, stories: Mapping[str, Mapping[str, Sequence[Edit]]]) -> None:
        self.world, self.stories = world, stories
        self.objects = Objects(world, first)
        self.common = first / ".git"
        self.histories: dict[str, History] = {}
        self.places: list[Worktree] = []
        self.refs: dict[str, str] = {}
        self.refs_of_person: dict[str, str] = {}
        self.branches: set[str] = set()
        self.expected: dict[tuple[str, int], set[str]] = {}
        self.noted: dict[tuple[str, int], tuple[str, str]] = {}
        self.visits: dict[Path, list[Visit]] = defaultdict(list)
        # Fingerprints of commits, which do not change.
        self.prints: dict[str, str] = {}
        self._noted_so_far = 0
        self.settle(first)

    def settle(self, folder: Path) -> Worktree:
        """A work dir as git has just made it."""
        head = self.world.git(folder, "rev-parse", "HEAD").decode().strip()
        branch = self.world.git(folder, "symbolic-ref", "--short", "HEAD").decode().strip()
        index = folder / self.world.git(folder, "rev-parse", "--git-path", "index").decode().strip()
        tree = self.objects.tree(head)
        place = Worktree(folder, read_tree(folder), head, branch, tree, tree, index, index.read_bytes())
        self.places.append(place)
        self.branches.add(f"refs/heads/{branch}")
        self.refs_of_person = self._refs()[1]
        return place

    def comes(self, place: Worktree, name: str) -> None:
        """Somebody comes to a work dir."""
        since = {history.run: history.last for history in self.histories.values()}
        lay = {fingerprint(place.tree), *([fingerprint(place.due.target)] if place.due is not None else [])}
        unsettled = bool(self.world.agents_at_work(place.folder))
        self.visits[place.folder].append(Visit(name, since, lay, unsettled))

    def runs_of(self, place: Worktree) -> list[History]:
        return [own for own in self.histories.values() if own.folder == place.folder]

    def unfinished(self, place: Worktree) -> History | None:
        """What a driver goes on with there: the newest run, if it has not ended."""
        runs = self.runs_of(place)
        return runs[-1] if runs and runs[-1].is_open else None

    # -- after every step

    def check(self) -> None:
        for place in self.places:
            if place.due is not None and not place.mark.exists():
                self.finish(place, place.due)
        self.check_logs()
        self.check_works()
        self.read_notes()
        for place in self.places:
            self.check_files(place)
            self.check_git(place)
        self.check_refs()
        self.visits.clear()

    def check_logs(self) -> None:
        """Histories only grow; one that was forked begins as the other's, to the letter."""
        for place in self.places:
            for run, rows in read_log(place.folder).items():
                history = self.histories.setdefault(run, History(run, place.folder))
                assert history.folder == place.folder, f"run {run} is in two logs"
                assert rows[: history.last] == history.rows, f"the history of run {run} was changed"
                fresh = history.last == 0
                history.grow(rows[history.last :])
                if fresh and history.origin is not None:
                    parent, at = history.origin
                    assert history.born == at + 1, f"run {run} begins at {history.born}, forked at {at}"
                    assert history.rows[:at] == self.histories[parent].rows[:at], f"run {run} has another past"
                self._answered_once(history)

    def _answered_once(self, history: History) -> None:
        answered: set[str] = set()
        for seq, event in history.each("turn_asked", "turn_sent", "turn_answered"):
            turn = event["turn"]
            assert turn not in answered, f"{event['kind']} {turn} at {seq} of {history.run}, though it was answered"
            if event["kind"] == "turn_answered":
                answered.add(turn)

    def follow(self) -> bool:
        """Whether agents did something since the last look; the model has done it, too."""
        works = self.world.new_works()
        for what, work in works:
            place = next((own for own in self.places if own.folder == work.folder), None)
            if place is not None:
                self._follow(place, what, work)
        return bool(works)

    def check_works(self) -> None:
        """Agents' own count: a turn is worked on once by a run that has it answered, never by one that inherited it."""
        self.follow()
        done: dict[tuple[str, str], list[Work]] = defaultdict(list)
        seats = {
            (history.folder, event["terminal"]): history.run
            for history in self.histories.values()
            for _, event in history.each("terminal_opened", after=history.born)
        }
        for work in self.world.works.values():
            run = seats.get((work.folder, work.terminal.name))
            if run is not None:
                done[run, work.turn].append(work)
        for history in self.histories.values():
            self._compare(history, done)

    def changes(self, work: Work) -> Sequence[Edit]:
        """What an agent's work changes in the person's work dir."""
        return self.stories[work.story].get(work.turn, ())

    def _follow(self, place: Worktree, what: str, work: Work) -> None:
        edits = self.changes(work)
        if what == "begin":
            place.unsure |= {path for edit in edits for path in edit.touches(place.tree)}
            return
        for edit in edits:
            edit.apply(place.tree, work.nonce)
        place.unsure.clear()

    def _compare(self, history: History, done: Mapping[tuple[str, str], list[Work]]) -> None:
        run, answers = history.run, dict[str, str]()
        for seq, event in history.each("turn_answered"):
            if seq < history.born:
                inherited = done.get((run, event["turn"]))
                assert not inherited, f"{event['turn']} was worked on in {run}, which had inherited its answer"
            else:
                answers[event["turn"]] = event["text"]
                assert (run, event["turn"]) in done, f"nobody worked on {event['turn']} of {run}"
        for turn in [turn for of, turn in done if of == run]:
            self._worked_once(history, turn, done[run, turn], answers.get(turn, ""))

    def _worked_once(self, history: History, turn: str, works: Sequence[Work], answer: str) -> None:
        # Who was ended in the middle of it, as whoever gives up a run does with its agents, has not done it.
        whole = [work for work in works if work.nonce in answer or self._responded(work)]
        if "a response in a closed terminal is asked for again" in KNOWN_BUGS and _reopened(history, works[0]):
            whole = [work for work in whole if work.nonce in answer][:1]
        assert len(whole) <= 1, f"{turn} of {history.run} was worked on {len(whole)} times"
        assert not answer or [work.nonce for work in whole if work.nonce in answer], f"{turn}: nobody said {answer}"

    def _responded(self, work: Work) -> bool:
        """Whether an agent came as far as its response; closed terminals have another name."""
        folders = work.terminal.parent.glob(f"{work.terminal.name}*/turn-*")
        own = (folder for folder in folders if work.nonce in (folder / "out").read_text(errors="replace"))
        return any((folder / "exit").exists() for folder in own)

    # -- files

    def check_files(self, place: Worktree) -> None:
        """What lies in a work dir is what agents and the person wrote, and what a rollback put back."""
        there, wrong = place.compare()
        while wrong and self.follow():
            # An agent that outlived its driver is at work while we look.
            there, wrong = place.compare()
        assert not wrong, "\n".join(
            f"{place.folder.name}/{path!r} is {_shown(there.get(path))}, it should be {_shown(place.tree.get(path))}"
            for path in sorted(wrong)
        )
        if place.unsure and not self.world.agents_at_work(place.folder) and not self.follow():
            # Nobody is there any more who could go on with it.
            place.tree = read_tree(place.folder)
            place.unsure.clear()

    def finish(self, place: Worktree, due: Due) -> None:
        """A rollback that was killed has been finished."""
        place.due = None
        place.unsure.clear()
        place.tree = restored(place.tree, due.target)

    def check_git(self, place: Worktree) -> None:
        """HEAD, branch, index and `git status` change by the person's hand alone."""
        flags = ("--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames")
        said = self.world.git(place.folder, "status", *flags).decode("utf-8", "surrogateescape").split("\0")
        about = dict(line[2:].split(" ", 1) for line in said if line.startswith("# "))
        assert (about["branch.oid"], about["branch.head"]) == (place.head, place.branch)
        assert place.index.read_bytes() == place.index_bytes, f"the index of {place.folder} was written"
        shown = {_path(line) for line in said if line and not line.startswith("# ")}
        expected = different(place.head_tree, place.index_tree) | different(place.index_tree, visible(place.tree))
        # What git converts when it checks out, it tells by the size, and takes for changed when that is another.
        wrong = place.without_free(path for path in shown ^ expected if not path.endswith(CONVERTED))
        if wrong and self.follow():
            return self.check_git(place)
        assert not wrong, f"git status of {place.folder} shows {sorted(shown)!r}, it should show {sorted(expected)!r}"
        return None

    # -- refs and checkpoints

    def _refs(self) -> tuple[dict[str, str], dict[str, str]]:
        """Ours and the person's."""
        said = self.world.git(self.common, "for-each-ref", "--format=%(refname) %(objectname)").decode()
        refs = dict(line.split(" ") for line in said.splitlines())
        ours = {ref: commit for ref, commit in refs.items() if OF_OURS.fullmatch(ref)}
        # The branch of a fork is the person's from the moment it is there.
        person = {ref: commit for ref, commit in refs.items() if ref not in ours or ref in self.branches}
        return {ref: commit for ref, commit in ours.items() if ref not in self.branches}, person

    def check_refs(self) -> None:
        ours, person = self._refs()
        assert person == self.refs_of_person, "refs of the person were changed"
        for ref, commit in self.refs.items():
            if CHECKPOINT.fullmatch(ref):
                assert ours.get(ref) == commit, f"checkpoint {ref} was {commit} and is {ours.get(ref)}"
        new = [found for ref in ours.keys() - self.refs.keys() if (found := CHECKPOINT.fullmatch(ref))]
        self.refs = ours
        for run, seq in sorted((found[1], int(found[2])) for found in new):
            if run in self.histories:
                self.expect(self.histories[run], seq)

    def kept(self) -> set[str]:
        """What was put aside before something else was put in its place."""
        kept = {commit for ref, commit in self._refs()[0].items() if ref.startswith("refs/logos/snapshots/")}
        return {self.print_of(commit) for commit in kept}

    def print_of(self, commit: str) -> str:
        if commit not in self.prints:
            self.prints[commit] = fingerprint(self.objects.tree(commit))
        return self.prints[commit]

    def read_notes(self) -> None:
        """What drivers noted of the work tree, event by event."""
        lines = (self.world.home / "trees").read_text().splitlines()
        for line in lines[self._noted_so_far :]:
            life, run, seq, tree = line.split()
            self.noted[run, int(seq)] = (life, tree)
        self._noted_so_far = len(lines)

    # -- what differs between the flows

    @abstractmethod
    def expect(self, history: History, seq: int) -> None:
        """What a checkpoint that was made in this step must hold."""

    def fits(self, history: History, seq: int) -> bool:
        """Whether the walk may go back to an event, for all we know of faults."""
        del history, seq
        return True

    @abstractmethod
    def commit_at(self, history: History, seq: int) -> str:
        """The commit that an event must have; empty where nobody can know."""

    @abstractmethod
    def check_commit(self, history: History, seq: int, commit: str) -> None:
        """That the commit of an event holds what it must, to the byte."""

    @abstractmethod
    def laid_out(self, history: History, at: History) -> Tree:
        """What a fork must find in its new work dir."""

    @abstractmethod
    def rolled_back(self, place: Worktree, history: History, seq: int, *, finished: bool) -> None:
        """Somebody went back to an event, or was killed on the way."""

    @abstractmethod
    def files_put_back(self, place: Worktree, history: History, seq: int, document: Mapping[str, Any]) -> None:
        """Somebody put back the files of an event, or was refused: then nothing is told."""

    # -- what a person did

    def forked(self, history: History, seq: int, folder: Path, name: str) -> None:
        place = self.settle(folder)
        place.told_to_resume = True
        self.check_logs()
        run = self.histories[name]
        assert (run.folder, run.origin, run.last) == (folder, (history.run, seq), seq + 1)
        assert place.branch == f"logos-fork/{name}"
        laid_out = self.laid_out(run, history)
        assert place.tree == laid_out, f"the fork has other files: {sorted(different(place.tree, laid_out))!r}"
        place.story = next(own.story for own in self.places if own.folder == history.folder)

    def thrown_away(self, place: Worktree) -> None:
        """A person removed a fork's work dir: its log is gone with it, its checkpoints are not."""
        self.places.remove(place)
        del self.refs_of_person[f"refs/heads/{place.branch}"]

    def committed(self, place: Worktree) -> None:
        place.commit(self.world)
        self.refs_of_person[f"refs/heads/{place.branch}"] = place.head

    def branched(self, place: Worktree, name: str) -> None:
        place.switch(self.world, name)
        self.refs_of_person[f"refs/heads/{name}"] = place.head

    # -- now and then, and at the end

    def check_every_checkpoint(self, rng: Random) -> None:
        """Whatever event a person names: its files are there, and are the right ones."""
        every = [(own, seq) for own in self.histories.values() for seq in range(1, own.last + 1)]
        for history, seq in every:
            commit = self.commit_at(history, seq)
            if commit:
                self.check_commit(history, seq, commit)
        there = {place.folder for place in self.places}
        for history, own in rng.sample(every, min(len(every), 10)):
            seq = history.meant_by(own)
            if history.folder in there and (commit := self.commit_at(history, seq)):
                with closing(SqliteLog(history.folder / ".telos" / "logos.db")) as log:
                    found = checkpoint_at(history.folder, load_run(log, RunId(history.run)), seq)
                assert found.commit == commit, f"event {seq} of {history.run} is taken for {found.commit}"

    def check_nothing_is_left(self) -> None:
        assert not self.world.agents_at_work(), "agents are still at work"
        locks = [
            *self.common.rglob("*.lock"),
            *(lock for own in self.places for lock in own.folder.rglob(".telos/snapshots/*.lock")),
        ]
        # Of a run that never came to be, as whoever made it was killed, nobody asks again.
        locks = [lock for lock in locks if run_of_ref(lock) in (None, *self.histories)]
        assert not locks, f"left behind: {locks}"
        said = self.world.git(self.common, "worktree", "list", "--porcelain", "-z").decode().split("\0")
        tops = {line.removeprefix("worktree ") for line in said if line.startswith("worktree ")}
        assert tops == {str(place.folder) for place in self.places}, f"worktrees: {tops}"
        registered = [*(self.common / "worktrees").iterdir()] if len(self.places) > 1 else []
        assert len(registered) == len(self.places) - 1, f"half registered: {registered}"
        self.world.git(self.common, "fsck", "--no-dangling", "--no-progress")


def _reopened(history: History, work: Work) -> bool:
    """Whether the terminal of an agent was closed and opened again."""
    opened = [seq for seq, event in history.each("terminal_opened") if event["terminal"] == work.terminal.name]
    closed = [seq for seq, event in history.each("terminal_closed") if event["terminal"] == work.terminal.name]
    return bool(opened and closed) and min(closed) < history.last


def ref_of(history: History, seq: int) -> str:
    return f"refs/logos/{history.run}/{seq}"


def is_look(event: Mapping[str, Any]) -> bool:
    return event["kind"] in LOOKS or event.get("topic") in LEAVING


def _shown(entry: Entry | None) -> str:
    return "not there" if entry is None else f"{entry[0]} {entry[1][-120:]!r}"


def _path(line: str) -> str:
    return line[2:] if line[0] in "?!" else line.split(" ", 8)[-1]


def run_of_ref(path: Path) -> str | None:
    """The run to which a file below refs/logos belongs; None for every other file."""
    parts = path.parts
    below = next((at + 2 for at in range(len(parts) - 2) if parts[at : at + 2] == ("refs", "logos")), None)
    return None if below is None else parts[below]
