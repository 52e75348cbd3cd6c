"""What runs and builds are started with alike: settings, a host, commands, a proof, checkpoints and watchers."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from logos.adapters.commands import ShellCommands
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.inbox import FileInbox, inbox_of
from logos.app.export import live_exporter
from logos.app.hosts import AgentsOf, MakeHost, Tell, check_host, choose_host
from logos.app.notifications import notifier_for
from logos.app.pins import Pinned, changed_in_words, current_files, pinned_settings, with_profiles
from logos.app.preflight import check_budgets
from logos.app.proofs import Proving, prepare_proof
from logos.app.run_start import StartPlan
from logos.app.run_state import state_file_writer
from logos.app.runs import reload_run
from logos.app.setting_sources import given_settings, resumed_settings
from logos.app.settings import Settings
from logos.app.steering import open_journal, other_run
from logos.domain.plans import GivenSetting
from logos.domain.turns import Agent
from logos.engine.checkpoints import Checkpoints, Look, no_checkpoints
from logos.engine.journal import Watcher
from logos.engine.messages import MessageTaker
from logos.engine.options import Dependencies, ShowStep
from logos.engine.runner import gate_in_words
from logos.errors import LogosError, PersonNeeded
from logos.flows.fold import RunState
from logos.ports import AgentHost, RunLog
from logos.views.run import RunView

State = TypeVar("State", bound=RunState)


@dataclass(frozen=True, slots=True)
class Caller:
    """What the caller of `run_here` and `build_here` hands over; without `make_host`, the settings choose the host."""

    tell: Tell
    make_host: MakeHost | None
    watchers: Sequence[Watcher[Any]]
    show_step: ShowStep
    # Whether a person is there, so that the run waits at an open gate.
    waits_at_gates: bool = False


@dataclass(frozen=True, slots=True)
class Ready(Generic[State]):
    """A run that can be started or continued: nothing has been written. `resumed` is the run that continues.

    `pinned` are the files that it keeps.
    """

    settings: Settings
    plan: StartPlan[State]
    resumed: RunView | None
    make_host: MakeHost
    pinned: Pinned
    snapshots: GitSnapshots | None


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a run is driven with; everything in it is closed with the stack that it was made with."""

    needs: Dependencies
    commands: ShellCommands
    proving: Proving
    checkpoints: Checkpoints | None
    watchers: list[Watcher[Any]]


def settled(
    settings: Settings, resumed: RunView | None, pinned: Pinned, tell: Tell
) -> tuple[Settings, tuple[GivenSetting, ...]]:
    """The settings of a new or resumed run, and what this command was given for it."""
    if ignored := changed_in_words(pinned, settings):
        tell(f"warning: {ignored}")
    if resumed is None:
        return settings, given_settings(settings)
    earlier = resumed.fold.ledger.given
    merged = resumed_settings(settings, earlier, resumed.state.plan, pinned_settings(pinned, settings))
    return merged, given_settings(settings, earlier)


def with_host(
    settings: Settings, caller: Caller, session: str, agents_of: AgentsOf, pinned: Pinned, *, bare: bool = False
) -> tuple[Settings, MakeHost, Pinned]:
    """Settings for the host that is used, how to make it, and the files to pin: none where an earlier driver has."""
    make_host = caller.make_host
    if make_host is None:
        settings, make_host = choose_host(settings, caller.tell, session, agents_of, bare=bare)
    files = () if pinned else current_files(settings, agents_of(settings))
    return with_profiles(settings, pinned or files), make_host, files


def with_messages(settings: Settings, resumed: RunView, log: RunLog, caller: Caller) -> RunView:
    """A run that is to be resumed, after what persons have sent since its last driver."""
    inbox = _inbox(settings, caller.tell)
    if inbox is not None:
        MessageTaker(inbox, partial(open_journal, log, settings)).take()
    return reload_run(log, resumed.run, resumed)


def check_gate(ready: Ready[Any], caller: Caller) -> None:
    """Raise PersonNeeded where a driver could only wait at an open gate, and no person is there.

    The settings of this command may take the gate away.
    """
    fold = ready.plan.journal.fold
    if ready.resumed is None or caller.waits_at_gates:
        return
    gate = fold.flow.apply(fold.state, ready.plan.first).gate
    if gate is not None:
        raise PersonNeeded(gate_in_words(fold.run, gate))


def checked_host(
    ready: Ready[Any], agents: Sequence[Agent], caller: Caller, stack: ExitStack, *, fresh: bool
) -> AgentHost:
    """The host, after it was asked whether it can run these agents within the budgets."""
    host = stack.enter_context(closing(ready.make_host(ready.settings, caller.tell)))
    check_host(host, agents, caller.tell, fresh=fresh)
    check_budgets(ready.settings, host, agents)
    return host


def wire(ready: Ready[Any], host: AgentHost, log: RunLog, look: Look, caller: Caller, stack: ExitStack) -> Wiring:
    """Make the rest; the tests may run once, as the baseline of the proof. `look` finds the work of a checkpoint."""
    settings, snapshots, tell = ready.settings, ready.snapshots, caller.tell
    run = ready.plan.journal.run
    notifier = stack.enter_context(closing(notifier_for(settings, run, tell, ready.resumed)))
    exporter = stack.enter_context(closing(live_exporter(settings, run, tell, ready.resumed)))
    commands = stack.enter_context(closing(ShellCommands(settings.paths.checks, settings.work_dir)))
    proving = prepare_proof(settings, ready.plan, ready.resumed, snapshots, commands, stack, tell)
    inbox = _inbox(settings, tell)
    needs = Dependencies(
        host,
        log,
        tell,
        notify=notifier.send,
        alive=notifier.alive,
        changed_files=lambda: changed_in_words(ready.pinned, settings, ended=True),
        show_step=caller.show_step,
        commands=commands,
        prover=proving.prover,
        inbox=inbox and stack.enter_context(closing(inbox)),
        other_run=other_run(log, settings, type(ready.plan.first.plan)),
        waits_at_gates=caller.waits_at_gates,
    )
    checkpoints = Checkpoints(snapshots, log, look, tell) if snapshots is not None else None
    watchers = _watchers(settings, (*caller.watchers, notifier.watch, exporter.watch), checkpoints, tell)
    return Wiring(needs, commands, proving, checkpoints, watchers)


def _inbox(settings: Settings, tell: Tell) -> FileInbox | None:
    try:
        return inbox_of(settings.paths.database, tell)
    except LogosError as error:
        tell(f"warning: nobody can tell this driver anything: {error}")
        return None


def _watchers(
    settings: Settings, others: Sequence[Watcher[Any]], checkpoints: Checkpoints | None, tell: Tell
) -> list[Watcher[Any]]:
    """Writes the state file, calls the others, and keeps the work tree at every event, where there are snapshots."""
    watching: list[Watcher[Any]] = [state_file_writer(settings), *others]
    if checkpoints is not None:
        watching.append(checkpoints)
    elif settings.checkpoints.enabled:
        watching.append(no_checkpoints(f"{settings.work_dir} is not a git repository", tell))
    return watching
