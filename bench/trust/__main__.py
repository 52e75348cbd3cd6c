"""`make bench-trust`: plays every case, prints a table, false-PASS and false-alarm rates, and what proofs cost."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from typing import TypeVar

from bench.trust.cases import Case, Kind, cases
from bench.trust.place import has_sandbox
from bench.trust.play import Judgement, Verdict, control, plain_run, play
from bench.trust.price import MOST_TIMES, slow_cases

R = TypeVar("R")


def main(arguments: Sequence[str]) -> int:
    given = _parser().parse_args(arguments)
    chosen = [case for case in cases() if _is_chosen(case, given)]
    if not chosen:
        print("no case has such a name", file=sys.stderr)
        return 2
    if given.list:
        print(
            "\n".join(f"{case.kind:7} {case.project.name:9} {case.flow:6} {case.name}: {case.how}" for case in chosen)
        )
        return 0
    if given.price:
        return 1 if sum(_is_dear(play(case)) for case in slow_cases()) else 0
    if given.plain:
        return _plain(chosen, given.jobs)
    show = (lambda _verdict: None) if given.json else _row
    verdicts = _in_parallel(
        chosen, given.jobs, lambda case: play(case, keep=given.keep, unverified=given.unverified), show
    )
    if given.json:
        print(json.dumps({**_sums(verdicts), "cases": [verdict.document() for verdict in verdicts]}, indent=2))
    else:
        _print_sums(verdicts, details=given.details or len(chosen) == 1)
    return 1 if any(verdict.is_bad for verdict in verdicts) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.trust", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="cases of this name; * stands for anything")
    parser.add_argument("--kind", choices=[*Kind], help="only cheats, or only honest runs")
    parser.add_argument("--project", help="only cases of this project")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="cases at the same time (default: cores)")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the cases")
    parser.add_argument("--details", action="store_true", help="print what Logos said in cases that went wrong")
    parser.add_argument("--list", action="store_true", help="list the cases and play none")
    parser.add_argument("--plain", action="store_true", help="only check that the cheats fool a plain run of the tests")
    parser.add_argument("--price", action="store_true", help="only measure what a proof of tests costs that take 12 s")
    parser.add_argument("--unverified", action="store_true", help="play with VERIFY_PASS=0: every cheat should pass")
    return parser


def _is_chosen(case: Case, given: argparse.Namespace) -> bool:
    named = not given.only or any(fnmatch(case.name, name) for name in given.only)
    return named and given.kind in (None, case.kind) and given.project in (None, case.project.name)


def _in_parallel(chosen: Sequence[Case], jobs: int, act: Callable[[Case], R], show: Callable[[R], None]) -> list[R]:
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        results: list[R] = []
        for result in pool.map(act, chosen):
            show(result)
            results.append(result)
        return results


def _plain(chosen: Sequence[Case], jobs: int) -> int:
    projects = {case.project.name: case.project for case in chosen}
    odd = [f"project {name}: {problem}" for name, project in projects.items() for problem in control(project)]
    wrong = _in_parallel(chosen, jobs, lambda case: (case, plain_run(case)), lambda _: None)
    odd += [f"{case.name}: {problem}" for case, problem in wrong if problem]
    print("".join(f"{problem}\n\n" for problem in odd), end="")
    print(f"{sum(not problem for _, problem in wrong)} of {len(wrong)} cases are as they say")
    return 1 if odd else 0


def _is_dear(verdict: Verdict) -> bool:
    """Prints what a proof costs, and whether that is more than it may."""
    before = verdict.steps.get("baseline", 0.0)
    after = {step: seconds for step, seconds in verdict.steps.items() if step != "baseline"}
    times = sum(after.values()) / before if before else 0.0
    told = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in after.items())
    print(
        f"{verdict.judgement:8} {verdict.case.name}: {times:.2f} times one run of {before:.1f} s ({told})", flush=True
    )
    return verdict.is_bad or times > MOST_TIMES


def _about(case: Case) -> str:
    return f"{case.kind:7} {case.project.name:9} {case.flow:5}"


def _row(verdict: Verdict) -> None:
    case = verdict.case
    cost = f"{verdict.seconds:5.1f} s {verdict.runs:2} runs"
    print(f"{verdict.judgement:12} {_about(case)} {cost}  {case.name}: {verdict.reason[:150]}", flush=True)


def _sums(verdicts: Sequence[Verdict]) -> dict[str, object]:
    counted = [one for one in verdicts if one.judgement not in (Judgement.SKIPPED, Judgement.OUT_OF_REACH)]
    cheats = [one for one in counted if one.case.kind is Kind.CHEAT]
    honest = [one for one in counted if one.case.kind is Kind.HONEST]
    proven = [one for one in honest if one.runs]
    costs = [one.proof_seconds / one.command_seconds for one in proven if one.command_seconds]
    return {
        "sandbox": has_sandbox(),
        "cheats": len(cheats),
        "false_passes": sum(one.judgement == Judgement.FALSE_PASS for one in cheats),
        "honest": len(honest),
        "false_alarms": sum(one.judgement == Judgement.REFUSED for one in honest),
        "broken": sum(one.judgement == Judgement.BROKEN for one in counted),
        "out_of_reach": sum(one.judgement == Judgement.OUT_OF_REACH for one in verdicts),
        "skipped": sum(one.judgement == Judgement.SKIPPED for one in verdicts),
        "projects": len({one.case.project.name for one in counted}),
        "test_runs_per_honest_run": round(statistics.mean([one.runs for one in honest]), 1) if honest else None,
        "proof_to_command": round(statistics.median(costs), 1) if costs else None,
        "seconds_per_honest_run": round(statistics.mean([one.seconds for one in honest]), 1) if honest else None,
    }


def _print_sums(verdicts: Sequence[Verdict], *, details: bool) -> None:
    sums = _sums(verdicts)
    print()
    for verdict in verdicts:
        if verdict.is_bad and details:
            print(f"--- {verdict.case.name} ({verdict.judgement})\n{verdict.case.how}\n{verdict.output}\n")
    apart = [one.case for one in verdicts if one.judgement == Judgement.OUT_OF_REACH]
    for case in apart:
        print(f"out of reach ({case.reach}): {case.name}: {case.how}")
    print(f"false PASS:   {sums['false_passes']} of {sums['cheats']} cheats")
    print(f"false alarms: {sums['false_alarms']} of {sums['honest']} honest runs")
    print(
        f"per honest run: {sums['test_runs_per_honest_run']} runs of the test command by Logos, "
        f"{sums['proof_to_command']} times as long as one of them, {sums['seconds_per_honest_run']} s in all"
    )
    print(
        f"{sums['projects']} kinds of project, {'with' if sums['sandbox'] else 'without'} bubblewrap, "
        f"{sums['skipped']} skipped, {sums['broken']} broken, {sums['out_of_reach']} out of reach"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
