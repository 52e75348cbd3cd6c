"""Git repositories for tests: each different one is made once per process with git, then copied."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FILES = {
    "telos.toml": 'purpose = "Sell books honestly; never sell what readers do."\n',
    "README.md": "A shop.\n",
    "shop.py": "def shop() -> None: ...\n",
}


def git(folder: Path | str, *arguments: str, **env: str) -> str:
    """Git as a person runs it; it does not refresh the index on the way. An error fails the test with what git said."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", **env},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def make_repository(folder: Path, files: Mapping[str, str] = FILES, branch: str = "main") -> Path:
    """A repository with one commit of these files, in a new folder; without files it has no commit."""
    shutil.copytree(_template(tuple(sorted(files.items())), branch), folder, symlinks=True)
    return folder


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@cache
def _template(files: tuple[tuple[str, str], ...], branch: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="repository-", dir=os.environ.get("HOME")))
    git(folder, "init", "--quiet", "--template=", "--initial-branch", branch)
    write_files(folder, dict(files))
    if files:
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", "start")
    return folder
