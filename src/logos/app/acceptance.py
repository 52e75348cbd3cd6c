"""Blind acceptance tests of a run: whether they can be written here, and by whom."""

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from logos.adapters.acceptance.folder import AcceptanceFolder, folder_name
from logos.adapters.hosts.cao import ApiClient
from logos.adapters.proof.prover import RoomProver
from logos.adapters.responses import FileWatcher, ResponseFiles
from logos.app.hosts import MakeHost, Tell
from logos.app.run_start import StartPlan
from logos.app.settings import Settings
from logos.app.workdir import WorkDir
from logos.domain.events import RunResumed
from logos.domain.plans import Plan
from logos.domain.proof import AcceptanceTests
from logos.domain.roles import ACCEPTANCE_ANSWER, ACCEPTANCE_FILE, ACCEPTANCE_TESTER, Role
from logos.domain.turns import Agent, AgentName
from logos.engine.acceptance import AcceptanceTester
from logos.engine.cycle_run import StartMode
from logos.engine.options import Dependencies
from logos.errors import ConfigError
from logos.flows.cycle.flow import CycleState
from logos.ports import AgentHost


@dataclass(frozen=True, slots=True)
class _Work:
    """The port AcceptanceWork."""

    folder: AcceptanceFolder
    rooms: RoomProver

    def prepare(self, base: str) -> None:
        self.folder.fill(base, self.rooms.contents)

    def collect(self, base: str, response: str, told: str) -> tuple[AcceptanceTests, str]:
        return self.folder.collect(response, self.rooms.paths(base), told)


def without_blind(settings: Settings, tell: Tell) -> Settings:
    """For a form of a run that has no acceptance tester."""
    if not settings.proof.blind:
        return settings
    tell("warning: proof.blind is ignored: blind acceptance tests are for `logos run`")
    return settings.model_copy(update={"proof": settings.proof.model_copy(update={"blind": False})})


def check_blind(settings: Settings, start_plan: StartPlan[CycleState], tell: Tell) -> None:
    """ConfigError where `proof.blind` is set and there can be no blind tests; a warning where it is too late."""
    plan, mode, state = start_plan.first.plan, start_plan.mode, start_plan.journal.state
    if not settings.proof.blind:
        return
    if plan.proof is None:
        raise ConfigError(
            "blind acceptance tests (--blind, proof.blind) need a proof: name the test command (--test CMD)"
        )
    if mode is StartMode.FRESH and settings.start_agent not in (Role.ANALYST, Role.PEER_ANALYST):
        raise ConfigError(
            f"blind acceptance tests are written after the analysis: a run that starts at the {settings.start_agent} "
            "has none (--set proof.blind=0)"
        )
    if mode is StartMode.IMPORT or (mode is StartMode.RESUME and state.blind is None and _is_past_analysis(state)):
        tell("warning: no blind acceptance tests: they are written once, before the programmer's first turn of a run")


def check_blind_host(plan: Plan, host: AgentHost) -> None:
    """ConfigError where the agents are on a server that shows each what the others do."""
    if plan.proof is not None and plan.proof.blind and isinstance(host, ApiClient):
        raise ConfigError(
            "blind acceptance tests (--blind, proof.blind) need agents on this machine (--set host=local): the screens "
            "of a CAO server's terminals can be read by every other agent"
        )


def _is_past_analysis(state: CycleState) -> bool:
    return state.round > 1 or state.role not in (Role.ANALYST, Role.PEER_ANALYST)


def acceptance_tester(
    settings: Settings,
    start_plan: StartPlan[CycleState],
    rooms: RoomProver | None,
    make_host: MakeHost,
    needs: Dependencies,
    stack: ExitStack,
    tell: Tell,
) -> AcceptanceTester | None:
    """The agent with a host and a folder of its own; None where nobody asked for it, or its work is done."""
    plan, journal = start_plan.first.plan, start_plan.journal
    if plan.proof is None or not plan.proof.blind or rooms is None:
        return None
    if (tests := journal.state.blind.tests if journal.state.blind is not None else None) is not None:
        known = AcceptanceFolder(tests.run, settings.work_dir)
        if known.folder.is_dir():
            known.claim()
        if not journal.state.writes_blind_tests:
            return None
    moves = journal.ledger.moves + (isinstance(start_plan.first, RunResumed) and start_plan.first.moved)
    folder = AcceptanceFolder(folder_name(journal.run, moves), settings.work_dir)
    folder.make()
    own = settings.model_copy(update={"wd": str(folder.room), "state_file": ""})
    responses = ResponseFiles(WorkDir(folder.room).response_dir, {ACCEPTANCE_ANSWER: ACCEPTANCE_FILE})
    responses.ensure()
    signal = stack.enter_context(closing(FileWatcher(responses.folder)))
    own_host = stack.enter_context(closing(make_host(own, tell)))
    provider = next(agent.provider for agent in settings.role_agents() if agent.name == Role.TESTER)
    agent = Agent(AgentName(ACCEPTANCE_TESTER), provider, ACCEPTANCE_TESTER)
    options = replace(settings.run_options(), work_dir=str(folder.room))
    return AcceptanceTester(agent, replace(needs, host=own_host), options, _Work(folder, rooms), responses, signal)
