"""Components: their order, and conflicts between parallel authors, found before anything is merged."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from logos.domain.reports import Component, Report
from logos.domain.specs import ContentConflict, TouchedFile
from logos.domain.turns import TurnId


@dataclass(frozen=True)
class Contribution:
    """One component's work as a commit, and the component as it was when the work was done.

    `touched` is not merged yet; `files` and `tests` are everything ever written for it. `head` and `based_on` are
    the commits it was built on, `previous` its own earlier commits.
    """

    component: Component
    commit: str
    touched: tuple[TouchedFile, ...]
    report: Report
    turn: TurnId
    files: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    head: str = ""
    based_on: tuple[tuple[str, str], ...] = ()
    previous: tuple[str, ...] = ()
    merged: bool = False


def in_order(components: Iterable[Component]) -> tuple[Component, ...]:
    """Sort dependencies first; independent components keep their order."""
    left = list(components)
    done: list[Component] = []
    while left:
        named = {component.name for component in left}
        ready = [component for component in left if not named.intersection(component.depends_on)]
        if not ready:
            raise ValueError("the components depend on each other in a circle")
        done.append(ready[0])
        left.remove(ready[0])
    return tuple(done)


def needs(name: str, components: Sequence[Component]) -> frozenset[str]:
    """The transitive dependencies of a component."""
    found: set[str] = set()
    open_ = [other for component in components if component.name == name for other in component.depends_on]
    direct = {component.name: component.depends_on for component in components} if open_ else {}
    while open_:
        other = open_.pop()
        if other not in found:
            found.add(other)
            open_ += direct.get(other, ())
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Mark:
    """Something that only one component may own: two marks with the same key conflict when their `value` differs."""

    name: str
    path: str
    value: str


# The kinds of conflicts, in the order in which they are told, and what is told about each.
_KINDS = {
    "declared name": "declared by more than one component",
    "same path": "changed differently",
    "same definition": "",
    "same text": "",
}


def _marks(contribution: Contribution) -> Iterator[tuple[str, str, _Mark]]:
    """The marks of a contribution, each with its kind and its key: a name, a path, a content."""
    name = contribution.component.name
    for provided in sorted({*contribution.component.provides, *contribution.report.provides}):
        yield "declared name", provided, _Mark(name, "", name)
    for touched in contribution.touched:
        yield "same path", touched.path, _Mark(name, touched.path, touched.blob)
        for defined in touched.defines:
            yield "same definition", defined, _Mark(name, touched.path, touched.path)
        # Contents are compared where definitions cannot be read.
        if touched.blob and touched.blob not in EMPTY and not touched.defines:
            yield "same text", touched.blob, _Mark(name, touched.path, touched.path)


def clashes(contributions: Sequence[Contribution], components: tuple[Component, ...]) -> tuple[ContentConflict, ...]:
    """All conflicts between contributions, except with work that a component was based on."""
    names = [contribution.component.name for contribution in contributions]
    built_on = {name: needs(name, components) for name in names}

    def unaware(one: str, other: str) -> bool:
        return one != other and one not in built_on[other] and other not in built_on[one]

    by_key: defaultdict[tuple[str, str], list[_Mark]] = defaultdict(list)
    for contribution in contributions:
        for kind, key, mark in _marks(contribution):
            by_key[kind, key].append(mark)
    found: list[ContentConflict] = []
    for kind, key in sorted(by_key, key=lambda kind_and_key: [*_KINDS].index(kind_and_key[0])):
        pairs = combinations(by_key[kind, key], 2)
        meeting = [pair for pair in pairs if pair[0].value != pair[1].value and unaware(pair[0].name, pair[1].name)]
        if meeting:
            met = [mark for pair in meeting for mark in pair]
            who = tuple(dict.fromkeys(mark.name for mark in met))
            places = "in " + " and in ".join(dict.fromkeys(mark.path for mark in met))
            # Describe a content by its file.
            where = met[0].path if kind == "same text" else key
            found.append(ContentConflict(kind, who, where, _KINDS[kind] or places))
    return (*found, *_files_as_folders(contributions, unaware))


def _files_as_folders(
    contributions: Sequence[Contribution], unaware: Callable[[str, str], bool]
) -> Iterator[ContentConflict]:
    """Paths that are a file in one contribution and a folder in another."""
    files = [
        (touched.path, contribution.component.name)
        for contribution in contributions
        for touched in contribution.touched
        if touched.blob
    ]
    rank = {contribution.component.name: number for number, contribution in enumerate(contributions)}
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for path, name in files:
        owners[path].append(name)
    for path, name in files:
        parts = path.split("/")
        for folder in ("/".join(parts[:depth]) for depth in range(1, len(parts))):
            for owner in owners.get(folder, ()):
                if unaware(name, owner):
                    both = tuple(sorted((owner, name), key=rank.__getitem__))
                    yield ContentConflict("same path", both, folder, f"a file here, the folder of {path} there")


# Empty files never conflict: package markers are equal everywhere (SHA-1 and SHA-256).
EMPTY = ("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813")
