"""What Logos costs, measured: `make bench`. Every number stands beside a floor or a target from the same run."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
from checkpoints import checkpoints, growth
from commands import LOGOS, cpu_of, folds, local_looks, peak_of, start_up
from idle import idle_build, idle_cycle
from long_logs import long_build, long_run
from measure import NOWHERE, PROMPT, begin_repository, milliseconds, percentile, row, run, settings_for, size_of
from real_server import real_server
from web_browser import events_seen, long_run_seen
from web_page import events_told, idle_clients, long_run_shown, many_runs_listed

from logos import profiles
from logos.adapters.hosts.script import read_script
from logos.adapters.hosts.scripted import ScriptedHost
from logos.adapters.store.recovery import repair
from logos.adapters.store.sqlite import SqliteLog
from logos.app.hosts import scripted_host
from logos.app.run_start import run_to_continue, start_run
from logos.app.setting_sources import load_settings
from logos.app.start import build_here, run_here
from logos.domain.events import Recorded, TurnAnswered, TurnAsked, TurnSent
from logos.domain.turns import RunId
from logos.testing import FAIL, PASS, ScriptedAgents, script
from logos.testing.cao_server import FakeCao

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.fake_cli import install_fake_cli


def in_a_workshop(**server: object) -> tuple[tempfile.TemporaryDirectory[str], Path, FakeCao]:
    folder = tempfile.TemporaryDirectory(prefix="logos-bench-")
    wd = Path(folder.name)
    said = script(tester=server.pop("tester", [PASS]))  # type: ignore[arg-type]
    return folder, wd, FakeCao(wd / ".tmp" / "agent-responses", said, **server)  # type: ignore[arg-type]


def handoffs() -> None:
    """From "file there and terminal idle" to "next prompt posted", over whole runs with 0.3 s agents."""
    gaps: list[float] = []
    for _ in range(3):
        folder, wd, cao = in_a_workshop(turn_seconds=0.3, tester=[FAIL, PASS])
        with folder, cao:
            run(cao, wd)
        gaps += [taken - ready for ready, taken in zip(cao.ready, cao.taken[1:], strict=False)]
    floor = handoff_floor()
    row("handoff, p50", milliseconds(statistics.median(gaps)), f"floor {milliseconds(floor)}, n={len(gaps)}")
    row("handoff, p95", milliseconds(percentile(gaps, 0.95)), "target ≤ 50 ms")


def handoff_floor() -> float:
    """What no driver can avoid: see the status, make two events durable, post the prompt."""
    folder, wd, cao = in_a_workshop()
    with folder, cao:
        log = SqliteLog(wd / ".telos" / "logos.db")
        client = httpx.Client(base_url=cao.url)
        terminal = client.post("/sessions", params={"agent_profile": "tester"}).json()["id"]
        samples: list[float] = []
        for number in range(30):
            began = time.monotonic()
            client.get(f"/terminals/{terminal}")
            log.append(RunId("floor"), TurnAsked(f"t{number}", "tester", PROMPT), after=2 * number)  # type: ignore[arg-type]
            log.append(RunId("floor"), TurnSent(f"t{number}"), after=2 * number + 1)  # type: ignore[arg-type]
            client.post(f"/terminals/{terminal}/input", params={"message": PROMPT})
            samples.append(time.monotonic() - began)
        log.close()
        client.close()
    return statistics.median(samples)


def setting_up() -> None:
    folder, wd, cao = in_a_workshop(create_seconds=1.0)
    with folder, cao:
        began = time.monotonic()
        run(cao, wd, START_AGENT="tester")
        seconds = cao.taken[0] - began
    row("set-up of five terminals that take 1 s each", f"{seconds:.2f} s", "one after another 5 s, target ≤ 2.5 s")


def traffic() -> None:
    texts = {name: profiles.text(name) for name in profiles.names()}
    folder, wd, cao = in_a_workshop(turn_seconds=2.0, tester=[FAIL, PASS], profile_texts=texts)
    with folder, cao:
        run(cao, wd)
    turns, requests = len(cao.taken), len(cao.requests)
    characters = sum(len(query.get("message", "")) for _, _, query in cao.requests)
    row("prompt characters of a run, rules in the profiles", f"{characters:,}", f"{turns} turns")
    row(f"HTTP requests of a run ({turns} turns of 2 s)", str(requests), f"{requests / turns:.1f} per turn")


def memory() -> None:
    """The peak of a driver in a process of its own, beside an interpreter that does nothing."""
    probe = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    folder, wd, cao = in_a_workshop(turn_seconds=0.1, tester=[FAIL, PASS])
    with folder, cao:
        env = {**os.environ, "WD": str(wd), "API": cao.url, "PROMPT": PROMPT}
        driver = f"import sys\nfrom logos.cycle import main\nmain([])\n{probe}"
        used = int(subprocess.check_output([sys.executable, "-c", driver], env=env, stderr=subprocess.DEVNULL))
    bare = int(subprocess.check_output([sys.executable, "-c", probe]))
    row("RSS of a driver, peak", f"{used / 1024:.0f} MB", f"bare interpreter {bare / 1024:.0f} MB, target < 80 MB")


FLOOD = """
import sys
sys.stdin.read()
for _ in range(1024):
    sys.stdout.write("all work and no play makes a dull boy\\n" * 27594)
"""


def flood() -> None:
    """The peak of a driver, or of a program that it waited for, while an agent prints a gigabyte."""
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        wd, agent = Path(folder) / "work", Path(folder) / "flood.py"
        wd.mkdir()
        agent.write_text(FLOOD)
        env = {**os.environ, "LOGOS_HOST": "local", "PROVIDER": "command", "MAX_FILE_REMINDERS": "0"}
        env |= {"AGENT_COMMAND": f"{sys.executable} -IS {agent}"}
        used = peak_of([LOGOS, "run", "be flooded", "--test", "true", "--wd", str(wd)], env)
        (printed,) = wd.glob(".telos/local/*/turn-1/out")
        size = printed.stat().st_size
    met = "met" if used < 150e6 else "missed"
    row(
        "RSS of a driver whose agent prints a lot, peak",
        f"{used / 1e6:.0f} MB",
        f"{size / 1e9:.2f} GB printed, target < 150 MB: {met}",
    )


def resuming() -> None:
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        settings = long_run(Path(folder), 10_000)
        began = time.monotonic()
        log = SqliteLog(settings.telos_dir / "logos.db")
        start_plan = start_run(settings, run_to_continue(settings, log, lambda _text: None), log, ())
        seconds = time.monotonic() - began
        assert start_plan.journal.fold.seq >= 10_000
        began = time.monotonic()
        read = sum(1 for _ in log._db.execute("SELECT body FROM events"))  # pyright: ignore[reportPrivateUsage]
        floor = time.monotonic() - began
        log.close()
        row(f"resume of a log of {read} events", f"{seconds:.2f} s", f"reading its rows {floor:.2f} s, target < 1 s")


def long_logs() -> None:
    """What commands that show a run or a build cost when it has many events."""
    events = 20_000
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        page = ("report", "--format", "html", "-o", str(Path(folder) / "report.html"))
        for kind, write in (("run", long_run), ("build", long_build)):
            wd = Path(folder) / kind
            wd.mkdir()
            write(wd, events)
            for words, target in (
                (("status",), 1.0),
                (("log",), 2.0),
                (("report",), 2.0),
                (page, 2.0),
                (("log", "--json"), 2.0),
            ):
                command = [LOGOS, *words, "--wd", str(wd)]
                used, memory_used = cpu_of(command, times=3), peak_of(command, os.environ)
                met = "met" if used < target else "missed"
                what = f"CPU of logos {' '.join(words[:3])}, a {kind} of {events} events"
                row(what, f"{used:.2f} s", f"target < {target:.0f} s: {met}, n=3; {memory_used / 1e6:.0f} MB")


def appends() -> None:
    """An event into the log, side by side with and without a mirror."""
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        paths = {name: Path(folder) / name / "logos.db" for name in ("bare", "mirrored")}
        logs = {
            "bare": SqliteLog(paths["bare"]),
            "mirrored": SqliteLog(paths["mirrored"], mirror=repair(paths["mirrored"], print, driving=True)),
        }
        took: dict[str, list[float]] = {name: [] for name in logs}
        for number in range(300):
            for name, log in logs.items():
                began = time.monotonic()
                log.append(RunId("long"), TurnAsked(f"t{number}", "tester", PROMPT), after=number)  # type: ignore[arg-type]
                took[name].append(time.monotonic() - began)
        for log in logs.values():
            log.close()
    bare, mirrored = (milliseconds(statistics.median(own)) for own in took.values())
    row("append of an event, p50", mirrored, f"without a mirror {bare}, n=300")


def local_turns() -> None:
    """A turn on the local host, from asked to answered, beside the same program run by hand."""
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        wd, programs = Path(folder) / "work", Path(folder) / "bin"
        wd.mkdir()
        install_fake_cli(programs, "codex", tester=FAIL)
        os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
        settings = settings_for(wd, NOWHERE, LOGOS_HOST="local", MAX_ROUNDS="8")
        run_here(settings, bare=True, tell=lambda _text: None)
        log = SqliteLog(settings.telos_dir / "logos.db")
        records = list(log.read(log.runs()[0]))
        log.close()
        asked = {record.event.turn: record.at for record in records if isinstance(record.event, TurnAsked)}
        turns = [record.at - asked[record.event.turn] for record in records if isinstance(record.event, TurnAnswered)]
        prompt = next(record.event.prompt for record in records if isinstance(record.event, TurnAsked))
        left = size_of(settings.telos_dir / "local") * (100 / len(turns))
        by_hand: list[float] = []
        for _ in turns:
            began = time.monotonic()
            subprocess.run([programs / "codex"], input=prompt.encode(), stdout=subprocess.DEVNULL, check=True)
            by_hand.append(time.monotonic() - began)
    extra = statistics.median(turns) - statistics.median(by_hand)
    row(
        "overhead of a turn on the local host, p50",
        milliseconds(extra),
        f"by hand {milliseconds(statistics.median(by_hand))}, n={len(turns)}, target < 100 ms",
    )
    row("growth of .telos/local per 100 turns on the local host", str(left), "and what the agents' programs print")


def many_runs() -> None:
    """A hundred whole runs at once in one process, with agents that answer at once."""
    count, probe = 100, psutil.Process()
    before, began = probe.memory_info().rss, probe.cpu_times()
    started = time.monotonic()

    def one(number: int, root: Path) -> None:
        wd = root / str(number)
        wd.mkdir()
        agents = ScriptedAgents(wd / ".tmp" / "agent-responses", script(tester=[FAIL, PASS]))
        settings = settings_for(wd, NOWHERE)
        ended = run_here(settings, bare=True, make_host=lambda _s, _t: agents, tell=lambda _text: None)
        assert ended.exit_code == 0

    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        runs = [threading.Thread(target=one, args=(number, Path(folder))) for number in range(count)]
        for thread in runs:
            thread.start()
        for thread in runs:
            thread.join()
    used, cpu = probe.memory_info().rss - before, probe.cpu_times()
    seconds = cpu.user + cpu.system - began.user - began.system
    row(
        f"{count} runs at once: CPU per run",
        f"{seconds / count:.3f} s",
        f"14 turns each, {time.monotonic() - started:.1f} s in all",
    )
    row(
        f"{count} runs at once: RSS per run",
        f"{used / count / 1e6:.2f} MB",
        f"process {probe.memory_info().rss / 1e6:.0f} MB",
    )


def a_build() -> None:
    """50 components, 8 authors at a time, agents of 0.2 s as real processes, each author in a worktree of its own."""
    seconds, components, at_once = 0.2, 50, 8
    named = [f"part{number:02}" for number in range(components)]
    script = {
        "agents": {
            **{f"L{level}": [{"delay": seconds}] for level in range(1, 10) if level != 3},
            "L3.decompose": [{"delay": seconds, "report": {"components": [
                {"name": name, "purpose": "a part", "files": [], "provides": [], "depends_on": []} for name in named
            ]}}],
            "L3.validate": [{"delay": seconds}],
        }
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder:
        wd = Path(folder)
        (wd / "telos.toml").write_text('purpose = "to be measured"\n')
        begin_repository(wd)
        settings = load_settings(None, {"WD": folder, "BUILD_MAX_PARALLEL": str(at_once)})
        asked: list[str] = []

        def watch(record: Recorded, *_: object) -> None:
            asked.extend([record.event.turn] if isinstance(record.event, TurnAsked) else [])

        began = time.monotonic()
        ended = build_here(
            settings, "measure it", make_host=scripted_host(read_script(script)), watchers=[watch], tell=lambda _: None
        )
        took = time.monotonic() - began
    assert ended.exit_code == 0, ended.reason
    assert len(asked) == 15 + components, asked
    # Seven levels down, the authors, the linter, seven levels up: the same agents by hand, with nothing in between.
    ideal = 15 * agents_by_hand(seconds, 1, 1) + agents_by_hand(seconds, components, at_once)
    bare = (15 + math.ceil(components / at_once)) * seconds
    row(
        f"build of {components} components, {at_once} at a time",
        f"{took:.2f} s = {took / ideal:.2f} x ideal",
        f"ideal {ideal:.2f} s, target ≤ 1.3; {len(asked)} turns of {seconds} s, {bare:.1f} s if agents began at once",
    )


def agents_by_hand(seconds: float, count: int, at_once: int) -> float:
    """How long scripted agents take that nobody orchestrates: start, sleep, answer, end."""
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as folder, ThreadPoolExecutor(at_once) as threads:
        host = ScriptedHost(
            Path(folder) / "host", read_script({"agents": {"L9": [{"delay": seconds}]}}), wd := Path(folder), wd
        )
        terminals = [host.create_terminal("s", "p", provider="x", working_directory=folder)["id"] for _ in range(count)]

        def turn(terminal: str) -> None:
            host.send_input(terminal, "Turn: s1.L9.decompose")
            while host.get_status(terminal) != "completed":
                time.sleep(0.001)

        began = time.monotonic()
        list(threads.map(turn, terminals))
        return time.monotonic() - began


def help_screen() -> None:
    def timed(command: list[str]) -> float:
        samples: list[float] = []
        for _ in range(9):
            began = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            samples.append(time.monotonic() - began)
        return statistics.median(samples)

    logos = str(Path(sys.executable).parent / "logos")
    bare = timed([sys.executable, "-c", "pass"])
    row(
        "logos --help",
        milliseconds(timed([logos, "--help"])),
        f"bare interpreter {milliseconds(bare)}, target < 200 ms",
    )


BENCHES: tuple[Callable[[], None], ...] = (
    handoffs,
    setting_up,
    traffic,
    real_server,
    memory,
    flood,
    local_turns,
    many_runs,
    a_build,
    resuming,
    long_logs,
    appends,
    checkpoints,
    growth,
    help_screen,
    idle_cycle,
    idle_build,
    start_up,
    folds,
    local_looks,
    many_runs_listed,
    long_run_shown,
    events_told,
    idle_clients,
    events_seen,
    long_run_seen,
)

if __name__ == "__main__":
    wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="logos-bench-") as state:
        os.environ["XDG_STATE_HOME"] = state
        for bench in BENCHES:
            if not wanted or bench.__name__ in wanted:
                bench()
