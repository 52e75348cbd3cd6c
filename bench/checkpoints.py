"""What checkpoints cost: on a large repository, between two turns, and on disk."""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from measure import NOWHERE, Size, milliseconds, percentile, row, run, settings_for, size_of

from logos.adapters.git.command import Git
from logos.adapters.git.snapshots import GitSnapshots
from logos.app.start import run_here
from logos.domain.turns import RunId
from logos.testing import APPROVED, FAIL, GOOD_ANALYSIS, GOOD_PROGRAM, PASS, Says, ScriptedAgents, script
from logos.testing.cao_server import FakeCao

LARGE, SMALL = (200, 100), (5, 10)  # folders, and files in each
TIMES = 20
TARGET = 0.3
ANSWER = 2_000  # characters
ROUNDS = 20

TurnSpan = Callable[[], object]

_CHANCE = random.Random(1)
_WORDS = ["".join(_CHANCE.choices("abcdefghijklmnop", k=_CHANCE.randint(2, 9))) for _ in range(2_000)]
_TEXT = "".join(_CHANCE.choice(_WORDS) + _CHANCE.choice("    \n") for _ in range(20_000))


class Careless(GitSnapshots):
    """Snapshots that a power cut may take away: git waits for no disk."""

    @property
    def _main(self) -> Git:
        return _hasty(super()._main)

    @property
    def _git(self) -> Git:
        return _hasty(super()._git)


def _hasty(git: Git) -> Git:
    return replace(git, settings=(*git.settings, ("core.fsync", "none")))


def text(number: int, size: int = 4_000) -> str:
    """Words that git compresses about as well as code; others for every number."""
    start = number * 7_919 % (len(_TEXT) - size)
    return f"# {number}\n{_TEXT[start : start + size]}\n"


def file_of(wd: Path, folder: int, file: int) -> Path:
    return wd / f"part{folder:03}" / f"file{file:03}.py"


def files_in(shape: tuple[int, int]) -> str:
    return f"{shape[0] * shape[1]} files"


def make_repository(wd: Path, shape: tuple[int, int]) -> None:
    """One commit, its objects in one pack as after a clone, and its files."""
    folders, files = shape
    said = [b"commit refs/heads/main\ncommitter bench <bench@localhost> 0 +0000\ndata 5\nstart\n"]
    for folder in range(folders):
        for file in range(files):
            number = folder * files + file
            content = text(number, 1_000 + number * 37 % 5_000).encode()
            name = file_of(Path(), folder, file)
            said.append(b"M 644 inline %s\ndata %d\n%s\n" % (os.fsencode(name), len(content), content))
    wd.mkdir()
    for command, stdin in (
        ("init -q -b main", b""),
        ("-c core.compression=0 -c fastimport.unpackLimit=1 fast-import --quiet --depth=0", b"".join(said)),
        ("reset -q --hard", b""),
    ):
        subprocess.run(["git", *command.split()], cwd=wd, input=stdin, check=True)


def checkpoints() -> None:
    """A checkpoint beside what git alone needs; then what checkpoints add to a handoff."""
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        make_repository(small, SMALL)
        make_repository(large, LARGE)
        cost(large, Path(folder) / "snapshots")
        for wd, shape in ((small, SMALL), (large, LARGE)):
            handoffs_in(wd, files_in(shape))


def cost(wd: Path, home: Path) -> None:
    """All ways share one index, so that each finds it as the one before left it."""
    seqs, changes, index = count(1), count(), home / "index"

    def keep(snapshots: GitSnapshots) -> None:
        # As after a turn: the work tree is taken, and asked, sent and answered are pointed to it.
        commit = snapshots.take()
        snapshots.point(RunId("bench"), {next(seqs): commit for _ in range(3)})

    def status() -> None:
        git(wd, "status", "--porcelain")

    def by_hand() -> None:
        git(wd, "add", "-A", index=index)
        git(wd, "write-tree", index=index)

    what = f"checkpoint of {files_in(LARGE)}"
    ours, careless = GitSnapshots(wd, home=home), Careless(wd, home=home)
    ways: dict[str, TurnSpan] = {"ours": lambda: keep(ours), "careless": lambda: keep(careless)}
    first = timed(ways["ours"])
    row(f"{what}, the first", milliseconds(first.wall), f"leaves an index of {index.stat().st_size / 1e6:.1f} MB")
    took = side_by_side({**ways, "floor": status}, before=lambda: None)
    show(f"{what}, nothing changed", took, "git status")
    took = side_by_side({**ways, "floor": by_hand}, before=lambda: change_ten(wd, next(changes)))
    show(f"{what}, 10 changed", took, "git add, write-tree", TARGET)


def change_ten(wd: Path, number: int) -> None:
    """Seven files are changed, two are new, one is gone; in ten folders, other files every time."""
    folders = [(number * 10 + place) % LARGE[0] for place in range(10)]
    for place, folder in enumerate(folders[:9]):
        file = number % 50 if place < 7 else 100 + number
        file_of(wd, folder, file).write_text(text(100_000 + number * 10 + place))
    file_of(wd, folders[9], 99 - number // 20).unlink()


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds by the clock, and those of processors: the latter hardly mind what else the machine does."""

    wall: float
    cpu: float


def timed(act: TurnSpan) -> Took:
    cpu, wall = cpu_seconds(), time.monotonic()
    act()
    return Took(time.monotonic() - wall, cpu_seconds() - cpu)


def cpu_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def side_by_side(ways: Mapping[str, TurnSpan], before: TurnSpan) -> dict[str, list[Took]]:
    """Each way many times, by turns: what else the machine does meets all of them alike."""
    took: dict[str, list[Took]] = {name: [] for name in ways}
    for _ in range(TIMES):
        for name, way in ways.items():
            before()
            took[name].append(timed(way))
    return took


def show(what: str, took: Mapping[str, list[Took]], floor: str, target: float | None = None) -> None:
    walls = {name: [own.wall for own in owns] for name, owns in took.items()}
    middle = {name: statistics.median(seconds) for name, seconds in walls.items()}
    met = "" if target is None else f", {verdict(middle['ours'], target)}"
    row(
        f"{what}, p50",
        milliseconds(middle["ours"]),
        f"{floor} {milliseconds(middle['floor'])}, no fsync {milliseconds(middle['careless'])}, n={TIMES}{met}",
    )
    cpu = statistics.median(own.cpu for own in took["ours"])
    row(
        f"{what}, p95",
        milliseconds(percentile(walls["ours"], 0.95)),
        f"least {milliseconds(min(walls['ours']))}, of the processor {milliseconds(cpu)}",
    )


def verdict(seconds: float, target: float) -> str:
    return f"target < {milliseconds(target)}: {'met' if seconds < target else 'missed'}"


def git(wd: Path, *arguments: str, index: Path | None = None) -> None:
    env = {**os.environ, **({"GIT_INDEX_FILE": str(index)} if index else {})}
    subprocess.run(["git", *arguments], cwd=wd, env=env, stdout=subprocess.DEVNULL, check=True)


def handoffs_in(wd: Path, what: str) -> None:
    """From "file there and terminal idle" to "next prompt posted", with checkpoints and without, by turns."""
    gaps: dict[str, list[float]] = {"1": [], "0": []}
    for _ in range(2):
        for enabled, seen in gaps.items():
            said = team(wd, rounds=2)
            with FakeCao(wd / ".tmp" / "agent-responses", said, turn_seconds=0.05) as cao:
                run(cao, wd, CHECKPOINTS_ENABLED=enabled)
            seen += [taken - ready for ready, taken in zip(cao.ready, cao.taken[1:], strict=False)]
    kept, bare = gaps["1"], gaps["0"]
    row(
        f"handoff in a repository of {what}, p50",
        milliseconds(statistics.median(kept)),
        f"without checkpoints {milliseconds(statistics.median(bare))}, n={len(kept)}",
    )
    row(
        f"handoff in a repository of {what}, p95",
        milliseconds(percentile(kept, 0.95)),
        f"without checkpoints {milliseconds(percentile(bare, 0.95))}",
    )


def team(wd: Path, rounds: int) -> Mapping[str, Sequence[Says]]:
    """Five agents whose work passes in the last round; a programmer's turn changes three files."""
    turns = count(1)

    def program(_prompt: str) -> str:
        number = next(turns)
        for folder in range(3):
            file_of(wd, folder, number % SMALL[1]).write_text(text(time.monotonic_ns() + folder))
        return wordy(GOOD_PROGRAM)

    return script(
        analyst=[wordy(GOOD_ANALYSIS)],
        analyst_review=[wordy(APPROVED)],
        programmer=[program],
        programmer_review=[wordy(APPROVED)],
        tester=[wordy(FAIL)] * (rounds - 1) + [wordy(PASS)],
    )


def wordy(said: str) -> str:
    """An answer of a usual length; what is added says nothing."""
    return said + text(1, ANSWER - len(said)).replace("\n", "\n- ")


def growth() -> None:
    """What 100 turns leave on disk, with checkpoints and without."""
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        kept, bare = (grown_in(Path(folder) / enabled, enabled) for enabled in ("1", "0"))
    log, snapshots = kept[".telos/logos.db"], kept[".telos/snapshots"]
    row(
        "growth of .telos per 100 turns",
        str(kept[".telos"]),
        f"log {log}, what was said in it {kept['said'].apparent / 1000:.0f} kB; snapshots {snapshots}; "
        f"without checkpoints {bare['.telos']}",
    )
    row(
        "growth of .git per 100 turns",
        str(kept[".git"]),
        f"objects {kept['.git/objects']}; refs {kept['.git/refs']}; without checkpoints {bare['.git']}",
    )


def grown_in(wd: Path, enabled: str) -> dict[str, Size]:
    """What a run left in every place, per 100 turns."""
    make_repository(wd, SMALL)
    places = (".telos", ".telos/logos.db", ".telos/snapshots", ".git", ".git/objects", ".git/refs")
    before = {place: size_of(wd / place) for place in places}
    agents = ScriptedAgents(wd / ".tmp" / "agent-responses", team(wd, ROUNDS))
    settings = settings_for(wd, NOWHERE, CHECKPOINTS_ENABLED=enabled, MAX_ROUNDS=str(ROUNDS))
    ended = run_here(settings, bare=True, make_host=lambda *_: agents, tell=lambda _text: None)
    assert ended.exit_code == 0, ended
    share = 100 / len(agents.sent)
    said = Size(sum(len(prompt) for _, prompt in agents.sent) + len(agents.sent) * ANSWER)
    return {"said": said * share, **{place: (size_of(wd / place) - before[place]) * share for place in places}}
