"""Logos runs a team of coding agents on a repository and keeps an exact record of what they did.

This module is the Python API: the use cases behind the commands, and the types they return. Each name is imported when
it is first used, so that `import logos` and `logos --help` load nothing else. docs/how-to/python.md has an example.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from logos.app.compare import compare as compare
    from logos.app.demo import prepare_demo as prepare_demo
    from logos.app.demo import run_demo as run_demo
    from logos.app.diff import diff as diff
    from logos.app.doctor import Diagnosis as Diagnosis
    from logos.app.doctor import doctor as doctor
    from logos.app.fork import fork as fork
    from logos.app.gc import collect_garbage as collect_garbage
    from logos.app.hosts import simulate as simulate
    from logos.app.init import InitResult as InitResult
    from logos.app.init import init as init
    from logos.app.profiles import install_profiles as install_profiles
    from logos.app.profiles import list_profiles as list_profiles
    from logos.app.report import report_on as report_on
    from logos.app.resolve import Answer as Answer
    from logos.app.resolve import BlockedBuild as BlockedBuild
    from logos.app.resolve import open_question as open_question
    from logos.app.resolve import resolve as resolve
    from logos.app.resume import resume as resume
    from logos.app.rollback import reset as reset
    from logos.app.rollback import restore_files as restore_files
    from logos.app.rollback import rollback as rollback
    from logos.app.run_settings import run_settings as run_settings
    from logos.app.sessions import list_sessions as list_sessions
    from logos.app.settings import Settings as Settings
    from logos.app.settings import load_settings as load_settings
    from logos.app.start import build_here, run_here
    from logos.app.start import read_run as read_run
    from logos.app.validate import Validation as Validation
    from logos.app.validate import validate as validate
    from logos.domain.turns import Outcome as Outcome
    from logos.engine.runner import RunResult as RunResult
    from logos.errors import LogosError as LogosError
    from logos.errors import RunPaused as RunPaused
    from logos.errors import UsageError as UsageError
    from logos.views.run import RunView as RunView

    build, run = build_here, run_here

__version__ = "0.1.0"

# Where each public name is defined.
_MODULES = {
    "logos.app.compare": ("compare",),
    "logos.app.diff": ("diff",),
    "logos.app.fork": ("fork",),
    "logos.app.gc": ("collect_garbage",),
    "logos.app.report": ("report_on",),
    "logos.app.resume": ("resume",),
    "logos.app.rollback": (
        "reset",
        "restore_files",
        "rollback",
    ),
    "logos.app.sessions": ("list_sessions",),
    "logos.app.demo": ("prepare_demo", "run_demo"),
    "logos.app.doctor": ("Diagnosis", "doctor"),
    "logos.app.hosts": ("simulate",),
    "logos.app.init": ("InitResult", "init"),
    "logos.app.profiles": ("install_profiles", "list_profiles"),
    "logos.app.resolve": ("Answer", "BlockedBuild", "open_question", "resolve"),
    "logos.app.run_settings": ("run_settings",),
    "logos.app.settings": ("Settings", "load_settings"),
    "logos.app.start": ("build", "read_run", "run"),
    "logos.app.validate": ("Validation", "validate"),
    "logos.domain.turns": ("Outcome",),
    "logos.engine.runner": ("RunResult",),
    "logos.errors": ("LogosError", "RunPaused", "UsageError"),
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
