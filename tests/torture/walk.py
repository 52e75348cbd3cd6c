"""The walk: one random step after the other, each followed by a look at everything."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

from tests.support.drivers import KILLED
from tests.support.waiting import LAST_RESORT
from tests.torture import deaths
from tests.torture.deaths import Death
from tests.torture.files import Edit
from tests.torture.model import Model
from tests.torture.place import Worktree
from tests.torture.world import Child, History, World, read_log

# More than these are thrown away by the person, the oldest fork first.
MOST_PLACES = 4
# What nobody should ever have to say in a walk.
ALARMS = (
    "Traceback",
    "the checkpoint failed",
    "not in the checkpoints",
    "resuming from the state file",
    "damaged",
)


RunView = tuple[dict[str, Any], dict[str, list[Edit]]]


@dataclass(frozen=True, slots=True)
class Flow:
    """What differs between the cycle and the levels. A story is a script, and what each of its turns changes."""

    standing: Mapping[str, str]
    make_repository: Callable[[World, Path], None]
    make_story: Callable[[str, Random], RunView]
    make_model: Callable[[World, Path, Mapping[str, Mapping[str, list[Edit]]]], Model]
    some_edit: Callable[[Random], Edit]
    # A build begins at a commit.
    commits_first: bool = False


STEPS = {
    "drive_until_killed": 30,
    "drive_to_the_end": 5,
    "begin_anew": 2,
    "race": 4,
    "fork": 7,
    "fork_until_killed": 4,
    "fork_while_driving": 3,
    "roll_back": 9,
    "roll_back_until_killed": 8,
    "roll_back_while_driving": 1,
    "put_files_back": 3,
    "reset": 3,
    "edit": 10,
    "stage": 2,
    "commit": 4,
    "tidy": 1,
    "branch": 1,
}


class Walk:
    def __init__(self, flow: Flow, home: Path, seed: str) -> None:
        self.flow, self.seed = flow, seed
        self.timed = seed.endswith("-timed")
        self.world = World(home, flow.standing)
        self.stories: dict[str, Mapping[str, list[Edit]]] = {}
        first = home / "a repository"
        flow.make_repository(self.world, first)
        self.model = flow.make_model(self.world, first, self.stories)
        self.trail: list[str] = []
        self.rng = Random(seed)
        self.forks = 0

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Nobody outlives the walk; where it failed, it is told how to walk it again."""
        self.model.objects.close()
        self.world.close()
        if error is not None:
            error.add_note("\n".join([f"TORTURE_SEED={self.seed}, after these steps:", *self.trail]))

    def go(self, steps: int) -> None:
        for number in range(1, steps + 1):
            # A step depends on its number and on where the walk stands, not on how often others threw the dice.
            self.rng = Random(f"{self.seed}.{number}")
            (name,) = self.rng.choices([*STEPS], [*STEPS.values()])
            self.trail.append(f"{number} {name}")
            getattr(self, name)()
            self.model.check()
            if number % 25 == 0:
                self.model.check_every_checkpoint(self.rng)
        self.trail.append("the end")
        self.come_to_an_end()

    def say(self, words: str) -> None:
        self.trail[-1] += f": {words}"

    # -- driving

    def some_place(self) -> Worktree:
        """Mostly the first, which has the longest past."""
        places = self.model.places
        return places[0] if self.rng.random() < 0.5 else self.rng.choice(places)

    def drive(self, place: Worktree, **environment: str) -> Child:
        """A driver: it goes on with what is unfinished there, or begins anew."""
        if self.model.unfinished(place) is None or not place.story:
            self.tell_a_story(place)
            if self.flow.commits_first and place.is_dirty:
                self.commit(place)
        script = str(self.world.home / "stories" / f"{place.story}.json")
        if self.model.unfinished(place) is not None and place.told_to_resume:
            environment = {"RESUME": "1", **environment}
        return self.start(place, None, SCRIPT=script, **environment)

    def start(self, place: Worktree, arguments: list[str] | None, **environment: str) -> Child:
        self.model.comes(place, self.world.next_life)
        return self.world.start(place.folder, arguments, **environment)

    def tell_a_story(self, place: Worktree) -> None:
        place.story = str(len(self.stories) + 1)
        script, edits = self.flow.make_story(place.story, Random(f"{self.seed}.story.{place.story}"))
        self.stories[place.story] = edits
        (self.world.home / "stories" / f"{place.story}.json").write_text(json.dumps(script))

    def finish(self, child: Child, death: Death | None = None) -> int | None:
        if death is not None and death.after is not None and child.join(death.after) is None:
            child.end(death.by)
        code = child.join(LAST_RESORT)
        if code is None:
            child.end(SIGKILL)
            raise AssertionError(f"it did not come to an end in {LAST_RESORT:g} s:\n{child.said}")
        self.say(f"exit {code}")
        assert code != KILLED or death is not None, "nobody killed it"
        for alarm in ALARMS:
            assert alarm not in child.said, child.said
        return code

    def some_death(self, place: Worktree) -> Death:
        history = self.model.unfinished(place)
        return deaths.of_a_driver(self.rng, history.last if history is not None else 0, timed=self.timed)

    def some_death_of_a_command(self) -> Death:
        return deaths.of_a_command(self.rng, self.world.home / "deaths", timed=self.timed)

    def drive_until_killed(self) -> None:
        place = self.some_place()
        death = self.some_death(place)
        self.say(f"{place.folder.name} {death}")
        self.finish_driving(place, self.drive(place, **death.environment), death)

    def drive_to_the_end(self, place: Worktree | None = None) -> None:
        place = place or self.some_place()
        self.say(place.folder.name)
        self.finish_driving(place, self.drive(place))

    def finish_driving(self, place: Worktree, child: Child, death: Death | None = None) -> None:
        self.finish(child, death)
        if "--recreate" in child.said:
            # Its terminals were closed by somebody who was killed before he could say so.
            self.say("recreate")
            self.model.check()
            child = self.drive(place, RECREATE_TERMINALS="1")
            self.finish(child)
            assert "--recreate" not in child.said, child.said

    def begin_anew(self) -> None:
        place = self.some_place()
        place.story = ""
        death = self.some_death(place)
        self.say(f"{place.folder.name} {death}")
        self.finish_driving(place, self.drive(place, RESUME="0", **death.environment), death)

    def race(self) -> None:
        """Two drivers at once, in two work dirs of the repository."""
        if len(self.model.places) < 2:
            return self.fork()
        both = self.rng.sample(self.model.places, 2)
        fated = [(place, self.some_death(place)) for place in both]
        self.say(", ".join(f"{place.folder.name} {death}" for place, death in fated))
        begun = [(self.drive(place, **death.environment), death) for place, death in fated]
        for child, death in begun:
            self.finish(child, death)
        return None

    # -- going back

    def some_event(self, histories: list[History]) -> tuple[History, int] | None:
        """An event from which a run can go on, more often a late one."""
        fitting = [(own, seq) for own in histories for seq in range(1, own.last + 1) if self.model.fits(own, seq)]
        if not fitting:
            return None
        return fitting[max(int(self.rng.random() * len(fitting)), int(self.rng.random() * len(fitting)))]

    def fork(self, death: Death | None = None) -> None:
        self.make_room()
        found = self.some_event([own for place in self.model.places for own in self.model.runs_of(place)])
        if found is None:
            return
        history, seq = found
        place = next(own for own in self.model.places if own.folder == history.folder)
        self.forks += 1
        folder = self.world.home / f"fork {self.forks}"
        self.say(f"{history.run}@{seq} of {history.folder.name} to {folder.name} {death or ''}")
        flags = [history.run, "--at", str(seq), "--to", str(folder), "--json", "--wd", str(history.folder)]
        child = self.start(place, ["fork", *flags], **(death.environment if death else {}))
        code = self.finish(child, death)
        if code == KILLED:
            begun = [*read_log(folder)]
            if begun and self.rng.random() < 0.5:
                # It was killed, but it is all there; only what it is called was not said any more.
                self.say("all there")
                self.model.forked(history, history.meant_by(seq), folder, begun[0])
            else:
                self.clear_away(folder)
        elif code == 2:
            assert "has ended at event" in child.said, child.said
            assert seq >= history.decided, f"event {seq} can be gone on from:\n{child.said}"
        else:
            assert code == 0, child.said
            self.model.forked(history, history.meant_by(seq), folder, child.document["run"])
            assert child.document["wd"] == str(folder)

    def make_room(self) -> None:
        if len(self.model.places) < MOST_PLACES:
            return
        place = self.model.places[1]
        self.say(f"{place.folder.name} is thrown away")
        if self.model.unfinished(place) is not None:
            self.reset(place)
        self.world.git(self.model.common, "worktree", "remove", "--force", str(place.folder))
        self.world.git(self.model.common, "branch", "-qD", place.branch)
        self.model.thrown_away(place)

    def clear_away(self, folder: Path) -> None:
        """What a person does with what a killed fork left."""
        self.model.objects.close()
        shutil.rmtree(folder, ignore_errors=True)
        # A git that was killed while it made a worktree leaves it locked.
        self.world.try_git(self.model.common, "worktree", "unlock", str(folder))
        self.world.git(self.model.common, "worktree", "prune")
        said = self.world.git(self.model.common, "for-each-ref", "--format=%(refname:short)", "refs/heads/logos-fork/")
        for branch in said.decode().split():
            if f"refs/heads/{branch}" not in self.model.branches:
                self.world.git(self.model.common, "branch", "-qD", branch)

    def fork_until_killed(self) -> None:
        self.fork(self.some_death_of_a_command())

    def fork_while_driving(self) -> None:
        self.make_room()
        place = self.some_place()
        death = self.some_death(place)
        driver = self.drive(place, **death.environment)
        if self.timed:
            driver.join(self.rng.uniform(0.05, 0.3))
        else:
            self.wait_for_events(place, driver, self.rng.randint(1, 3))
        try:
            self.fork()
        finally:
            self.finish_driving(place, driver, death)

    def wait_for_events(self, place: Worktree, driver: Child, count: int) -> None:
        """Until a driver has added so many to its log, or has ended."""
        before = sum(len(rows) for rows in read_log(place.folder).values())
        while driver.join(0.02) is None and sum(len(rows) for rows in read_log(place.folder).values()) < before + count:
            pass

    def roll_back(self, death: Death | None = None) -> None:
        place = self.some_place()
        found = self.some_event(self.model.runs_of(place))
        if found is None:
            return
        history, seq = found
        self.say(f"{place.folder.name} to {history.run}@{seq} {death or ''}")
        flags = [f"{history.run}@{seq}", "--json", "--wd", str(place.folder)]
        child = self.start(place, ["rollback", *flags], **(death.environment if death else {}))
        code = self.finish(child, death)
        assert code in (0, KILLED), child.said
        self.model.rolled_back(place, history, history.meant_by(seq), finished=code == 0)

    def roll_back_until_killed(self) -> None:
        self.roll_back(self.some_death_of_a_command())

    def roll_back_while_driving(self) -> None:
        """Refused, and nothing is changed; unless the driver is done before."""
        place = self.model.places[0]
        history = self.model.unfinished(place)
        if history is None:
            return
        driver = self.drive(place)
        lock = place.folder / ".telos" / "driver.lock"
        while driver.join(0.02) is None and lock.read_text() != str(driver.process.pid):
            pass
        child = self.start(place, ["rollback", f"{history.run}@1", "--wd", str(place.folder)])
        code = self.finish(child)
        assert code == 1 or (code == 0 and driver.join(0) is not None), child.said
        if code == 0:
            self.model.rolled_back(place, history, 1, finished=True)
        self.finish_driving(place, driver, Death({}, 0.3 if self.timed else 0.0))

    def put_files_back(self) -> None:
        """The files alone; the run stays where it is."""
        place = self.some_place()
        found = self.some_event(self.model.runs_of(place))
        if found is None or not (self.is_still(place) or place.due is not None):
            return
        history, seq = found
        self.say(f"{place.folder.name} to {history.run}@{seq}")
        flags = [f"{history.run}@{seq}", "--files", "--json", "--wd", str(place.folder)]
        child = self.start(place, ["rollback", *flags])
        code = self.finish(child)
        self.model.files_put_back(place, history, history.meant_by(seq), child.document if code == 0 else {})

    def reset(self, place: Worktree | None = None) -> None:
        place = place or self.some_place()
        self.say(f"reset {place.folder.name}")
        child = self.start(place, ["reset", "--json", "--wd", str(place.folder)])
        code = self.finish(child)
        assert code == 0 or "nothing unfinished" in child.said or "no run was started" in child.said, child.said
        if code == 0:
            assert self.model.histories[child.document["run"]].is_open, child.document

    # -- what a person does

    def edit(self) -> None:
        place = self.some_place()
        edits = [self.flow.some_edit(self.rng) for _ in range(self.rng.randint(1, 4))]
        if not self.is_still(place):
            edits = [Edit("append", f"mine/{self.rng.randrange(5)}.txt", b"mine {nonce}\n")]
        self.say(f"{place.folder.name} {[(edit.how, edit.path) for edit in edits]}")
        self.world.edit(place.folder, edits)
        for edit in edits:
            edit.apply(place.tree)

    def stage(self) -> None:
        place = self.some_place()
        if self.is_still(place):
            path = self.rng.choice([*place.tree])
            self.say(f"{place.folder.name} {path!r}")
            place.stage(self.world, path)

    def commit(self, place: Worktree | None = None) -> None:
        place = place or self.some_place()
        if self.is_still(place):
            self.say(place.folder.name)
            self.model.committed(place)

    def is_still(self, place: Worktree) -> bool:
        """Whether it is known what lies there, and nobody is at work."""
        if self.world.agents_at_work(place.folder):
            return False
        self.model.follow()
        return place.due is None and not place.unsure

    def tidy(self) -> None:
        """The person's git packs what it has, and removes what nothing leads to."""
        self.model.objects.close()
        self.world.git(self.model.common, "gc", "--quiet", "--prune=now")

    def branch(self) -> None:
        self.model.branched(self.some_place(), f"topic-{len(self.trail)}")

    # -- the end

    def come_to_an_end(self) -> None:
        for place in self.model.places:
            if self.model.unfinished(place) is not None:
                self.drive_to_the_end(place)
                self.model.check()
        for place in self.model.places:
            if self.model.unfinished(place) is not None:
                self.reset(place)
            if [*place.folder.glob(".telos/worktrees/*")]:
                # Whoever ended that build was killed before he had tidied up.
                self.say(f"tidy {place.folder.name}")
                self.finish(self.drive(place, RESUME="1"))
            self.model.check()
        self.model.check_every_checkpoint(self.rng)
        self.model.check_nothing_is_left()
