"""Files: written so that a crash leaves the old one or the new one, and read so that nothing planted makes us wait.

Agents can put a pipe, a device, a link or gigabytes in the place of any file in the work dir.
"""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from logos.errors import HostError, LogosError, UsageError

# More than any file that is read as a whole; the end of a larger one can still be read.
MAX_BYTES = 64_000_000
# Enough for the last lines of an output.
TAIL_BYTES = 64_000
# What a shell passes to a command, for example for `<(…)`: a pipe that the person wants to be read.
_PASSED = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
# The disk, the user's quota or the maximum size of a file is reached.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_atomically(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Write a temporary file beside the target and rename it; `durable` files survive a power cut."""
    try:
        private_folder(path.parent)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as sink:
                sink.write(content.encode() if isinstance(content, str) else content)
                sink.flush()
                if durable:
                    os.fsync(sink.fileno())
            os.replace(temporary, path)
        except BaseException:
            # missing_ok: a signal may arrive after the rename.
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise refused(f"cannot write {path}", error) from error


def open_regular(path: Path, *, follow: bool = False) -> BinaryIO:
    """Open a regular file to read it; anything else is an OSError at once. `follow`: it may be a symbolic link."""
    return os.fdopen(_open_regular(path, os.O_RDONLY | (0 if follow else os.O_NOFOLLOW)), "rb")


def open_to_append(path: Path, *, create: bool = True) -> BinaryIO:
    """The same to append to it, without a buffer; `create`: where it is missing."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    return os.fdopen(_open_regular(path, flags), "ab", 0)


def _open_regular(path: Path, flags: int) -> int:
    # O_NONBLOCK: to open a pipe would wait for its other end.
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    os.set_blocking(handle, True)
    return handle


def bytes_of_file(path: Path, *, limit: int = MAX_BYTES, follow: bool = False) -> bytes:
    """All of a regular file; an OSError if it is something else or larger than `limit`."""
    with open_regular(path, follow=follow) as source:
        # A sparse file costs nothing to make and all of its size to read; files of the system have no size.
        too_large = os.fstat(source.fileno()).st_size > limit
        content = b"" if too_large else source.read(limit + 1)
        if too_large or len(content) > limit:
            raise OSError(errno.EOVERFLOW, f"it is larger than {limit / 1_000_000:g} MB", str(path))
        return content


def text_of_file(path: Path, errors: str = "replace", *, follow: bool = False) -> str:
    """The text of a regular file; empty if it cannot be read."""
    with suppress(OSError):
        return bytes_of_file(path, follow=follow).decode("utf-8", errors)
    return ""


def end_of_file(path: Path, limit: int = TAIL_BYTES) -> str:
    """The end of a regular file of any size; empty if it cannot be read."""
    with suppress(OSError), open_regular(path) as source:
        source.seek(max(0, source.seek(0, os.SEEK_END) - limit))
        return source.read(limit).decode("utf-8", "replace")
    return ""


def read_input(path: Path, what: str, kind: type[UsageError], limit: int = MAX_BYTES) -> str:
    """The text of a file that a person has written, or an error of this kind that names `what` it is."""
    try:
        if str(path).startswith(_PASSED):
            with path.open("rb") as source:
                return source.read(limit).decode("utf-8-sig")
        return bytes_of_file(path, limit=limit, follow=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise kind(f"cannot read {what} {path}: {why}") from error


def refused(what: str, error: OSError) -> LogosError:
    """The error for a refused file operation. A full disk is not a usage error: the command works with more space."""
    kind = LogosError if error.errno in _FULL else UsageError
    return kind(f"{what}: {error.strerror}")


def private_folder(folder: Path) -> None:
    """Create a folder (and its parents) for its owner alone; one that exists is left as it is."""
    if folder.is_dir():
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise refused(f"cannot create {folder}", error) from error


def own_folder(folder: Path) -> None:
    """A private folder inside the user's repository, with a .gitignore for all its files."""
    refuse_link(folder)
    private_folder(folder)
    rules = folder / ".gitignore"
    # Git would wait for ever for what is in a pipe.
    odd = os.path.lexists(rules) and not rules.is_file()
    # A process that was killed may have left it empty.
    if any(folder.iterdir()) and not odd:
        return
    try:
        if odd:
            set_aside(rules, "odd")
        write_atomically(rules, "*\n", durable=False)
    except LogosError:
        # The next process must find no folder, so that it writes the .gitignore.
        with suppress(OSError):
            folder.rmdir()
        raise


def write_prompt(cwd: Path, name: str, prompt: str) -> Path:
    """Write a prompt below the folder in which its agent works: some agents may read nothing else."""
    folder = cwd / ".tmp" / "agent-prompts"
    own_folder(folder.parent)
    own_folder(folder)
    write_atomically(folder / name, prompt)
    return folder / name


def read_instruction(file: Path) -> str:
    """For a prompt that is too long to send."""
    return f"Your instructions are in a file. Read the file '{file}' completely and follow it."


def refuse_others(folder: Path, tell: Callable[[str], object]) -> None:
    """Keep other users from writing into a folder of ours: they could forge a response. One of theirs is an error."""
    try:
        about = folder.stat()
    except OSError:
        return
    if about.st_uid not in (os.geteuid(), 0):
        raise UsageError(
            f"{folder} belongs to another user (uid {about.st_uid}), who could forge the agents' responses; "
            "remove it, or use a work dir of your own"
        )
    if about.st_mode & 0o022:
        try:
            folder.chmod(stat.S_IMODE(about.st_mode) & ~0o022)
        except OSError as error:
            raise refused(f"other users can write to {folder}, and that cannot be changed", error) from error
        tell(f"warning: other users could write to {folder} and forge responses; they cannot any more (chmod go-w)")


def refuse_link(folder: Path) -> None:
    """An agent can make a link of a folder of ours, so that Logos would write or delete somewhere else."""
    if folder.is_symlink():
        raise UsageError(f"{folder} is a symbolic link, which Logos never makes; it is not followed: remove it")


def refuse_links(folder: Path) -> None:
    """The same for the folders in a folder that only Logos uses."""
    refuse_link(folder)
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if entry.is_symlink() and entry.is_dir():
            refuse_link(entry)


@contextmanager
def folder_below(root: Path, folder: Path) -> Generator[int]:
    """A handle of a folder below a root. No link on the way is followed, also none that is made meanwhile."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folder.relative_to(root).parts:
            try:
                inside = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise
                raise OSError(errno.ELOOP, f"{part} is a symbolic link or no folder", str(folder)) from error
            os.close(handle)
            handle = inside
        yield handle
    finally:
        os.close(handle)


def remove(path: Path, root: Path) -> None:
    """Remove a file or a folder below a root with its contents, even if an agent has removed write permissions.

    No link is followed: agents could have made one to somewhere else.
    """
    try:
        with folder_below(root, path.parent) as parent:
            _remove(path.name, parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostError(f"cannot remove {path}: {error.strerror}") from error


def _remove(name: str, parent: int) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    try:
        shutil.rmtree(name, dir_fd=parent)
    except OSError:
        os.chmod(name, 0o700, dir_fd=parent)
        for _, folders, _, handle in os.fwalk(name, dir_fd=parent):
            for folder in folders:
                with suppress(OSError):
                    os.chmod(folder, 0o700, dir_fd=handle, follow_symlinks=False)
        shutil.rmtree(name, dir_fd=parent)


@contextmanager
def opened_folder(folder: Path) -> Generator[int]:
    """A handle of a folder, to sync or to lock it."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def set_aside(path: Path, stamp: str) -> Path:
    """Keep a damaged file under another name, never overwriting one that was kept before."""
    kept = aside(path, stamp)
    os.replace(path, kept)
    return kept


def aside(path: Path, stamp: str) -> Path:
    """An unused name for a damaged file."""
    for number in range(1000):
        kept = path.with_name(f"{path.name}.damaged-{stamp}" + (f"-{number}" if number else ""))
        if not kept.exists():
            return kept
    raise UsageError(f"too many damaged copies beside {path}; remove some")
