"""What a person is asked at the gates of a cycle."""

from logos.flows.cycle.state import CycleState


def analysis_in_question(state: CycleState) -> str:
    author = f"r{state.round}.analyst.c{state.cycle}"
    if not state.analysis_approved:
        seen = (
            f"The peer analyst did not approve it in {state.cycle} review cycles; its objections go to the programmer."
        )
    else:
        seen = f"The peer analyst approved it in review cycle {state.cycle}."
    return f"The analysis is done ({author}). {seen} May the programmer begin?"


def result_in_question(state: CycleState, reason: str) -> str:
    proven = "" if state.verified else " Logos has not verified it."
    return f"The result of round {state.round} is ready: {reason}.{proven} Is it what you want?"
