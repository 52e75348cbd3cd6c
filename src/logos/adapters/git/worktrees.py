"""Places on this machine: where they are, how a new one is set up, and how one is removed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.git.command import repository_of, text_of
from logos.errors import HostError

SETUP_SECONDS = 1800.0
SETUP_TAIL = 2_000


@dataclass(frozen=True, slots=True)
class WorktreePath:
    """Where a place is on this machine. What Logos notes of it lies beside it, where names begin with a dot."""

    name: str
    folder: Path
    branch: str

    @property
    def index(self) -> Path:
        return self.folder.with_name(f".{self.name}.index")

    @property
    def mark(self) -> Path:
        """Says at which commit the place was made, once it is made whole."""
        return self.folder.with_name(f".{self.name}.made")

    @property
    def is_there(self) -> bool:
        return self.folder.is_dir() and not self.folder.is_symlink()

    @property
    def made_at(self) -> str:
        try:
            return self.mark.read_text(encoding="ascii") if self.is_there else ""
        except (OSError, UnicodeDecodeError):
            return ""


def run_setup(command: str, folder: Path, root: Path) -> None:
    """Run the person's command that makes a new worktree usable; nothing of it outlives the call."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    with tempfile.TemporaryFile() as sink:
        process = subprocess.Popen(
            command,
            shell=True,
            cwd=folder,
            env={**kept, "LOGOS_ROOT": str(root)},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            said = f"exit code {process.wait(SETUP_SECONDS)}"
        except subprocess.TimeoutExpired:
            said = f"not done after {SETUP_SECONDS:.0f} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        sink.seek(max(0, sink.seek(0, os.SEEK_END) - SETUP_TAIL))
        output = text_of(sink.read()).strip()
    if said != "exit code 0":
        raise HostError(f"the setup command {command!r} failed in {folder} ({said}): {output}")


def worktrees_of(wd: Path) -> list[Path]:
    """The same folder in every worktree of the repository; git itself would give up at one that is half made."""
    here = repository_of(wd)
    main = [here.common.parent] if here.common.name == ".git" else []
    others = [Path(own).parent for folder in (here.common / "worktrees").glob("*") if (own := owner_of(folder))]
    return [top / here.prefix if here.prefix else top for top in dict.fromkeys([here.top, *main, *others])]


def owner_of(folder: Path) -> str:
    """The .git of the worktree that a folder of git's is about; empty where it does not say."""
    said = text_in(folder / "gitdir").strip()
    return os.path.normpath(folder / said) if said else ""


def text_in(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it, also where an agent took the right to do so away."""
    try:
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            _remove_folder(path)
    except OSError as error:
        raise HostError(f"cannot remove {path}: {error.strerror}") from error


def _remove_folder(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except OSError:
        _open_up(path)
        shutil.rmtree(path)


def _open_up(path: Path) -> None:
    path.chmod(0o700)
    for root, folders, _ in os.walk(path):
        for folder in folders:
            with suppress(OSError):
                os.chmod(os.path.join(root, folder), 0o700, follow_symlinks=False)
