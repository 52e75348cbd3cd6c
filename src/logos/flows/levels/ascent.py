"""Up: tools prove the lowest levels; every level above judges its own spec with the tool results as evidence."""

from types import MappingProxyType

from logos.domain.levels import PROVEN_BY_TOOLS, Level, above
from logos.domain.plans import RulesVersion
from logos.domain.records import replace
from logos.domain.reports import Proposal, Report, TurnKind, Verdict
from logos.domain.specs import Direction, Proof, Question, Tool
from logos.domain.turns import TurnId
from logos.flows.cannot_run import why_it_cannot_run
from logos.flows.levels import proving
from logos.flows.levels.briefing import handed, proof_in_words
from logos.flows.levels.reconcile import Cause
from logos.flows.levels.state import LevelsState, LevelStatus, PendingTurn, with_item

# The answers to the question about a tool that cannot run.
_OPTIONS = (
    Proposal(
        "Run it again: you have installed it, or changed `[worktree] setup` or the tool in telos.toml "
        "(then continue with --reread)."
    ),
    Proposal("It is the work that is wrong: the levels reconcile it as a failure of this tool."),
)


def enter(state: LevelsState) -> LevelsState:
    return proceed(replace(state, proofs=(), standing=MappingProxyType({})))


def check_id(state: LevelsState, tool: Tool) -> TurnId:
    return TurnId(f"s{state.sweep}.{tool.level.name}.check.{tool.name}")


def checked(state: LevelsState, turn: TurnId, command: str, exit_code: int, output: str) -> LevelsState:
    left = state.unproven_tools(state.level)
    if not left or turn != check_id(state, left[0]):
        return state
    proof = Proof(state.level, left[0].name, command, exit_code, output)
    why = why_it_cannot_run(command, exit_code, output)
    if why and state.plan.rules >= RulesVersion.ASK_ABOUT_TOOLS:
        text = f"the tool {proof.tool} of {proof.level.name} cannot run: {why}. Agents cannot install it"
        question = Question(turn, text, _OPTIONS, evidence=proof_in_words(proof))
        return replace(state, cannot_run=proof).blocked(question)
    return proceed(replace(state, proofs=(*state.proofs, proof)))


def told_about_tool(state: LevelsState, proof: Proof, option: int) -> LevelsState:
    """Run a tool again that could not run; where a person chose so, treat it as a failure of the work."""
    state = replace(state, cannot_run=None)
    return proceed(replace(state, proofs=(*state.proofs, proof)) if option == len(_OPTIONS) else state)


def proceed(state: LevelsState) -> LevelsState:
    """Run a level's tools first, then ask the level itself where it judges."""
    level = state.level
    if state.unproven_tools(level):
        return state
    failed = [proof for proof in state.proofs if proof.level is level and not proof.passed]
    if failed:
        what = ", ".join(f"`{proof.command}` exits {proof.exit_code}" for proof in failed)
        evidence = "\n\n".join(map(proof_in_words, failed))
        state = _with_status(state, level, LevelStatus.FAILED)
        return state.dispute_over(Cause.FAILURE, level, f"{level.name} fails: {what}", evidence=evidence)
    if level in PROVEN_BY_TOOLS:
        standing = LevelStatus.PROVEN if state.tools_of(level) else LevelStatus.UNPROVEN
        return _higher(_with_status(state, level, standing))
    return state.ask_for(level, TurnKind.VALIDATE)


def _higher(state: LevelsState) -> LevelsState:
    higher = above(state.level, state.levels)
    return _passed(state) if higher is None else proceed(replace(state, level=higher))


def _with_status(state: LevelsState, level: Level, standing: LevelStatus) -> LevelsState:
    return replace(state, standing=with_item(state.standing, level, standing))


def validated(state: LevelsState, pending: PendingTurn, report: Report) -> LevelsState:
    if report.verdict is not Verdict.PASS:
        return _failed(_with_status(state, pending.level, LevelStatus.FAILED), pending, report)
    state = _with_status(state, pending.level, LevelStatus.PASSED)
    higher = above(pending.level, state.levels)
    if higher is not None:
        state = state.hand_off(pending.level, higher, Direction.UP, pending.turn, handed(report))
    return _higher(state)


def _failed(state: LevelsState, pending: PendingTurn, report: Report) -> LevelsState:
    """The conflict is at the highest level whose spec is contradicted."""
    contradicted = {level for failure in report.failures for level in failure.conflicts_with if level in state.levels}
    told = [
        f"{failure.what} (expected: {failure.expected or '-'}; observed: {failure.observed or '-'})"
        for failure in report.failures
    ]
    question = f"{pending.level.name} does not find its spec satisfied: " + "; ".join(told)
    evidence = "\n\n".join([handed(report), *map(proof_in_words, state.proofs)])
    return state.dispute_over(Cause.FAILURE, max({pending.level, *contradicted}), question, evidence=evidence)


def _passed(state: LevelsState) -> LevelsState:
    ran = ", ".join(f"`{proof.command}`" for proof in state.proofs)
    proof = f"; Logos itself ran {ran}" if ran else ""
    unproven = [level.name for level, standing in state.standing.items() if standing is LevelStatus.UNPROVEN]
    doubt = f"; nothing proves {' and '.join(sorted(unproven))}: telos.toml names no tool for it" if unproven else ""
    return proving.passed(state, f"every level finds its spec satisfied{proof}{doubt}")
