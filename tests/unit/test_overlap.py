"""Which works of parallel authors contradict each other, and which only look alike."""

from __future__ import annotations

from collections.abc import Iterable
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.levels import Level
from logos.domain.reports import Component, Report, TurnKind
from logos.domain.specs import ContentConflict, TouchedFile
from logos.domain.turns import TurnId
from logos.flows.levels.components import EMPTY, Contribution, clashes
from tests.builders import examples
from tests.levels_builders import a_component


def a_piece(component: Component, *touched: TouchedFile, provides: tuple[str, ...] = ()) -> Contribution:
    report = Report(TurnKind.AUTHOR, Level.L2, "done", provides=provides)
    return Contribution(
        component, f"commit of {component.name}", touched, report, TurnId(f"s1.L2.{component.name}.author")
    )


def between(*contributions: Contribution) -> tuple[ContentConflict, ...]:
    return clashes(contributions, tuple(contribution.component for contribution in contributions))


def kinds(found: Iterable[ContentConflict]) -> list[tuple[str, str]]:
    return [(clash.kind, clash.where) for clash in found]


ONE, TWO = a_component("one"), a_component("two")


@pytest.mark.scenario("LOG-14")
@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (TouchedFile("a.py", "1"), TouchedFile("a.py", "2"), [("same path", "a.py")]),
        (TouchedFile("a.py", ""), TouchedFile("a.py", "2"), [("same path", "a.py")]),
        (TouchedFile("lib", "1"), TouchedFile("lib/a.py", "2"), [("same path", "lib")]),
        (TouchedFile("lib/a/b.py", "1"), TouchedFile("lib", "2"), [("same path", "lib")]),
        (TouchedFile("a.py", "1", ("f",)), TouchedFile("b.py", "2", ("g", "f")), [("same definition", "f")]),
        (TouchedFile("a.js", "1"), TouchedFile("b.js", "1"), [("same text", "a.js")]),
    ],
)
def test_works_that_contradict_clash_whoever_is_named_first(
    one: TouchedFile, two: TouchedFile, expected: list[tuple[str, str]]
) -> None:
    found = between(a_piece(ONE, one), a_piece(TWO, two))
    assert kinds(found) == expected
    assert all(clash.components == ("one", "two") for clash in found)
    other_way = between(a_piece(TWO, two), a_piece(ONE, one))
    assert [clash.kind for clash in other_way] == [kind for kind, _ in expected]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (TouchedFile("a.py", "1"), TouchedFile("a.py", "1")),
        (TouchedFile("a.py", ""), TouchedFile("a.py", "")),
        (TouchedFile("a.py", ""), TouchedFile("b.py", "")),
        (TouchedFile("a.py", "1", ("f",)), TouchedFile("a.py", "1", ("f",))),
        (TouchedFile("a/__init__.py", EMPTY[0]), TouchedFile("b/__init__.py", EMPTY[0])),
        (TouchedFile("a/__init__.py", EMPTY[1]), TouchedFile("b/__init__.py", EMPTY[1])),
        (TouchedFile("lib", "1"), TouchedFile("library/a.py", "2")),
        (TouchedFile("a.py", "1", ("f",)), TouchedFile("b.py", "2", ("F",))),
    ],
)
def test_works_that_only_look_alike_do_not_clash(one: TouchedFile, two: TouchedFile) -> None:
    assert between(a_piece(ONE, one), a_piece(TWO, two)) == ()


@pytest.mark.scenario("LOG-14")
def test_names_clash_whether_the_division_or_the_report_declares_them() -> None:
    divided = a_component("two", provides=("greet",))

    found = between(a_piece(ONE, provides=("greet", "bow")), a_piece(divided, provides=("bow",)))
    assert kinds(found) == [("declared name", "bow"), ("declared name", "greet")]


def test_whoever_built_on_the_other_s_work_saw_it_and_does_not_clash() -> None:
    far = (ONE, a_component("two", "one"), a_component("six", "two"))
    contributions = [a_piece(component, TouchedFile("a.py", component.name, ("f",))) for component in far]

    assert clashes(contributions, far) == ()
    assert kinds(between(contributions[0], a_piece(a_component("ten"), TouchedFile("a.py", "x")))) == [
        ("same path", "a.py")
    ]


def test_every_pair_is_compared_and_each_clash_told_once_with_all_it_concerns() -> None:
    components = tuple(a_component(name) for name in ("one", "two", "six"))
    found = between(*(a_piece(own, TouchedFile("a.py", own.name), TouchedFile("a.py", own.name)) for own in components))

    assert [(clash.where, clash.components) for clash in found] == [("a.py", ("one", "two", "six"))]


@pytest.mark.parametrize("paths", [("a.py", "b.py"), ("b.py", "a.py")])
def test_a_name_or_text_that_the_other_has_in_two_places_is_found(paths: tuple[str, ...]) -> None:
    """One of the places is the same file in both works, and is no conflict; the other is."""
    named = a_piece(TWO, *(TouchedFile(path, f"blob of {path}", ("f",)) for path in paths))
    texts = a_piece(TWO, *(TouchedFile(path, "text") for path in paths))

    assert kinds(between(a_piece(ONE, TouchedFile("b.py", "blob of b.py", ("f",))), named)) == [
        ("same definition", "f")
    ]
    assert kinds(between(a_piece(ONE, TouchedFile("b.py", "text")), texts)) == [("same text", "b.py")]


_touched = st.builds(
    TouchedFile,
    st.sampled_from(("a.py", "b.py", "lib", "lib/a.py", "lib/a/b.py")),
    st.sampled_from(("", "1", "2", EMPTY[0])),
    st.lists(st.sampled_from("fgh"), max_size=2, unique=True).map(tuple),
)
_works = st.lists(_touched, max_size=4, unique_by=lambda touched: touched.path)


@given(_works, _works)
@examples(50)
def test_whether_two_works_clash_does_not_depend_on_who_is_named_first(
    one: list[TouchedFile], two: list[TouchedFile]
) -> None:
    there, back = between(a_piece(ONE, *one), a_piece(TWO, *two)), between(a_piece(TWO, *two), a_piece(ONE, *one))

    assert {clash.kind for clash in there} == {clash.kind for clash in back}
    assert bool(there) == bool(back)


def test_a_hundred_works_of_many_files_are_compared_in_no_time() -> None:
    components = tuple(a_component(f"c{number}") for number in range(100))
    contributions = [
        a_piece(own, *(TouchedFile(f"src/{own.name}/{file}.py", f"{own.name}-{file}") for file in range(60)))
        for own in components
    ]
    begun = process_time()

    assert clashes(contributions, components) == ()
    assert process_time() - begun < 5
