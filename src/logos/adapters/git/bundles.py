"""Commits as one file that any git can read, and repositories of our own made of such a file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from logos.adapters.files import private_folder
from logos.adapters.git.command import Git, checked_commit, provider_error
from logos.errors import HostError, LogosError

# Larger histories are left out: a proof needs few of their commits.
LARGEST_HISTORY = 20_000_000
_REF = "refs/logos/proof"
_NO_HISTORY = "older commits and tags (the history is {size:.0f} MB); tools that read them may behave differently"


class BadBundle(LogosError):
    """A bundle is damaged, or does not have a commit that it should have."""


@dataclass(frozen=True, slots=True)
class CommitSource:
    """Where commits are: the objects of a repository, and its GIT_DIR if it has tags. Agents write below `root`."""

    objects: Path
    root: Path
    algorithm: str = "sha1"
    common: Path | None = None


def write_bundle(source: CommitSource, commits: Mapping[str, str], file: Path, scratch: Path) -> tuple[str, ...]:
    """Write these commits by name, with their parents, and the history and tags if they are small.

    Returns what is left out. `scratch` is an empty folder for a repository of our own.
    """
    git = _repository(scratch, source.root, source.algorithm)
    (scratch / "objects" / "info").mkdir(exist_ok=True)
    (scratch / "objects" / "info" / "alternates").write_text(f"{source.objects}\n")
    git.point({f"{_REF}/{name}": checked_commit(commit) for name, commit in commits.items()})
    parents = _parents(git, commits.values())
    tags = _tags(source, parents)
    # A tag may name an object that is gone.
    git.point({ref: to for ref, to in tags.items() if git.run("cat-file", "-e", to).returncode == 0})
    size = _size(git)
    left_out: tuple[str, ...] = ()
    if size is None or size > LARGEST_HISTORY:
        git.point(dict.fromkeys(git.refs("refs/tags/"), None))
        (scratch / "shallow").write_text("".join(f"{commit}\n" for commit in parents))
        left_out = (_NO_HISTORY.format(size=(size or 0) / 1_000_000),)
    git.ask("bundle", "create", "-q", str(file), *git.refs("refs/"))
    return left_out


def read_bundle(file: Path, commits: Iterable[str], folder: Path, root: Path) -> CommitSource:
    """Make a repository of a bundle in an empty folder, with its tags; BadBundle unless it has these commits."""
    wanted = [checked_commit(commit) for commit in commits]
    algorithm = "sha256" if any(len(commit) == 64 for commit in wanted) else "sha1"
    git = _repository(folder, root, algorithm)
    done = git.run("bundle", "unbundle", str(file))
    if done.returncode != 0:
        raise BadBundle(f"the git bundle is damaged: {provider_error(done)}")
    refs = (line.partition(" ") for line in done.stdout.decode("utf-8", "replace").splitlines())
    named = {ref: commit for commit, _, ref in refs if ref.startswith("refs/tags/")}
    git.point({ref: commit for ref, commit in named.items() if _is_plain(git, ref)})
    for commit in wanted:
        if git.commit(commit) != commit:
            raise BadBundle(f"the git bundle does not have the commit {commit}")
    return CommitSource(folder / "objects", root, algorithm, folder)


def _repository(folder: Path, root: Path, algorithm: str) -> Git:
    private_folder(folder)
    made = Git(folder, root=root).run("init", "--quiet", "--bare", "--template=", f"--object-format={algorithm}", ".")
    if made.returncode != 0:
        raise HostError(f"cannot create a repository in {folder}: {provider_error(made)}")
    return Git(folder, {"GIT_DIR": str(folder)}, root=root)


def _parents(git: Git, commits: Iterable[str]) -> list[str]:
    """The parents of these commits that are none of them."""
    own = [*commits]
    lines = (git.line("rev-list", "--no-walk", "--parents", commit).split()[1:] for commit in own)
    return [parent for parent in dict.fromkeys(parent for line in lines for parent in line) if parent not in own]


def _tags(source: CommitSource, heads: Iterable[str]) -> dict[str, str]:
    if source.common is None:
        return {}
    git, form = Git(source.root, {"GIT_DIR": str(source.common)}, root=source.root), "--format=%(refname) %(objectname)"
    found: dict[str, str] = {}
    for head in heads:
        listed = git.run("for-each-ref", form, f"--merged={head}", "refs/tags/")
        lines = listed.stdout.decode("utf-8", "replace").splitlines() if listed.returncode == 0 else []
        found |= dict(line.split(" ", 1) for line in lines)
    return found


def _size(git: Git) -> int | None:
    """The bytes of everything that the refs reach; None where git cannot tell."""
    done = git.run("rev-list", "--disk-usage", "--objects", "--all")
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip().isdigit() else None


def _is_plain(git: Git, ref: str) -> bool:
    return git.run("check-ref-format", ref).returncode == 0
