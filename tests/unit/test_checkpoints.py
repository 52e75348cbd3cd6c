"""Checkpoints: which commit the work tree was at every event, whoever is killed and whatever fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.events import (
    AcceptanceWritten,
    CheckRan,
    Event,
    GateDecided,
    GateOpened,
    Noted,
    PermissionDecided,
    PersonSaid,
    QuestionResolved,
    RecordsTampered,
    RunAbandoned,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    TerminalClosed,
    TerminalOpened,
    Topic,
    TurnAnswered,
    TurnAsked,
    TurnFailed,
    TurnSent,
    WorkCompared,
    WorkGathered,
    WorkMerged,
    WorkUndone,
)
from logos.domain.gates import GateKind
from logos.domain.ledger import Ledger
from logos.domain.proof import AcceptanceTests
from logos.domain.specs import ContentConflict
from logos.domain.turns import AgentName, FailureKind, Outcome, RunId, TerminalId, TurnId
from logos.engine.checkpoints import Checkpoints, Look, changed_files, commit_at, merged_work, no_checkpoints, work_tree
from logos.engine.keeper import WorkKeeper
from logos.errors import HostError, UsageError
from logos.flows.levels.state import MAIN
from logos.ports import Snapshots
from logos.testing import MemoryLog
from tests.builders import BASELINE, a_plan, examples
from tests.levels_builders import a_levels_plan

RUN = RunId("r1")
TURN = TurnId("r1.programmer.c1")
AGENT, TERMINAL = AgentName("programmer"), TerminalId("t1")


class Album:
    """Snapshots in memory: a work tree is a word, its commit the word with a mark. `broken` is what git says."""

    prefix = "shop/"

    def __init__(self) -> None:
        self.tree = "start"
        self.refs: dict[RunId, dict[int, str]] = {}
        self.takes = 0
        self.points = 0
        self.remembered: list[str] = []
        self.kept: list[str] = []
        self.named: list[str] = []
        self.restored: tuple[str, list[str]] | None = None
        self.broken: dict[str, Exception] = {}

    def take(self, *, anew: bool = False, whole: bool = False) -> str:
        del anew, whole
        self._may("take")
        self.takes += 1
        return f"+{self.tree}"

    def is_whole(self, commit: str) -> bool:
        return commit.startswith("whole")

    def point(self, run: RunId, commits: Mapping[int, str] | Mapping[str, str]) -> None:
        self._may("point")
        self.points += 1
        self.refs.setdefault(run, {}).update(
            {int(name): commit for name, commit in commits.items() if str(name).isdigit()}
        )
        self.named += [str(name) for name in commits if not str(name).isdigit()]

    def of(self, run: RunId) -> dict[int, str]:
        self._may("of")
        return dict(sorted(self.refs.get(run, {}).items()))

    def changed(self, since: str, now: str) -> list[str]:
        self._may("changed")
        return [] if since == now else self.tree.split()

    def digest(self, since: str, now: str, without: Iterable[str]) -> str:
        self._may("digest")
        folders = tuple(f"{self.prefix}{folder}" for folder in without)
        paths = (path for path in self.changed(since, now) if not path.startswith(folders))
        return " ".join(("of", *paths))

    def altered(self, since: str, now: str) -> list[str]:
        return [path for path in self.changed(since, now) if path in since]

    def put_back(self, commit: str, paths: Iterable[str]) -> None:
        self._may("put_back")
        self.restored = commit, list(paths)

    def keep(self, commit: str) -> None:
        self.kept.append(commit)

    def remember(self, commits: Iterable[str]) -> None:
        self.remembered += commits

    def _may(self, what: str) -> None:
        if what in self.broken:
            raise self.broken[what]


class Life:
    """One driver: it records events in the log, and shows each to its checkpoints, unless it is killed in between."""

    def __init__(self, log: MemoryLog, album: Album, look: Look | None = None) -> None:
        snapshots: Snapshots = album
        self.told: list[str] = []
        self._log = log
        self._watcher = Checkpoints(snapshots, log, look or work_tree, self.told.append)

    def see(self, *events: Event) -> None:
        for event in events:
            record = self.die_after(event)
            self._watcher(record, None, Ledger())

    def catch_up(self) -> None:
        self._watcher.catch_up(RUN)

    def die_after(self, event: Event) -> Any:
        """Only the log knows of the event."""
        return self._log.append(RUN, event, after=len(list(self._log.read(RUN))))


@pytest.fixture
def album() -> Album:
    return Album()


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


ASKED, SENT, ANSWERED = TurnAsked(TURN, AGENT, "do it"), TurnSent(TURN), TurnAnswered(TURN, "done")
STARTED, RESUMED, ENDED = RunStarted(a_plan()), RunResumed(a_plan()), RunEnded(Outcome.PASSED)
OPENED, CLOSED = TerminalOpened(AGENT, TERMINAL, "codex", "s1"), TerminalClosed(AGENT, TERMINAL)
LEFT = Noted(Topic.INTERRUPTED, "stopped by signal 15")

LOOKED_AT: list[Event] = [
    *(STARTED, RESUMED, ENDED, ANSWERED, LEFT),
    RunForked(RunId("r0"), 3, a_plan()),
    RunAbandoned("a new run was begun"),
    TurnFailed(TURN, FailureKind.PROVIDER, "gone"),
    CheckRan(TURN, "pytest", 0, ""),
    Noted(Topic.AFTERWARDS, "committed"),
]
PASSED_OVER: list[Event] = [
    *(OPENED, CLOSED, ASKED, SENT),
    QuestionResolved("q1", 1, ""),
    AcceptanceWritten(TURN, AcceptanceTests("r1", "a" * 64, "b" * 64, ("tests/test_cart.py",), 1, 1)),
    WorkCompared(TURN, ("cart.py",)),
    *(BASELINE, WorkUndone(TURN, ("cart.py",), "abc")),
    WorkGathered(TURN, "cart", "abc"),
    WorkMerged(TURN, "abc"),
    GateOpened(TURN, GateKind.AFTER_PLAN, "Is this the plan?"),
    *(GateDecided(TURN, True), PermissionDecided(TURN, True), PersonSaid("prices are in cents")),
    RecordsTampered("event 3 was changed"),
    *(Noted(topic, "") for topic in Topic if topic not in (Topic.INTERRUPTED, Topic.AFTERWARDS)),
]


# -- the cycle: the person's own work tree


@pytest.mark.parametrize("event", LOOKED_AT, ids=lambda event: event.kind)
def test_the_work_tree_is_looked_at_whenever_somebody_may_have_been_at_work(event: Event, album: Album) -> None:
    assert work_tree(event, album.take) == "+start"


@pytest.mark.parametrize("event", PASSED_OVER, ids=lambda event: event.kind)
def test_and_not_when_nobody_was(event: Event, album: Album) -> None:
    assert work_tree(event, album.take) is None
    assert album.takes == 0


def test_every_kind_of_event_is_thought_of() -> None:
    assert {type(event) for event in (*LOOKED_AT, *PASSED_OVER)} == set(get_args(Event))


@pytest.mark.scenario("LOG-15")
def test_every_event_has_the_work_tree_as_it_was_then(log: MemoryLog, album: Album) -> None:
    life = Life(log, album)
    life.see(STARTED, OPENED, ASKED, SENT)
    album.tree = "written"
    life.see(ANSWERED, ASKED, SENT)
    album.tree = "more"
    life.see(ANSWERED, ENDED)
    assert list(album.of(RUN).values()) == ["+start"] * 4 + ["+written"] * 3 + ["+more"] * 2
    assert list(album.of(RUN)) == [*range(1, 10)]
    assert life.told == []


def test_what_happens_between_two_looks_costs_nothing(log: MemoryLog, album: Album) -> None:
    life = Life(log, album)
    life.see(STARTED, *[OPENED] * 5, ASKED, SENT)
    assert (album.takes, album.points) == (1, 1)
    life.see(ANSWERED)
    assert (album.takes, album.points) == (2, 2)


def test_what_comes_after_the_end_has_the_work_tree_of_the_end(log: MemoryLog, album: Album) -> None:
    Life(log, album).see(STARTED, ENDED, CLOSED, CLOSED)
    assert commit_at(album.of(RUN), 4) == "+start"


def test_a_run_that_is_left_has_all_its_checkpoints(log: MemoryLog, album: Album) -> None:
    Life(log, album).see(STARTED, OPENED, ASKED, SENT, LEFT)
    assert list(album.of(RUN)) == [1, 2, 3, 4, 5]


# -- killed drivers


def test_what_a_killed_driver_left_without_a_checkpoint_gets_one_at_the_next_start(
    log: MemoryLog, album: Album
) -> None:
    first = Life(log, album)
    first.see(STARTED, ASKED)
    album.tree = "written"
    first.die_after(ANSWERED)
    first.die_after(ASKED)
    second = Life(log, album)
    second.see(RESUMED)
    assert album.of(RUN) == {1: "+start", 2: "+start", 3: "+written", 4: "+written", 5: "+written"}
    assert album.remembered == ["+start"]


def test_a_run_killed_before_its_first_checkpoint_gets_all_of_them(log: MemoryLog, album: Album) -> None:
    Life(log, album).die_after(STARTED)
    Life(log, album).see(RESUMED)
    assert album.of(RUN) == {1: "+start", 2: "+start"}


def test_what_a_killed_driver_left_can_be_made_good_without_a_driver(log: MemoryLog, album: Album) -> None:
    Life(log, album).see(STARTED)
    Life(log, album).die_after(ASKED)
    album.tree = "written"
    Life(log, album).die_after(ANSWERED)
    Life(log, album).catch_up()
    assert album.of(RUN) == {1: "+start", 2: "+start", 3: "+written"}


def test_many_events_without_a_checkpoint_need_one_look(log: MemoryLog, album: Album) -> None:
    without = Life(log, album)
    for event in (STARTED, *(ASKED, SENT, ANSWERED) * 50):
        without.die_after(event)
    album.tree = "written"

    Life(log, album).see(RESUMED)

    # One for the events that were missed, one for the event that was seen.
    assert (album.takes, album.points) == (2, 1)
    assert set(album.of(RUN).values()) == {"+written"}
    assert len(album.of(RUN)) == 152


def test_a_fork_goes_on_from_the_checkpoints_it_was_given(log: MemoryLog, album: Album) -> None:
    fork = RunId("r2")
    life = Life(log, album)
    life.see(STARTED, ANSWERED)
    log.fork(fork, log.read(RUN), RunForked(RUN, 2, a_plan(), commit="+start"))
    album.point(fork, album.of(RUN))
    album.tree = "of the fork"
    watcher = Checkpoints(album, log, work_tree, life.told.append)
    watcher(log.append(fork, RESUMED, after=3), None, Ledger())
    assert album.of(fork) == {1: "+start", 2: "+start", 3: "+start", 4: "+of the fork"}
    assert album.of(RUN) == {1: "+start", 2: "+start"}


STEPS = st.sampled_from(["edit", "kill", "event", "event", "event"])


@given(st.lists(st.tuples(STEPS, st.sampled_from([*LOOKED_AT[3:], *PASSED_OVER])), max_size=25))
@examples(30)
def test_whoever_is_killed_whenever_every_event_has_a_work_tree_that_was_there(steps: list[tuple[str, Event]]) -> None:
    log, album = MemoryLog(), Album()
    life, trees, seen = Life(log, album), ["start"], 1
    life.see(STARTED)
    for step, event in steps:
        match step:
            case "edit":
                album.tree = f"tree {len(trees)}"
                trees.append(album.tree)
            case "kill":
                life.die_after(event)
                life, seen = Life(log, album), len(list(log.read(RUN))) + 1
                life.see(RESUMED)
            case _:
                life.see(event)
        last = list(log.read(RUN))[-1]
        if step != "edit" and (last.event in LOOKED_AT or last.seq == seen):
            assert album.of(RUN)[last.seq] == f"+{album.tree}"
    life.see(ENDED)
    commits = album.of(RUN)
    assert list(commits) == [record.seq for record in log.read(RUN)]
    order = [trees.index(commit[1:]) for commit in commits.values()]
    assert order == sorted(order)


# -- when git fails


@pytest.mark.parametrize("error", [HostError("disk full"), UsageError("disk full"), OSError("disk full")])
def test_a_run_goes_on_when_no_checkpoint_can_be_made_and_it_is_said_once(
    log: MemoryLog, album: Album, error: Exception
) -> None:
    life = Life(log, album)
    life.see(STARTED)
    album.broken["take"] = error
    life.see(ANSWERED, ASKED, ANSWERED)
    assert life.told == ["warning: the checkpoint failed, the run continues without it: disk full"]
    album.broken["take"] = HostError("something else")
    life.see(ANSWERED)
    assert [line.rpartition(": ")[2] for line in life.told] == ["disk full", "something else"]
    album.broken.clear()
    album.tree = "mended"
    life.see(ANSWERED)
    assert album.of(RUN)[6] == "+mended"


def test_an_event_whose_look_failed_is_not_said_to_be_what_was_before(log: MemoryLog, album: Album) -> None:
    life = Life(log, album)
    life.see(STARTED)
    album.tree = "written"
    album.broken["take"] = HostError("locked")
    life.see(ANSWERED, ASKED)
    album.broken.clear()
    life.see(SENT, ANSWERED)
    assert album.of(RUN) == {1: "+start", 2: "+written", 3: "+written", 4: "+written", 5: "+written"}


def test_checkpoints_that_could_not_be_written_are_written_with_the_next(log: MemoryLog, album: Album) -> None:
    life = Life(log, album)
    album.broken["point"] = HostError("locked")
    life.see(STARTED, ASKED)
    album.tree = "written"
    life.see(ANSWERED)
    assert album.of(RUN) == {}
    album.broken.clear()
    life.see(ASKED, ANSWERED)
    assert album.of(RUN) == {1: "+start", 2: "+start", 3: "+written", 4: "+written", 5: "+written"}


def test_a_start_at_which_git_fails_is_made_good_by_the_next_event(log: MemoryLog, album: Album) -> None:
    Life(log, album).see(STARTED)
    Life(log, album).die_after(ANSWERED)
    life = Life(log, album)
    album.broken["of"] = HostError("locked")
    life.see(RESUMED)
    album.broken.clear()
    life.see(ASKED, ANSWERED)
    assert list(album.of(RUN)) == [1, 2, 3, 4, 5]


# -- builds: commits that the log names

PLAN = a_levels_plan()
CLASH = ContentConflict("same path", ("one", "two"), "cart.py")
HEADS: list[tuple[Event, str | None]] = [
    (RunStarted(PLAN), PLAN.base),
    (RunForked(RunId("r0"), 3, PLAN, commit="forked"), "forked"),
    (RunForked(RunId("r0"), 3, PLAN), None),
    (WorkMerged(TURN, "merged"), "merged"),
    (WorkMerged(TURN, "onto", (CLASH,)), None),
    (WorkGathered(TURN, MAIN, "mended"), "mended"),
    (WorkGathered(TURN, MAIN, "half", (), ("cart.py is declared, but does not exist",)), None),
    (WorkGathered(TURN, "cart", "piece"), None),
    (RunStarted(a_plan()), None),
    *((event, None) for event in (RunResumed(PLAN), ANSWERED, ENDED, LEFT, CLOSED)),
]


@pytest.mark.parametrize(("event", "head"), HEADS, ids=lambda it: getattr(it, "kind", str(it)))
def test_a_build_is_at_the_commit_that_was_merged_last(event: Event, head: str | None) -> None:
    assert merged_work(event, Album().take) == head


def test_every_event_of_a_build_leads_to_what_was_merged_by_then(log: MemoryLog, album: Album) -> None:
    first = Life(log, album, merged_work)
    first.see(RunStarted(PLAN), ANSWERED, WorkGathered(TURN, "cart", "piece"), WorkMerged(TURN, "one"), ASKED)
    first.die_after(WorkMerged(TURN, "two"))
    first.die_after(ASKED)
    second = Life(log, album, merged_work)
    second.see(RunResumed(PLAN), ANSWERED, WorkMerged(TURN, "onto", (CLASH,)), ENDED)
    heads = [PLAN.base] * 3 + ["one"] * 2 + ["two"] * 6
    assert list(album.of(RUN).values()) == heads
    assert album.takes == 0


# -- going back


@pytest.mark.parametrize(("seq", "commit"), [(0, ""), (1, ""), (2, "a"), (3, "a"), (5, "b"), (99, "b")])
def test_an_event_without_a_checkpoint_has_that_of_the_last_before_it(seq: int, commit: str) -> None:
    assert commit_at({5: "b", 2: "a"}, seq) == commit


def test_without_checkpoints_there_is_nothing_to_go_back_to() -> None:
    assert commit_at({}, 7) == ""


def test_where_no_files_are_kept_it_is_said_when_a_run_begins_and_not_again() -> None:
    told: list[str] = []
    watcher = no_checkpoints("/repo is no git repository", told.append)
    log = MemoryLog()
    for seq, event in enumerate((STARTED, ANSWERED, RESUMED, ENDED)):
        watcher(log.append(RUN, event, after=seq), None, Ledger())
    assert told == ["file checkpoints are off (/repo is no git repository); rollback restores run state only"]


# --- what a run has changed


def changed_since_start(album: Album, told: list[str] | None = None) -> tuple[str, ...] | None:
    return changed_files(album, (told if told is not None else []).append)(RUN, "")[0]


def test_what_differs_from_the_first_checkpoint_has_changed_but_for_the_specs() -> None:
    album = Album()
    album.point(RUN, {1: album.take(), 7: "+middle"})
    assert changed_since_start(album) == ()
    album.tree = "shop/cart.py shop/openspec/changes/x/tasks.md openspec.py"
    assert changed_since_start(album) == ("cart.py", "../openspec.py")


def test_what_is_compared_is_named_also_where_the_changes_are_not_known() -> None:
    album = Album()
    compare = changed_files(album, lambda _told: None)
    assert compare(RUN, "+base") == (("../start",), "+start", "of start")
    album.broken["changed"] = HostError("git is gone")
    assert compare(RUN, "+base") == (None, "+start", "")


def test_a_task_ticked_in_the_specs_is_the_same_tree() -> None:
    album = Album()
    compare = changed_files(album, lambda _told: None)
    album.tree = "shop/cart.py"
    before = compare(RUN, "+base")[2]
    album.tree = "shop/cart.py shop/openspec/changes/x/tasks.md"
    assert compare(RUN, "+base")[2] == before


def test_without_a_first_checkpoint_nobody_knows_what_has_changed() -> None:
    album = Album()
    album.point(RUN, {2: album.take()})
    assert changed_since_start(album) is None


@pytest.mark.parametrize("broken", ["of", "take", "changed", "digest"])
def test_a_comparison_that_fails_is_told_and_nobody_knows(broken: str) -> None:
    album, told = Album(), list[str]()
    album.point(RUN, {1: album.take()})
    album.broken[broken] = HostError("git is gone")
    assert changed_since_start(album, told) is None
    assert "git is gone" in told[0]


# -- agents that only judge


def keeper(album: Album, told: list[str] | None = None, latest: str | None = None) -> WorkKeeper:
    return WorkKeeper(album, lambda: latest, (told if told is not None else []).append)


def test_what_a_judge_changed_is_kept_put_back_and_named() -> None:
    album = Album()
    album.tree = "shop/cart.py shop/new.py"
    undone, new = keeper(album).put_back(TURN, "+shop/cart.py")
    assert (undone, new) == (WorkUndone(TURN, ("cart.py",), "+shop/cart.py shop/new.py"), "new.py")
    assert album.kept == ["+shop/cart.py shop/new.py"]
    assert album.restored == ("+shop/cart.py", ["shop/cart.py"])


def test_a_judge_that_changed_nothing_or_only_added_files_is_left_alone() -> None:
    album = Album()
    assert keeper(album).put_back(TURN, "+start") == (None, "")
    album.tree = "shop/report.txt"
    assert keeper(album).put_back(TURN, "+start") == (None, "report.txt")
    assert album.restored is None


def test_the_tree_before_a_turn_is_the_newest_checkpoint_or_taken() -> None:
    album = Album()
    assert keeper(album, latest="+known").tree() == "+known"
    assert album.takes == 0
    assert keeper(album).tree() == "+start"


def test_a_tree_that_cannot_be_stored_is_told_and_nothing_is_compared() -> None:
    album, told = Album(), list[str]()
    album.broken["take"] = HostError("git is gone")
    assert keeper(album, told).tree() == ""
    assert "git is gone" in told[0]
