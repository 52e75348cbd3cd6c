"""`logos proof`: the certificate of a run, exported for others, or repeated."""

import sys
from pathlib import Path
from typing import Annotated

from logos.app.certificate import (
    ProofFile,
    certificate,
    export_proof,
    prove_again,
    prove_file_again,
    read_proof_file,
)
from logos.app.registry import place_of_run
from logos.app.workdir import wd_flag
from logos.cli.options import AsJson, WorkDir, argument, command, flag, known_runs, value
from logos.cli.output import console as show
from logos.cli.output.proof import put_certificate, put_repetition
from logos.errors import UsageError
from logos.views.proof_document import CertificateDocument, ExportedDocument, RepeatedDocument
from logos.views.redact import one_line
from logos.views.repetition import Repetition
from logos.views.text import number

WHICH = "A run id or its beginning, or a file that --export wrote; default: the newest run."
AGAIN = "Repeat the proof in clean rooms and compare: exit code 0 if verdicts and tests agree, 1 if not."
TRUST = "Execute the commands that an exported file names; without it a person is asked."
Which = Annotated[str | None, argument("RUN|FILE", WHICH, autocompletion=known_runs)]


@command(
    "logos proof                             # of the newest run: what was proven, on which files, how",
    "logos proof k3 --json",
    "logos proof k3 --export proof.tar       # certificate and files, to be repeated on any machine",
    "logos proof --again                     # repeat the proof of the newest run and compare",
    "logos proof --again proof.tar           # the same from an exported file, also in an empty folder",
)
def proof(
    which: Which = None,
    again: Annotated[bool, flag("--again", AGAIN)] = False,
    export: Annotated[Path | None, value("FILE", "Write certificate and files as one tar file.")] = None,
    trust_command: Annotated[bool, flag("--trust-command", TRUST)] = False,
    wd: WorkDir = None,
    as_json: AsJson = False,
) -> int:
    """Show what was proven of a run's result: the steps, the files by their hashes, declared changes, approvals.

    docs/how-to/trust.md says what a PASS means and what no proof can see.
    """
    file = Path(which) if which is not None and Path(which).is_file() else None
    if again and export is not None:
        raise UsageError("--again and --export exclude each other: give one")
    if again:
        return _again(file, which, wd, trusted=trust_command, as_json=as_json)
    if export is not None:
        if file is not None:
            raise UsageError(f"{file} is exported already; --export needs a run")
        return _export(export, which, wd, as_json=as_json)
    if file is not None:
        found = read_proof_file(file)
        if not as_json:
            raise UsageError(f"{file} is an exported proof: --again repeats it, --json shows its certificate")
        show.document(found.document)
        return 0
    own, place = certificate(which, wd=wd, tell=show.tell), place_of_run(which, wd)
    if as_json:
        show.document(CertificateDocument.of(own))
    else:
        put_certificate(show.console(), own, wd_flag(place))
    return 0


def _export(file: Path, run: str | None, wd: Path | None, *, as_json: bool) -> int:
    done = export_proof(file, run, wd=wd, tell=show.tell)
    if as_json:
        show.document(ExportedDocument.of(done))
        return 0
    target = show.console()
    show.put(target, f"{done.file}: the proof of run {done.run}, {number(done.bytes)} bytes", "bold")
    for missing in done.left_out:
        show.put(target, f"not in it: {missing}")
    show.put(target, f"anybody can repeat it: logos proof --again {done.file}")
    return 0


def _again(file: Path | None, run: str | None, wd: Path | None, *, trusted: bool, as_json: bool) -> int:
    if file is None:
        found = prove_again(run, wd=wd, tell=show.tell)
    else:
        exported = read_proof_file(file)
        _require_trust(exported, trusted=trusted)
        found = prove_file_again(exported, wd=wd, tell=show.tell)
    return _put_result(found, as_json=as_json)


def _put_result(found: Repetition, *, as_json: bool) -> int:
    if as_json:
        show.document(RepeatedDocument.of(found))
    else:
        put_repetition(show.console(), found)
    return found.exit_code


def _require_trust(exported: ProofFile, *, trusted: bool) -> None:
    """The commands of a file are somebody else's: a person must agree before they run here."""
    rules = exported.proof.rules
    commands = " and ".join(f"`{one_line(what)}`" for what in (rules.setup, rules.command) if what)
    show.tell(f"{exported.file} was made elsewhere; repeating its proof executes {commands} of it on this machine")
    if rules.env:
        show.tell(f"it asks for the variables {', '.join(rules.env)}; they are not passed on")
    if trusted:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("nothing was executed: give --trust-command if you trust these commands")
    show.tell("execute them? [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was executed")
