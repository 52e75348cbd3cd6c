"""The agents' profiles that come with Logos, and installing them on a CAO server."""

import re
from contextlib import closing
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class InstallResult:
    """By profile: what was done with it."""

    api: str
    profiles: dict[str, str]


def list_profiles(api: str = "") -> ProfileList:
    """The profiles, and whether the CAO server has them."""
    with closing(server_client(api)) as server:
        try:
            server.preflight((), patience=0)
            there, answers = server.profiles(), True
        except HostError:
            there, answers = None, False
    described = {name: re.search("^description:(.*)", profiles.text(name), re.MULTILINE) for name in profiles.names()}
    listed = (
        Profile(name, about[1].strip() if about else "", None if there is None else name in there)
        for name, about in described.items()
    )
    return ProfileList(server.base_url, tuple(listed), answers)


def install_profiles(api: str = "", *, force: bool = False) -> InstallResult:
    """Put the profiles into the CAO server's store; `force` replaces profiles of the same name."""
    done: dict[str, str] = {}
    with closing(server_client(api)) as server:
        server.preflight(())
        for name in profiles.names():
            done[name] = "installed"
            if not server.install_profile(name, profiles.text(name)):
                done[name] = "replaced" if force else "exists, not overwritten (use --force)"
                if force:
                    server.install_profile(name, profiles.text(name), replace=True)
    return InstallResult(server.base_url, done)
