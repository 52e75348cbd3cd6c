"""What a proof needs before a run starts: clean rooms, and the tests before the run as the baseline."""

import threading
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logos.adapters.acceptance.folder import find_tests, keep_output
from logos.adapters.commands import TIMED_OUT, ShellCommands
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.proof.copies import TreeCopies
from logos.adapters.proof.prover import RoomProver
from logos.adapters.proof.sealing import SealingProver
from logos.app.preflight import in_own_environment
from logos.app.run_start import StartPlan
from logos.app.settings import Settings
from logos.app.workdir import Tell
from logos.domain.events import ProofRan
from logos.domain.plans import LevelsPlan, Plan
from logos.domain.proof import ProofRules, ProofStep
from logos.domain.turns import Prove, RunId, TurnId
from logos.errors import ConfigError
from logos.flows.cannot_run import why_it_cannot_run
from logos.flows.condense import tail
from logos.ports import Prover, Snapshots
from logos.views.run import RunView
from logos.views.text import count, duration

_OUTPUT_LINES = 15
# The result, the guarded files put back, planted tests, new tests on the old source.
_MOST_STEPS = 4
# Blind acceptance tests run on the base and on the result.
_BLIND_STEPS = 2
_HINT = "Name a command that works in this shell and this folder (--test CMD, or project_test_cmd in logos.json); "
_BY_PATH = "a program of the project's own environment by its path, such as .venv/bin/pytest"


@dataclass(frozen=True, slots=True)
class Proving:
    """What a run needs to prove its result. `baseline` is None where the run has one already.

    `store` keeps what the work tree is compared with, also where there are no checkpoints.
    """

    store: Snapshots | None
    prover: Prover | None = None
    rooms: RoomProver | None = None
    baseline: ProofRan | None = None


def prepare_proof(
    settings: Settings,
    start_plan: StartPlan[Any],
    resumed: RunView | None,
    snapshots: GitSnapshots | None,
    commands: ShellCommands,
    stack: ExitStack,
    tell: Tell,
) -> Proving:
    """Make the rooms for the proof of a run, and the baseline, unless an earlier driver has; nothing if none is due."""
    plan, run, wd = start_plan.first.plan, start_plan.journal.run, settings.work_dir
    if plan.proof is None:
        return Proving(snapshots)
    store = snapshots or TreeCopies(wd, [settings.state_path])
    rooms = stack.enter_context(closing(RoomProver(wd, store)))
    prover = SealingProver(rooms, find_tests, keep_output)
    known = resumed.state.baseline if resumed is not None else None
    if known is not None and (known.command, known.room.setup) == (plan.proof.command, plan.proof.setup):
        return Proving(store, prover, rooms)
    base = known.commit if known is not None else _base(plan, run, store)
    return Proving(store, prover, rooms, take_baseline(prover, plan.proof, base, commands, plan.wd, tell))


def _base(plan: Plan, run: RunId, store: GitSnapshots | TreeCopies) -> str:
    """The repository when the run started, the person's uncommitted work included; a build starts from a commit."""
    return plan.base if isinstance(plan, LevelsPlan) else store.of(run).get(1) or store.take(whole=True)


def take_baseline(
    prover: Prover, rules: ProofRules, base: str, commands: ShellCommands, work_dir: str, tell: Tell
) -> ProofRan:
    """Run the tests on the files before the run, in a clean room; ConfigError if they cannot run there.

    Failing tests are told: agents may mend them. Tests that fail only in the clean room would fail every proof.
    """
    tell(f"running `{rules.command}` once in a clean room, before the first turn")
    stop = threading.Event()
    ran = prover.run(Prove(TurnId("baseline"), ProofStep.BASELINE, rules, base), stop)
    if ran.problem:
        raise _refused(ran, ran.problem, work_dir, tell)
    problem = why_it_cannot_run(rules.command, ran.exit_code, ran.output)
    if ran.exit_code == TIMED_OUT and not problem:
        problem = f"it did not end within {rules.timeout:.0f} s (proof.timeout)"
    if ran.exit_code != 0:
        code, output = commands.run(rules.command, work_dir, rules.timeout, stop)
        if code == 0:
            raise _only_here(ran, problem, tell)
        if elsewhere := why_it_cannot_run(rules.command, code, output):
            raise _refused(ran, elsewhere, work_dir, tell)
        if problem:
            raise _only_here(ran, problem, tell)
    _say_cost(ran, _MOST_STEPS + (_BLIND_STEPS if rules.blind else 0), tell)
    return ran


def _refused(ran: ProofRan, problem: str, work_dir: str, tell: Tell) -> ConfigError:
    _show(ran, tell)
    error = ConfigError(f"the test command `{ran.command}` cannot run: {problem}; no agent was asked")
    error.add_note(_HINT + (in_own_environment(ran.command, Path(work_dir)) or _BY_PATH))
    return error


def _only_here(ran: ProofRan, problem: str, tell: Tell) -> ConfigError:
    _show(ran, tell)
    failed = ran.tests.failed if ran.tests is not None else ()
    which = f" ({', '.join(failed[:3])}{' …' if len(failed) > 3 else ''})" if failed else ""
    error = ConfigError(
        f"`{ran.command}` works in the work dir and not in a clean room: {problem or f'exit {ran.exit_code}'}{which}; "
        "no agent was asked"
    )
    error.add_note(
        "A clean room has the files that git tracks or would track, and dependencies that proof.setup installs or that "
        "are lent (.venv, node_modules …). Tests that need more: name a setup (--set proof.setup=CMD), variables "
        "(proof.env), the network (proof.network=on), or prove nothing (VERIFY_PASS=0)"
    )
    return error


def _show(ran: ProofRan, tell: Tell) -> None:
    for line in tail(ran.output.strip(), _OUTPUT_LINES).splitlines():
        tell(f"  {line}")


def _say_cost(ran: ProofRan, most_runs: int, tell: Tell) -> None:
    tests, room = ran.tests, ran.room
    counted = f" ({count(len(tests.executed), 'test')})" if tests is not None else ""
    seconds = duration(room.seconds) + (f" after a setup of {duration(room.setup_seconds)}" if room.setup else "")
    told = f"the tests pass now{counted}" if ran.exit_code == 0 else f"the tests fail now (exit {ran.exit_code})"
    need = "; a PASS needs tests that run" if tests is not None and not tests.executed else ""
    need = need if ran.exit_code == 0 else "; a PASS needs them to pass"
    where = "" if room.sandbox else ", without a sandbox (bubblewrap is not installed or does not work here)"
    tell(f"{told}{need}; one run takes {seconds}, the proof of a PASS at most {most_runs} such runs{where}")
