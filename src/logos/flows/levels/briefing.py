"""What a level's agent is told: the telos down to its level, the specs above it, its tools and its handoff."""

from collections.abc import Mapping

from logos.domain.levels import LEVELS, PROVEN_BY_TOOLS, Level
from logos.domain.reports import Component, Proposal, Report, TurnKind
from logos.domain.specs import Direction, Proof, Spec
from logos.domain.turns import Fact
from logos.flows import condense, guidance
from logos.flows.levels.state import RECONCILING, LevelsState, PendingTurn

# Keep the end of a tool's output: it holds the summary.
EVIDENCE_LINES = 40


def facts_for(state: LevelsState, pending: PendingTurn) -> Mapping[str, Fact]:
    """Every fact that a document of the levels may use; facts that do not apply are empty."""
    level_def, plan = LEVELS[pending.level], state.plan
    own = state.spec_of(pending.level, pending.component)
    higher = (state.spec_of(level) for level in state.levels if level > pending.level)
    return {
        "turn": pending.turn,
        "level": level_def.name,
        "title": level_def.title,
        "mandate": level_def.mandate,
        "feature": plan.feature,
        "telos": "\n".join(f"{level.name}: {text}" for level, text in plan.telos if level >= pending.level),
        "specs": "\n\n".join(spec_in_words(spec) for spec in higher if spec is not None),
        "own_spec": spec_in_words(own) if own is not None else "",
        "tools": "\n".join(f"{tool.name}: `{tool.command}`" for tool in state.tools_of(pending.level)),
        "handoff": _handoff(state, pending),
        "previous": condense.capped(pending.said) if pending.turn in state.reassigned else "",
        "errors": "\n".join(f"- {error}" for error in pending.errors),
        "sections": ", ".join(level_def.sections),
        "taking_part": ", ".join(level.name for level in state.levels),
        "decision": decision_for(state, pending),
        "components": ", ".join(component.name for component in state.components),
        "person": guidance.in_words(state.guidance, pending.names, pending.key),
        "judges": pending.level is Level.L9,
        "divides": pending.level is Level.L3,
        **_component_facts(state, pending),
        **_dispute_facts(state, pending),
    }


def spec_in_words(spec: Spec) -> str:
    parts = [f"[{spec.id}] {LEVELS[spec.level].title}: {spec.summary}"]
    return "\n".join([*parts, *(f"## {section.name}\n{section.text}" for section in spec.sections)])


def handed(report: Report) -> str:
    """The handoff text of a report: its summary, its findings and the reason for its recommendation."""
    parts = [report.work_summary]
    for finding in report.results:
        parts.append(f"- {finding.what}: {finding.result}{f' ({finding.detail})' if finding.detail else ''}")
    return "\n".join([*parts, *([f"Recommended: {report.next.why}"] if report.next.why else [])])


def proposal_in_words(proposal: Proposal) -> str:
    changes = [f"- {change.level.name}: {change.change}" for change in proposal.changes]
    rework = [f"- to be worked on again: {', '.join(proposal.rework)}"] if proposal.rework else []
    return "\n".join([proposal.summary, *changes, *rework])


def proof_in_words(proof: Proof) -> str:
    head = f"{proof.level.name} {proof.tool}: `{proof.command}` exited {proof.exit_code}"
    return head if proof.passed else f"{head}\n{condense.tail(proof.output, EVIDENCE_LINES)}"


def component_in_words(component: Component) -> str:
    needs = f" (needs {', '.join(component.depends_on)})" if component.depends_on else ""
    return f"{component.name}{needs}: {component.purpose}"


def _handoff(state: LevelsState, pending: PendingTurn) -> str:
    if pending.kind in RECONCILING:
        return ""
    judging = [level for level in state.levels if level not in PROVEN_BY_TOOLS]
    if pending.kind is TurnKind.LINT or (pending.kind is TurnKind.VALIDATE and pending.level is min(judging)):
        return work_in_words(state)
    toward = (Direction.UP,) if pending.kind is TurnKind.VALIDATE else (Direction.DOWN, Direction.BACK)
    found = [given for given in state.handoffs_now if given.to_level is pending.level and given.toward in toward]
    return f"From {found[-1].from_level.name} ({found[-1].turn}):\n{found[-1].text}" if found else ""


def work_in_words(state: LevelsState) -> str:
    """The work of all authors as one text."""
    parts: list[str] = []
    for component in state.components:
        contribution, spec = state.contributions.get(component.name), state.spec_of(Level.L2, component.name)
        if contribution is not None and spec is not None:
            files = ", ".join(contribution.files) or "none"
            why = contribution.report.why_no_tests
            tests = ", ".join(contribution.tests) or (f"none: {why}" if why else "none")
            parts.append(f"{spec_in_words(spec)}\nFiles: {files}\nTests: {tests}")
    return "\n\n".join(parts)


def decision_for(state: LevelsState, pending: PendingTurn) -> str:
    """Decisions since this level last worked, made by the levels or by a person."""
    told = [f"A person answered: {state.answers[pending.agent_def]}"] if pending.agent_def in state.answers else []
    if state.rejected and pending.kind is TurnKind.DECOMPOSE:
        told.append(state.rejected)
    if state.settled and pending.kind in (TurnKind.DECOMPOSE, TurnKind.AUTHOR, TurnKind.LINT):
        # It started this sweep.
        settled = state.settled[-1]
        told.append(f"{settled.question}\nDecided by {settled.by}: {proposal_in_words(settled.proposal)}")
        told += [settled.evidence] if settled.evidence and pending.kind is not TurnKind.DECOMPOSE else []
    return "\n\n".join(told)


def _component_facts(state: LevelsState, pending: PendingTurn) -> dict[str, Fact]:
    component = next((own for own in state.components if own.name == pending.component), Component("", ""))
    wanted = (other for other in state.components if other.name in component.depends_on)
    return {
        "component": component.name,
        "purpose": component.purpose,
        "files": ", ".join(component.files),
        "provides": ", ".join(component.provides),
        "depends_on": "\n".join(map(component_in_words, wanted)),
    }


def _dispute_facts(state: LevelsState, pending: PendingTurn) -> dict[str, Fact]:
    dispute = state.dispute
    if dispute is None:
        proofs = "\n\n".join(map(proof_in_words, state.proofs)) if pending.kind is TurnKind.VALIDATE else ""
        return {"evidence": proofs, "question": "", "positions": "", "proposal": "", "objections": ""}
    later = pending.kind is not TurnKind.POSITION
    positions = (f"{level.name} {LEVELS[level].title}: {text}" for level, text in dispute.positions.items())
    return {
        "evidence": dispute.evidence,
        "question": dispute.question,
        "positions": "\n\n".join(positions) if later else "",
        "proposal": proposal_in_words(dispute.proposal) if dispute.proposals else "",
        "objections": "\n".join(f"- {objection}" for objection in dispute.objections) if later else "",
    }
