"""Logos runs a team of coding agents on a repository and keeps an exact record of what they did.

This module is the Python API: the use cases behind the commands, and the types they return. Each name is imported when
it is first used, so that `import logos` and `logos --help` load nothing else. docs/how-to/python.md has an example.
"""

import sys

# `python -m logos` looks for modules in the current directory first, where an agent may have put a jinja2.py. That
# directory is forgotten before anything is imported. While Python looks for the module to run, its argument is "-m".
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    del sys.path[0]

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logos.app.activity import transcript
    from logos.app.certificate import certificate, export_proof, prove_again, prove_file_again, read_proof_file
    from logos.app.copying import copy_runs
    from logos.app.demo import prepare_demo, run_demo
    from logos.app.detach import stop
    from logos.app.diff import compare, diff
    from logos.app.doctor import Diagnosis, doctor
    from logos.app.export import export_trace
    from logos.app.gc import collect_garbage
    from logos.app.hosts import simulate
    from logos.app.init import InitResult, init
    from logos.app.profiles import install_profiles, list_profiles
    from logos.app.prompt import run_settings
    from logos.app.report import report_on
    from logos.app.resolve import Answer, BlockedBuild, open_question, resolve
    from logos.app.rollback import fork, reset, restore_files, rollback
    from logos.app.sessions import list_sessions
    from logos.app.setting_sources import load_settings
    from logos.app.settings import Settings
    from logos.app.start import build_here as build
    from logos.app.start import read_run, resume
    from logos.app.start import run_here as run
    from logos.app.steering import Delivered, answer, approve, grant, reject, say_to
    from logos.app.trial import check_telos
    from logos.app.validate import Problem, Validation, validate
    from logos.domain.turns import Outcome
    from logos.engine.runner import RunResult
    from logos.errors import LogosError, PersonNeeded, RunPaused, UsageError
    from logos.views.proof import Certificate
    from logos.views.run import RunView

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "BlockedBuild",
    "Certificate",
    "Delivered",
    "Diagnosis",
    "InitResult",
    "LogosError",
    "Outcome",
    "Problem",
]
__all__ += ["RunPaused", "RunResult", "RunView", "Settings", "UsageError", "Validation", "build", "certificate"]
__all__ += ["check_telos", "collect_garbage", "compare", "diff", "doctor", "export_proof", "fork", "init"]
__all__ += ["copy_runs", "export_trace"]
__all__ += ["install_profiles", "list_profiles", "list_sessions", "load_settings", "open_question", "prepare_demo"]
__all__ += ["prove_again", "prove_file_again", "read_proof_file", "read_run", "report_on", "reset", "resolve"]
__all__ += ["Delivered", "PersonNeeded", "answer", "approve", "grant", "reject", "say_to"]
__all__ += [
    "restore_files",
    "resume",
    "rollback",
    "run",
    "run_demo",
    "run_settings",
    "simulate",
    "stop",
    "transcript",
    "validate",
]

# Where each public name is defined.
_MODULES = {
    "logos.app.activity": ("transcript",),
    "logos.app.certificate": ("certificate", "export_proof", "prove_again", "prove_file_again", "read_proof_file"),
    "logos.app.demo": ("prepare_demo", "run_demo"),
    "logos.app.detach": ("stop",),
    "logos.app.diff": ("compare", "diff"),
    "logos.app.doctor": ("Diagnosis", "doctor"),
    "logos.app.copying": ("copy_runs",),
    "logos.app.export": ("export_trace",),
    "logos.app.gc": ("collect_garbage",),
    "logos.app.hosts": ("simulate",),
    "logos.app.init": ("InitResult", "init"),
    "logos.app.profiles": ("install_profiles", "list_profiles"),
    "logos.app.prompt": ("run_settings",),
    "logos.app.report": ("report_on",),
    "logos.app.resolve": ("Answer", "BlockedBuild", "open_question", "resolve"),
    "logos.app.rollback": ("fork", "reset", "restore_files", "rollback"),
    "logos.app.sessions": ("list_sessions",),
    "logos.app.setting_sources": ("load_settings",),
    "logos.app.settings": ("Settings",),
    "logos.app.start": ("build", "read_run", "resume", "run"),
    "logos.app.steering": ("Delivered", "answer", "approve", "grant", "reject", "say_to"),
    "logos.app.trial": ("check_telos",),
    "logos.app.validate": ("Problem", "Validation", "validate"),
    "logos.domain.turns": ("Outcome",),
    "logos.engine.runner": ("RunResult",),
    "logos.errors": ("LogosError", "PersonNeeded", "RunPaused", "UsageError"),
    "logos.views.proof": ("Certificate",),
    "logos.views.run": ("RunView",),
}
_RENAMED = {"run": "run_here", "build": "build_here"}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'logos' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), _RENAMED.get(name, name))


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
