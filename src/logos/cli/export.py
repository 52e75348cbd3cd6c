"""`logos export`: the trace of a run, for a collector."""

from typing import Annotated

from logos.app.export import DEFAULT_ADDRESS, export_trace
from logos.cli.completion import known_runs
from logos.cli.options import AsJson, WorkDir, argument, command, flag
from logos.cli.output import console as show
from logos.errors import UsageError
from logos.views.text import count


@command(
    "logos export --otlp                                  # the newest run, to a collector on this machine",
    "logos export k3 --otlp https://collector.example:4318",
    "logos export k3 --otlp --content                     # with prompts and responses",
    "logos export --otlp --json | jq .trace",
)
def export(
    words: Annotated[
        list[str] | None,
        argument(
            "[RUN] [URL]",
            f"A run id or its beginning, default: the newest; a collector, default: `traces.otlp`, {DEFAULT_ADDRESS}.",
            autocompletion=known_runs,
        ),
    ] = None,
    otlp: Annotated[bool, flag("--otlp", "Send the run as OpenTelemetry spans (OTLP over HTTP).")] = False,
    content: Annotated[bool, flag("--content", "With prompts, responses, commands and outputs.")] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> None:
    """Send the trace of a run to a collector: the run, its turns, and the checks and steps of its proof.

    The spans are made from the log, so old runs have a trace, too, and sending it again sends the same spans.
    """
    if not otlp:
        raise UsageError("say how to export the run: --otlp")
    run, address = _named(words or [])
    done = export_trace(run, address, content=content, wd=wd)
    if as_json:
        told = {"run": done.run, "trace": done.trace, "address": done.address, "spans": len(done.spans)}
        show.document({**told, "finished": done.finished})
        return
    so_far = "" if done.finished else "; the run has not ended, and sending it again completes the trace"
    spans = count(len(done.spans), "span")
    show.put(show.console(), f"run {done.run}: {spans} of trace {done.trace} sent to {done.address}{so_far}")


def _named(words: list[str]) -> tuple[str | None, str]:
    """A run and an address, in any order; only an address has a scheme."""
    addresses = [word for word in words if "://" in word]
    runs = [word for word in words if "://" not in word]
    if len(addresses) > 1 or len(runs) > 1:
        raise UsageError(f"give one run and one address, not: {' '.join(words)}")
    return (runs or [None])[0], (addresses or [""])[0]
