"""The environment of commands in a clean room: variables by name, a home of its own, and no path into the work tree."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.programs import safe_path
from logos.adapters.proof.compiled import compiled_in
from logos.adapters.proof.rooms import Room

_PASSED = ("LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL", "TERM", "CI")
_PASSED_PREFIXES = ("LC_",)
# Where toolchains are, and their folder below the person's home: HOME is the room's own.
_TOOLCHAINS = {
    "PYENV_ROOT": ".pyenv",
    "RUSTUP_HOME": ".rustup",
    "NVM_DIR": ".nvm",
    "VOLTA_HOME": ".volta",
    "FNM_DIR": ".local/share/fnm",
    "ASDF_DIR": ".asdf",
    "ASDF_DATA_DIR": ".asdf",
    "MISE_DATA_DIR": ".local/share/mise",
    "RBENV_ROOT": ".rbenv",
    "SDKMAN_DIR": ".sdkman",
    "BUN_INSTALL": ".bun",
    "PNPM_HOME": ".local/share/pnpm",
    "UV_PYTHON_INSTALL_DIR": ".local/share/uv/python",
    **dict.fromkeys(("GOROOT", "JAVA_HOME", "DOTNET_ROOT", "ANDROID_HOME", "CONDA_PREFIX"), ""),
}
# Packages that were fetched once for all projects. A setup fetches its own.
_PACKAGES = {
    "CARGO_HOME": ".cargo",
    "GOMODCACHE": "go/pkg/mod",
    "NUGET_PACKAGES": ".nuget/packages",
    "DENO_DIR": ".cache/deno",
}
# How to reach packages.
_FOR_SETUP = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
    *("GOPROXY", "GOPRIVATE", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "COREPACK_NPM_REGISTRY"),
)
_FOR_SETUP_PREFIXES = ("PIP_", "UV_", "NPM_CONFIG_", "YARN_", "CARGO_REGISTR", "CARGO_HTTP_", "BUNDLE_MIRROR")
_FOR_SETUP_SUFFIXES = ("_PROXY",)
_PROGRAMS = ("bin", "sbin", "shims")
_ABSOLUTE = re.compile(r"(?<![\w.])/[^\s'\"`;|&<>()$]+")
_GIT_SETTINGS = "[user]\n\tname = Logos\n\temail = logos@localhost\n[safe]\n\tdirectory = *\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Where things are for a command in a room: the top of the tree, the work dir, and temporary files."""

    top: Path
    work_dir: Path
    tmp: Path
    # Folders of dependencies that are lent, as they are found outside and inside the room.
    lent: tuple[tuple[Path, Path], ...] = ()


def room_environment(
    room: Room, place: Place, outside: Path, given: Iterable[str], caller: Mapping[str, str], *, has_setup: bool
) -> dict[str, str]:
    """The variables for the tests. `outside` is the top of the work tree, `given` are names that the person passes."""
    home = caller.get("HOME") or os.path.expanduser("~")
    passed = (name for name in caller if name in _PASSED or name.startswith(_PASSED_PREFIXES))
    stores = _TOOLCHAINS if has_setup else _TOOLCHAINS | _PACKAGES
    env = {name: caller[name] for name in passed}
    for name, below in stores.items():
        found = caller.get(name) or (os.path.join(home, below) if below else "")
        if os.path.isdir(found) and not _is_below(found, outside):
            env[name] = found
    cache = room.home / ".cache"
    env |= {
        "PATH": room_path(place, outside, caller),
        "HOME": str(room.home),
        "TMPDIR": str(place.tmp),
        "LOGOS_ROOT": str(place.work_dir),
        "PWD": str(place.work_dir),
        "XDG_CACHE_HOME": str(cache),
        # Compiled modules of a lent environment are not read: nobody has looked at them.
        "PYTHONPYCACHEPREFIX": str(compiled_in(room)),
        "PIP_CACHE_DIR": str(cache / "pip"),
        "UV_CACHE_DIR": str(cache / "uv"),
        "npm_config_cache": str(cache / "npm"),
        "GRADLE_USER_HOME": str(room.home / ".gradle"),
    }
    return env | {name: caller[name] for name in given if name in caller}


def setup_environment(env: Mapping[str, str], caller: Mapping[str, str]) -> dict[str, str]:
    """The same for the setup, with what says where packages are fetched from."""
    more = {name: value for name, value in caller.items() if _is_for_setup(name.upper())}
    return {**more, **env}


def _is_for_setup(name: str) -> bool:
    return name in _FOR_SETUP or name.startswith(_FOR_SETUP_PREFIXES) or name.endswith(_FOR_SETUP_SUFFIXES)


def room_path(place: Place, outside: Path, caller: Mapping[str, str]) -> str:
    """PATH without the folders of the work tree, except those that are lent, where the room has them."""
    safe = {*safe_path(outside, caller).split(os.pathsep)}
    folders: list[str] = []
    for folder in (caller.get("PATH") or os.defpath).split(os.pathsep):
        lent = next((there for out, there in place.lent if _is_below(folder, out)), None)
        source = next((out for out, _ in place.lent if _is_below(folder, out)), None)
        if lent is not None and source is not None:
            folders.append(str(lent / Path(folder).relative_to(source)))
        elif folder in safe:
            folders.append(folder)
    return os.pathsep.join(folders)


def write_home(room: Room) -> None:
    """What tools expect to find in a home."""
    (room.home / ".gitconfig").write_text(_GIT_SETTINGS)


def folders_on_path(caller: Mapping[str, str]) -> list[Path]:
    """The installations that PATH leads to: a program is of no use without the libraries beside it."""
    folders = filter(os.path.isabs, (caller.get("PATH") or os.defpath).split(os.pathsep))
    return [*dict.fromkeys(path for folder in folders for path in _installation(folder))]


def named_installations(command: str) -> list[Path]:
    """The same for the programs that a command names by their path."""
    programs = [path for path in _ABSOLUTE.findall(command) if os.path.isfile(path)]
    return [*dict.fromkeys(path for program in programs for path in _installation(os.path.dirname(program)))]


def _installation(folder: str) -> Iterator[Path]:
    for path in (Path(folder), Path(os.path.realpath(folder))):
        yield path.parent if path.name in _PROGRAMS else path


def _is_below(path: str, folder: Path) -> bool:
    return os.path.isabs(path) and Path(os.path.normpath(path)).is_relative_to(folder)
