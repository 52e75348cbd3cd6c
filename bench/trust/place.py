"""The folders of one case: a home, a project with its first commit, and a place outside both."""

from __future__ import annotations

import base64
import compileall
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.trust.cases import Case, File

# A last resort: no case comes near it.
SECONDS = 900
GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of one case."""

    case: Case
    root: Path

    @property
    def repository(self) -> Path:
        return self.root / (self.case.folder or "work")

    @property
    def work(self) -> Path:
        return self.repository / self.case.project.folder

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    def fill(self, text: str) -> str:
        known = {
            "PYTHON": python_with_pytest(),
            "WORK": self.work,
            "HOME": self.home,
            "OUTSIDE": self.outside,
            "ID": self.root.name,
        }
        for name, value in known.items():
            text = text.replace(f"@{name}@", str(value))
        return text

    def filled(self, data: Any) -> Any:
        """The same data with placeholders replaced in every text."""
        match data:
            case str():
                return self.fill(data)
            case dict():
                return {self.fill(key): self.filled(value) for key, value in data.items()}
            case list() | tuple():
                return [self.filled(value) for value in data]
            case _:
                return data

    @property
    def environment(self) -> dict[str, str]:
        """A person's environment with nothing of the person who runs this."""
        return {
            "PATH": os.pathsep.join(_program_folders()),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "USER": "ada",
            "NO_COLOR": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            **({"TMPDIR": os.environ["TMPDIR"]} if "TMPDIR" in os.environ else {}),
        }

    def shell(self, command: str, folder: Path | None = None, seconds: float = SECONDS) -> tuple[int, str]:
        ran = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=folder or self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
        return ran.returncode, ran.stdout.decode("utf-8", "replace")

    def must(self, command: str, folder: Path | None = None) -> str:
        code, output = self.shell(command, folder)
        if code:
            raise RuntimeError(f"{self.case.name}: `{command}` exited {code}: {output}")
        return output


@cache
def _program_folders() -> tuple[str, ...]:
    """PATH without shims, which need the real home folder, and without this repository's own environment."""
    real = [Path(sys.base_prefix) / "bin"]
    if cargo := _behind_rustup():
        real.append(cargo.parent)
    real += [Path(found).parent for name in ("node", "npm", "git", "make") if (found := shutil.which(name))]
    return tuple(dict.fromkeys([*map(str, real), "/usr/local/bin", "/usr/bin", "/bin"]))


def _behind_rustup() -> Path | None:
    if rustup := shutil.which("rustup"):
        # The toolchains are beside the folder of the proxies, wherever HOME is.
        beside = Path(rustup).parents[2] / ".rustup"
        env = {**os.environ, "RUSTUP_HOME": str(beside)} if beside.is_dir() else None
        found = subprocess.run(["rustup", "which", "cargo"], env=env, capture_output=True, text=True, check=False)
        return Path(found.stdout.strip()) if found.returncode == 0 else None
    return Path(found) if (found := shutil.which("cargo")) else None


@cache
def python_with_pytest() -> Path:
    """An interpreter that has pytest and no other plugin, made once from the packages of this environment."""
    wanted = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
    cache = Path(__file__).parents[2] / ".cache"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    ready = cache / f"python{version}-only-compiled-pytest-{metadata.version('pytest')}"
    if not ready.is_dir():
        cache.mkdir(exist_ok=True)
        making = Path(tempfile.mkdtemp(dir=cache))
        venv.create(making, symlinks=True)
        site = making / "lib" / f"python{version}" / "site-packages"
        for file in [file for name in wanted for file in metadata.files(name) or ()]:
            if file.suffix != ".pyc" and ".." not in file.parts:
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(file.locate()), site / file)
        # A room believes no compiled module that lies beside a source, and would compile all of it. There is no source.
        compileall.compile_dir(site, quiet=2, stripdir=str(making), prependdir=str(ready), legacy=True)
        for source in site.rglob("*.py"):
            source.unlink()
        with suppress(OSError):
            # Another process may have been faster.
            making.rename(ready)
        shutil.rmtree(making, ignore_errors=True)
    return ready / "bin" / "python"


@cache
def is_here(program: str) -> bool:
    return shutil.which(program, path=os.pathsep.join(_program_folders())) is not None


@cache
def has_sandbox() -> bool:
    """Whether bubblewrap works here."""
    if not (program := shutil.which("bwrap")):
        return False
    probe = [program, "--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "--dev", "/dev", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def put(path: Path, file: File) -> None:
    """Write a file as scripted agents do."""
    if file is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    whole: Mapping[str, Any] = {"text": file} if isinstance(file, str) else file
    if path.is_symlink() or ("link" in whole and path.exists()):
        path.unlink()
    if "link" in whole:
        path.symlink_to(whole["link"])
    elif "base64" in whole:
        path.write_bytes(base64.b64decode(whole["base64"]))
    else:
        path.write_bytes(whole["text"].encode())
    if whole.get("executable"):
        path.chmod(0o755)


@contextmanager
def place_of(case: Case, *, keep: bool = False) -> Iterator[Place]:
    """A folder with the case's project, as it is before the run."""
    root = Path(tempfile.mkdtemp(prefix="trust-")).resolve()
    place = Place(case, root)
    try:
        for folder in (place.home, place.outside, place.work):
            folder.mkdir(parents=True)
        for path, file in place.filled(case.base).items():
            if file is not None:
                put(Path(os.path.normpath(place.work / path)), file)
        if case.flow == "build":
            put(place.work / "telos.toml", _telos(place))
        if case.git:
            place.must("git init -q -b main && git add -A", place.repository)
            place.must(f"{shlex.join(GIT)} commit -q -m 'the beginning'", place.repository)
        for command in (case.project.before, case.before):
            if command:
                place.must(place.fill(command))
        yield place
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)
            Path("/dev/shm", root.name).unlink(missing_ok=True)


def _telos(place: Place) -> str:
    command = json.dumps(place.fill(place.case.command))
    return f'purpose = "A small shop."\n\n[[tools]]\nlevel = 2\nname = "tests"\ncommand = {command}\n'
