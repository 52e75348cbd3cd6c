"""What is checked before a run: its configuration, its prompt, and the command that tests its result."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from logos.adapters.hosts.cao import ApiClient
from logos.adapters.hosts.local import LocalHost
from logos.adapters.hosts.providers import BY_PROGRAM, PROVIDERS
from logos.app.environments import virtual_environment
from logos.app.prompt import given_prompt, split_prompt
from logos.app.run_start import Continued
from logos.app.settings import Settings
from logos.app.workdir import Tell
from logos.domain.plans import CyclePlan, OnExhausted
from logos.domain.turns import Agent
from logos.errors import ConfigError, UsageError
from logos.flows.cannot_run import MODULE
from logos.ports import AgentHost
from logos.views.run import RunView
from logos.views.text import listed
from logos.waiting.provider_errors import OnLimit

_NODE = re.compile(r"(?:npm|npx|yarn|pnpm)\b")


def in_own_environment(command: str, wd: Path) -> str:
    """What to write instead, where the project's own environment has what the command needs; empty where it has not."""
    if _NODE.match(command) and (wd / "package.json").is_file() and not (wd / "node_modules").is_dir():
        return "the packages of package.json are not installed here: `npm install` first"
    environment = virtual_environment(wd)
    if environment is None:
        return ""
    for module in MODULE.findall(command):
        if environment.has(module.partition(".")[0]):
            better = re.sub(rf"\S+(?=\s+-m\s+{re.escape(module)}(?![\w.]))", environment.python, command)
            return f"{environment.name} has {module}: `{better}`"
    program = command.partition(" ")[0]
    own = Path(environment.python).with_name(program) if program and "/" not in program else None
    return f"{environment.name} has {program}: `{own}{command[len(program) :]}`" if own and (wd / own).is_file() else ""


def check_work_dir(settings: Settings) -> None:
    try:
        exists = settings.work_dir.is_dir()
    except OSError:
        # The path is too long for the file system.
        exists = False
    if not exists:
        raise ConfigError(f"wd = {str(settings.work_dir)[:200]!r}: there is no such directory")


def check_input(settings: Settings) -> None:
    """Check the work dir and the prompt before a lock, a log or a terminal exists."""
    check_work_dir(settings)
    given = given_prompt(settings)
    if given is not None:
        split_prompt(given)


def check_prompt(settings: Settings, continued: Continued, tell: Tell, *, strict: bool) -> None:
    """A prompt that differs from the unfinished run's; `strict`: it is an error unless --resume was given."""
    given = given_prompt(settings)
    if isinstance(continued, RunView):
        ours = cast(CyclePlan, continued.state.plan).prompt
    else:
        ours = continued.prompt if continued is not None else ""
    if given is None or not ours or given.strip() == ours.strip():
        return
    if strict and settings.resume is None:
        raise UsageError(
            "an unfinished run with another prompt is here: --resume continues it, --fresh starts the new prompt"
        )
    name = settings.prompt_file or "the prompt in the settings"
    tell(f"warning: {name} differs from the prompt of the unfinished run, which goes on with its own")


def check_reviews(settings: Settings, tell: Tell) -> None:
    limits = settings.limits
    if limits.max_review_cycles >= limits.min_review_cycles_before_approval:
        return
    why = (
        f"limits.max_review_cycles = {limits.max_review_cycles} is below min_review_cycles_before_approval = "
        f"{limits.min_review_cycles_before_approval}: no review can approve"
    )
    if limits.on_review_exhausted is OnExhausted.BLOCK:
        raise ConfigError(f"{why}, and on_review_exhausted = block would end every run")
    tell(f"warning: {why}; their objections are passed on")


def check_budgets(settings: Settings, host: AgentHost, agents: Sequence[Agent]) -> None:
    """ConfigError if a limit would count nothing on this host; scripted agents report what their script says."""
    if not isinstance(host, LocalHost | ApiClient):
        return
    for key, problem in budget_problems(settings, agents, on_server=isinstance(host, ApiClient)):
        error = ConfigError(problem)
        error.add_note(f"`--set {key}=` removes the limit")
        raise error


def budget_problems(settings: Settings, agents: Sequence[Agent], *, on_server: bool) -> Iterator[tuple[str, str]]:
    """Limits that an agent's turns would not count towards, by their key, and what to do instead."""
    spare = settings.handoff.on_limit is OnLimit.FALLBACK
    used = dict.fromkeys(name for agent in agents for name in (agent.provider, *(agent.spare if spare else ())))
    rows = [PROVIDERS.get(BY_PROGRAM.get(name, name)) for name in used]
    silent = [name for name, row in zip(used, rows, strict=True) if row is None or not row.reports_tokens]
    unpriced = [row.name for row in rows if row and not row.reports_cost and row.name not in settings.prices]
    for name in ("max_tokens", "max_cost_usd"):
        limit, why = getattr(settings.limits, name), ""
        if on_server:
            why = "a CAO server reports neither tokens nor costs; use limits.max_minutes"
        elif silent:
            why = f"{listed(silent)} reports no tokens; use limits.max_minutes"
        elif unpriced and name == "max_cost_usd":
            why = (
                f"{listed(unpriced)} reports tokens but no cost; set prices.{unpriced[0]}.input, .cached_input and "
                ".output (US dollars per million tokens, in logos.json or with --set), or limits.max_tokens instead"
            )
        if why and limit is not None:
            yield f"limits.{name}", f"limits.{name} = {limit:g} cannot be kept: {why}"
