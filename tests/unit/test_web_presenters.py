"""What templates are given of runs: pictures, groups, forms and graphs, from runs of earlier versions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from logos.app.moments import Moment
from logos.app.runs import read_status
from logos.app.setting_sources import json_schema
from logos.domain.events import Noted, Recorded, Topic
from logos.domain.turns import Outcome
from logos.views.status import RunStatus
from logos.web import forms, lineage, links, listing, pictures, presenters, running
from logos.web.marking import markdown
from logos.web.render import templates
from tests.old_runs import restore

OLD = "4d178cb"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunStatus]:
    folder = tmp_path_factory.mktemp("old")
    names = ("cycle-finished", "cycle-unfinished", "levels-blocked", "levels-finished")
    return {name: read_status(restore(OLD, name, folder / name), None) for name in names}


@dataclass(frozen=True)
class Row:
    run: str
    asked_for: str = ""
    place: Path = Path("/home/ada/shop")
    in_words: str = "RUNNING"
    word: str = "RUNNING"
    flow: str = "cycle"
    at_work: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    driver: int | None = None
    outcome: Outcome | None = None
    verified: bool = False
    severity: str = "normal"


ROWS = (
    Row("aaa", "Add a flag", driver=1, at_work=("programmer",)),
    Row("bbb", "Add a page", waiting=("May it begin?",)),
    Row("ccc", "Remove a flag", outcome=Outcome.PASSED, verified=True, in_words="PASSED"),
    Row("ddd", "Nothing", in_words="STOPPED", word="STOPPED"),
)


def test_runs_are_grouped_with_those_that_wait_first():
    found = listing.listing(ROWS)
    assert [(group.name, [row.run for row in group.rows]) for group in found.groups] == [
        ("waiting", ["bbb"]),
        ("running", ["aaa"]),
        ("stopped", ["ddd"]),
        ("ended", ["ccc"]),
    ]


@pytest.mark.parametrize(
    ("search", "state", "runs"),
    [
        ("flag", "", ["aaa", "ccc"]),
        ("FLAG add", "", ["aaa"]),
        ("programmer", "", ["aaa"]),
        ("shop", "ended", ["ccc"]),
        ("nothing at all", "", []),
    ],
)
def test_runs_are_searched_by_every_word(search: str, state: str, runs: list[str]):
    found = listing.listing(ROWS, search, state)
    assert [row.run for group in found.groups for row in group.rows] == runs


def test_a_pass_that_is_not_proven_is_marked():
    assert listing.row_mark(ROWS[2]).words == "proven"
    assert listing.row_mark(replace(ROWS[2], verified=False)).words == "not proven"
    assert listing.row_mark(ROWS[0]).words == "not yet"
    assert listing.row_mark(replace(ROWS[2], outcome=Outcome.FAILED)).words == "no pass"


def test_the_roles_are_shown_as_they_stand(old: dict[str, RunStatus]):
    boxes = pictures.phases(old["cycle-unfinished"])
    assert [box.title for box in boxes] == ["Analysis", "Code", "Test", "Proof"]
    assert [box.is_now for box in boxes] == [False, True, False, False]
    states = {node.name: node.state for box in boxes for node in box.nodes}
    assert states["Peer programmer"] == "at-work"
    assert states["Tester"] == "idle"
    ended = {node.name: node for box in pictures.phases(old["cycle-finished"]) for node in box.nodes}
    assert ended["Tester"].note == "PASS"
    assert not pictures.phases(old["levels-finished"])


def test_the_ladder_has_every_level_and_what_it_holds(old: dict[str, RunStatus]):
    rungs = pictures.ladder(old["levels-blocked"])
    assert [rung.level for rung in rungs] == [f"L{level}" for level in range(9, 0, -1)]
    known = {rung.level: rung for rung in rungs}
    assert not known["L9"].takes_part
    assert (known["L3"].standing, known["L3"].tone) == ("not satisfied", "bad")
    assert known["L2"].standing == "proven by tools"
    assert not pictures.ladder(old["cycle-finished"])


def test_bars_are_of_the_longest(old: dict[str, RunStatus]):
    for status in old.values():
        bars = pictures.bars(status.view)
        assert max(bar.time_share for bar in bars) == 100
        assert all(0 <= bar.usage_share <= 100 for bar in bars)


def test_time_goes_on_for_whoever_is_at_work_and_for_nobody_else(old: dict[str, RunStatus]):
    view = old["cycle-unfinished"].view
    (working,) = [turn for turn in view.turns if turn.ended is None and not turn.failure]
    before, after = pictures.bars(view), pictures.bars(view, 3600.0)
    assert [bar.name for bar, later in zip(before, after, strict=True) if bar.time != later.time] == [
        pictures.title_of(working.agent)
    ]


def test_the_strip_covers_every_event_and_shows_the_worst(old: dict[str, RunStatus]):
    view = old["cycle-finished"].view
    assert len(pictures.strip(view)) == len(view.records)
    many = [Recorded(view.run, seq, 0.0, Noted(Topic.WARNING, "x")) for seq in range(1, 5001)]
    many[4321] = Recorded(view.run, 4322, 0.0, Noted(Topic.PERMISSION_ASKED, "x"))
    columns = pictures.strip(replace(view, records=tuple(many)))
    assert len(columns) == pictures.COLUMNS
    assert [place for place, column in enumerate(columns) if column.tone == "alarm"] == [
        4321 * pictures.COLUMNS // 5000
    ]
    assert sum(column.width for column in columns) == pytest.approx(1000, abs=2)


def test_turns_are_in_rounds_the_newest_first(old: dict[str, RunStatus]):
    view = old["cycle-unfinished"].view
    titles = [group.title for group in running.turn_groups(view)]
    assert titles[:2] == ["Round 2", "Round 1"]
    assert running.turn_groups(view)[0].turns[0] == view.turns[-1]
    assert running.hidden_turns(view) == 0
    before, after = running.neighbours(view, view.turns[1])
    assert (before, after) == (view.turns[0], view.turns[2])


def test_events_are_told_as_the_log_tells_them(old: dict[str, RunStatus]):
    rows = running.event_rows(old["cycle-finished"].view, most=5)
    assert [row.seq for row in rows] == sorted((row.seq for row in rows), reverse=True)
    assert any("ended: PASSED" in row.text for row in rows)


def test_what_waits_comes_with_what_helps_to_decide(old: dict[str, RunStatus]):
    status = old["levels-blocked"]
    moment = Moment(status.work_dir, status, len(status.view.records), len(status.view.records))
    (item,) = running.waiting(moment)
    assert (item.waiting.kind, item.waiting.id) == ("question", "s1.q1")
    assert item.options == ("an empty cart is refused (changes L4; works again on feature)",)
    assert item.objections
    assert running.nobody_at_work(status) == "Nobody is at work: it waits for you."


def test_links_keep_the_work_dir_and_the_moment(old: dict[str, RunStatus]):
    status = replace(old["cycle-finished"], work_dir=Path("/a b/ü"))
    past, now = Moment(status.work_dir, status, 3, 9), Moment(status.work_dir, status, 9, 9)
    run = status.view.run
    assert links.link(past, "turns/r1.tester.c1") == f"/runs/{run}/turns/r1.tester.c1?wd=%2Fa+b%2F%C3%BC&at=3"
    assert links.link(now) == f"/runs/{run}?wd=%2Fa+b%2F%C3%BC"
    assert links.moment_link(now, 4).endswith("&at=4")


def test_the_lineage_leads_from_the_purpose_to_every_file(old: dict[str, RunStatus]):
    state = old["levels-finished"].view.build
    assert state is not None
    graph = lineage.graph(state)
    kinds = [box.kind for box in graph.boxes]
    assert kinds[0] == "purpose"
    assert kinds.count("component") == len(state.components)
    assert len(graph.edges) >= len(graph.boxes) - 1
    assert all(box.x + box.width <= graph.width and box.y + box.height <= graph.height for box in graph.boxes)


def test_reconciliations_have_a_side_for_each_level(old: dict[str, RunStatus]):
    state = old["levels-blocked"].view.build
    assert state is not None
    for one in lineage.reconciliations(state):
        assert [side.level for side in one.sides]
        assert len(one.proposals) == len({*one.proposals})


def test_the_form_has_every_setting_once_with_what_it_may_be():
    sections = forms.sections(json_schema())
    fields = {field.key: field for section in sections for field in section.fields}
    assert fields["limits.max_rounds"].kind == "number"
    assert fields["verify_pass"].choices == ("true", "false")
    assert fields["artifacts"].choices == ("openspec", "logos")
    assert fields["agents.tester.model"].about
    assert fields["limits.on_no_progress"].kind == "choice"
    assert len(fields) == sum(len(section.fields) for section in sections)
    assert not {"wd", "prompt", "$schema"} & {*fields}


def test_every_filter_of_a_template_is_known():
    for name in templates().list_templates():
        templates().get_template(name)


def test_names_are_those_of_people():
    assert presenters.name_of("peer_programmer") == "Peer programmer"
    assert presenters.name_of("L2 discount") == "L2 discount"
    assert presenters.short_place(Path("/home/ada/work/shop")) == "work/shop"
    assert "unverified" not in markdown("x")
