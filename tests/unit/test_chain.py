"""The lines of a mirror: whatever happens to them, only events that were written are believed."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from logos.adapters.store.chain import Chain, Head, Row, make_lines, read_chain, readable, reconcile
from logos.domain.turns import RunId

RUN = RunId("run-a")

bodies = st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=3).map(
    lambda said: json.dumps({"kind": "noted", **said}, ensure_ascii=False).encode("utf-8", "replace")
)
times = st.floats(-1e11, 1e11, allow_nan=False)
runs = st.lists(st.tuples(times, bodies), max_size=6).map(
    lambda events: tuple((seq, at, body) for seq, (at, body) in enumerate(events, 1))
)


def settled(chain: Chain | None, stored: tuple[Row, ...], known: Head | None = None, registered: bool = True):
    return reconcile(RUN, chain, stored, known=known, registered=registered, vouched=lambda _: False)


@given(runs)
def test_lines_are_read_as_they_were_written_and_are_json(rows: tuple[Row, ...]):
    data, hashes = make_lines(RUN, rows)
    assert read_chain(RUN, data) == Chain(rows, hashes, b"")
    assert [json.loads(line)["hash"] for line in data.split(b"\n") if line] == [*hashes]
    assert readable(rows) == rows


@given(runs)
def test_the_file_of_one_run_is_no_file_of_another(rows: tuple[Row, ...]):
    assert read_chain(RunId("run-b"), make_lines(RUN, rows)[0]).rows == ()


@given(runs, st.data())
def test_of_a_file_that_is_cut_anywhere_every_whole_line_is_believed(rows: tuple[Row, ...], data: st.DataObject):
    whole = make_lines(RUN, rows)[0]
    cut = data.draw(st.integers(0, len(whole)))
    assert read_chain(RUN, whole[:cut]).rows == rows[: whole[:cut].count(b"\n")]


@given(runs.filter(bool), st.data())
def test_of_a_file_with_a_changed_byte_only_the_lines_before_it_are_believed(
    rows: tuple[Row, ...], data: st.DataObject
):
    whole = bytearray(make_lines(RUN, rows)[0])
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    assert read_chain(RUN, bytes(whole)).rows == rows[: whole[:place].count(b"\n")]


@settings(max_examples=200)
@given(runs, runs, st.data())
def test_whatever_the_database_holds_the_mirror_is_believed(
    rows: tuple[Row, ...], others: tuple[Row, ...], data: st.DataObject
):
    chain = read_chain(RUN, make_lines(RUN, rows)[0])
    stored = data.draw(st.sampled_from([rows, others, rows[:-1], (*rows, (len(rows) + 1, 1.0, b'{"kind":"x"}'))]))
    found = settled(chain, stored)
    assert found.rows == rows
    assert (*stored[: found.kept], *found.dropped) == stored
    assert (*stored[: found.kept], *rows[found.kept :]) == rows


@given(runs, st.booleans())
def test_without_a_mirror_a_run_is_believed_only_where_it_is_known(rows: tuple[Row, ...], registered: bool):
    assert settled(None, rows, registered=registered).rows == (rows if registered else ())


@given(runs.filter(bool), runs)
def test_what_a_driver_remembers_is_found_in_the_mirror_or_in_the_database(
    rows: tuple[Row, ...], others: tuple[Row, ...]
):
    data, hashes = make_lines(RUN, rows)
    known = Head(len(rows), hashes[-1])
    for chain, stored in (
        (read_chain(RUN, data), others),
        (read_chain(RUN, make_lines(RUN, others)[0]), rows),
        (None, rows),
    ):
        assert settled(chain, stored, known).rows == rows
