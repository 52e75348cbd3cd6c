"""The files that a run is started with, kept in its log: agents can change the files, and the run keeps these."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

from logos.adapters.files import text_of_file
from logos.app.setting_sources import read_config
from logos.app.settings import Json, Settings
from logos.app.telos_file import TELOS_FILE, Telos
from logos.app.workdir import CONFIG, TELOS
from logos.domain.levels import Level
from logos.domain.plans import LevelsPlan, PinnedFile
from logos.domain.turns import Agent
from logos.errors import ConfigError
from logos.views.run import RunView
from logos.views.text import listed

Pinned = tuple[PinnedFile, ...]


def pinned_by(run: RunView | None, *, reread: bool) -> Pinned:
    """The files that a run keeps; none for a new run, with `reread`, and for a run of an earlier version."""
    return () if run is None or reread else run.ledger.files


def current_files(settings: Settings, agents: Iterable[Agent]) -> Pinned:
    """The configuration that the settings were loaded from, telos.toml and the agents' profiles, as they are now."""
    return _files(settings, _normal(settings.sources.file), sorted({agent.profile for agent in agents}))


def _files(settings: Settings, content: str, names: Iterable[str]) -> Pinned:
    profiles = (PinnedFile(_profile(name), _text(settings.paths.profiles / f"{name}.md")) for name in names)
    return PinnedFile(CONFIG, content), PinnedFile(TELOS_FILE, _text(settings.paths.telos_file)), *profiles


def changed(pinned: Pinned, settings: Settings) -> list[str]:
    """The names of pinned files that say something else now."""
    prefix, names = _profile("").partition(".md")[0], [file.name for file in pinned]
    profiles = [name.removeprefix(prefix).removesuffix(".md") for name in names if name.startswith(prefix)]
    config = settings.sources.config
    content = _config_text(config) if config is not None else ""
    now = {file.name: file.text for file in _files(settings, content, profiles)}
    # Without a configuration now, the pinned one stands for a file that this command was not given.
    skipped = CONFIG if config is None else ""
    return [file.name for file in pinned if file.name != skipped and now.get(file.name) != file.text]


def changed_in_words(pinned: Pinned, settings: Settings, *, ended: bool = False) -> str:
    """What a person is told about files that were changed since the run took them; empty where none was."""
    names = changed(pinned, settings)
    if not names:
        return ""
    when = "changed during this run; the next run takes it as it is: look at it first" if ended else ""
    return f"{listed(names)}: {when or 'changed since the run started, and ignored; --reread takes it as it is now'}"


def pinned_settings(pinned: Pinned, settings: Settings) -> Json | None:
    """The configuration that a run keeps; None where it keeps none, or where a program made the settings itself."""
    if settings.sources.config is None and settings.sources.file:
        return None
    text = next((file.text for file in pinned if file.name == CONFIG), None)
    return None if text is None else cast(Json, json.loads(text))


def with_profiles(settings: Settings, pinned: Pinned) -> Settings:
    """Settings whose hosts use the pinned profiles."""
    prefix = _profile("").partition(".md")[0]
    texts = {
        file.name.removeprefix(prefix).removesuffix(".md"): file.text for file in pinned if file.name.startswith(prefix)
    }
    return settings.model_copy().from_sources(replace(settings.sources, profiles=texts))


def telos_of(plan: LevelsPlan) -> Telos:
    """The content of telos.toml that a build keeps."""
    known = dict(plan.telos)
    rest = tuple(item for item in plan.telos if item[0] is not Level.L9)
    return Telos(known.get(Level.L9, ""), rest, plan.tools, plan.setup)


def _profile(name: str) -> str:
    return f"{TELOS}/profiles/{name}.md"


def _config_text(path: Path) -> str:
    try:
        return _normal(read_config(path)) if path.exists() else _normal({})
    except ConfigError:
        return _text(path)


def _normal(data: Json) -> str:
    return json.dumps(data, sort_keys=True, default=str)


def _text(path: Path) -> str:
    return text_of_file(path, follow=True)
