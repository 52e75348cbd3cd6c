"""Components and their dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from logos.domain.reports import Component


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
    own = next((component for component in components if component.name == name), None)
    if own is None or not own.depends_on:
        return frozenset()
    direct: Mapping[str, tuple[str, ...]] = {component.name: component.depends_on for component in components}
    found: set[str] = set()
    open_ = list(own.depends_on)
    while open_:
        other = open_.pop()
        if other not in found:
            found.add(other)
            open_ += direct.get(other, ())
    return frozenset(found)
