"""The agents' profiles that come with Logos, and installing them on a CAO server."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum

from logos import profiles
from logos.app.hosts import server_client
from logos.errors import HostError


@dataclass(frozen=True, slots=True)
class Profile:
    """`installed` is None when no server answers."""

    name: str
    description: str
    installed: bool | None


@dataclass(frozen=True, slots=True)
class ProfileList:
    api: str
    profiles: tuple[Profile, ...]
    server_answers: bool


class Installation(StrEnum):
    INSTALLED = "installed"
    REPLACED = "replaced"
    KEPT = "exists, not overwritten (use --force)"


@dataclass(frozen=True, slots=True)
class InstallResult:
    api: str
    profiles: dict[str, Installation]


def list_profiles(api: str = "") -> ProfileList:
    """The profiles, and whether the CAO server has them."""
    with closing(server_client(api)) as server:
        try:
            server.preflight((), patience=0)
            there, answers = server.profiles(), True
        except HostError:
            there, answers = None, False
    listed = (
        Profile(name, _description(profiles.text(name)), None if there is None else name in there)
        for name in profiles.names()
    )
    return ProfileList(server.base_url, tuple(listed), answers)


def install_profiles(api: str = "", *, force: bool = False) -> InstallResult:
    """Put the profiles into the CAO server's store; `force` replaces profiles of the same name."""
    done: dict[str, Installation] = {}
    with closing(server_client(api)) as server:
        server.preflight(())
        for name in profiles.names():
            if server.install_profile(name, profiles.text(name)):
                done[name] = Installation.INSTALLED
            elif force:
                server.install_profile(name, profiles.text(name), replace=True)
                done[name] = Installation.REPLACED
            else:
                done[name] = Installation.KEPT
    return InstallResult(server.base_url, done)


def _description(text: str) -> str:
    lines = (line for line in text.splitlines() if line.startswith("description:"))
    return next(lines, "description:").removeprefix("description:").strip()
