"""Response files: what may be taken for a response, what never may, and a bell that rings when one arrives."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from logos.adapters.responses import MAX_BYTES, FileWatcher, ResponseFiles
from logos.domain.roles import ANSWERS, RESPONSE_FILES
from logos.errors import HostError, UsageError
from logos.ports import ChangeSignal
from logos.prompts import PLACEHOLDER
from logos.testing import ManualSignal
from tests.support.waiting import LAST_RESORT as PATIENCE


@pytest.fixture
def responses(tmp_path: Path) -> ResponseFiles:
    files = ResponseFiles(tmp_path / ".tmp" / "agent-responses")
    files.ensure()
    return files


def put(responses: ResponseFiles, content: str | bytes, answer: str = "analyst") -> Path:
    path = responses.path(answer)
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


# --- where responses go


@pytest.mark.scenario("HND-01")
def test_every_response_has_a_fixed_name_in_the_folder(tmp_path: Path) -> None:
    files = ResponseFiles(tmp_path)
    assert {answer: files.path(answer) for answer in ANSWERS} == {
        "analyst": tmp_path / "analyst_summary.md",
        "analyst_review": tmp_path / "analyst_review.md",
        "programmer": tmp_path / "programmer_summary.md",
        "programmer_review": tmp_path / "programmer_review.md",
        "tester": tmp_path / "test_result.md",
    }
    assert set(RESPONSE_FILES) == set(ANSWERS)


@pytest.mark.scenario("HND-04")
def test_the_folder_is_made_with_its_parents_for_its_owner_alone(tmp_path: Path) -> None:
    files = ResponseFiles(tmp_path / "deep" / "er" / ".tmp" / "agent-responses")
    files.ensure()
    files.ensure()
    assert files.folder.is_dir()
    assert files.folder.stat().st_mode & 0o777 == 0o700
    assert files.folder.parent.stat().st_mode & 0o777 == 0o700
    assert (files.folder.parent / ".gitignore").read_text() == "*\n"


def test_a_folder_that_is_there_already_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / ".tmp"
    folder.mkdir(mode=0o755)
    (folder / "mine.txt").write_text("keep me")
    ResponseFiles(folder / "agent-responses").ensure()
    assert (folder / "mine.txt").read_text() == "keep me"
    assert folder.stat().st_mode & 0o777 == 0o755
    assert not (folder / ".gitignore").exists()


def test_a_folder_that_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / ".tmp").write_text("a file is in the way")
    with pytest.raises(UsageError, match=r"\.tmp"):
        ResponseFiles(tmp_path / ".tmp" / "agent-responses").ensure()


# --- old responses


@pytest.mark.scenario("HND-02")
def test_an_old_response_is_removed(responses: ResponseFiles) -> None:
    path = put(responses, "old")
    other = put(responses, "not this one", "tester")
    responses.clear("analyst")
    assert not path.exists()
    assert other.exists()


@pytest.mark.scenario("HND-03")
def test_removing_what_is_not_there_is_no_error(responses: ResponseFiles, tmp_path: Path) -> None:
    responses.clear("analyst")
    ResponseFiles(tmp_path / "no" / "such" / "folder").clear("analyst")


def test_removing_a_link_leaves_what_it_points_to(responses: ResponseFiles, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("keep me")
    responses.path("analyst").symlink_to(target)
    responses.clear("analyst")
    assert target.read_text() == "keep me"
    assert not responses.path("analyst").is_symlink()


def test_a_folder_in_the_place_of_a_response_cannot_be_removed_and_is_named(responses: ResponseFiles) -> None:
    responses.path("analyst").mkdir()
    with pytest.raises(UsageError, match=r"analyst_summary\.md"):
        responses.clear("analyst")


# --- what is a response


@pytest.mark.parametrize(
    "text",
    [
        "RESULT: PASS\n",
        "x",
        "語\r\n",
        f"{PLACEHOLDER}\nand here is my response",
        f"my response\n{PLACEHOLDER}\n",
        f"{PLACEHOLDER} and more",
        "\n\n  late\n",
    ],
)
def test_a_file_with_words_in_it_is_a_response(responses: ResponseFiles, text: str) -> None:
    put(responses, text)
    peek = responses.peek("analyst")
    assert peek.fingerprint
    assert peek.problem is None
    assert responses.read("analyst") == text


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n", "\t\r\n ", PLACEHOLDER, f"{PLACEHOLDER}\n", f"\r\n  {PLACEHOLDER}  \r\n\n{PLACEHOLDER}"]
)
def test_an_empty_file_or_the_placeholder_is_no_response_yet(responses: ResponseFiles, text: str) -> None:
    put(responses, text)
    peek = responses.peek("analyst")
    assert (peek.fingerprint, peek.problem) == (None, None)


def test_nothing_there_is_no_response_yet(responses: ResponseFiles) -> None:
    peek = responses.peek("analyst")
    assert (peek.fingerprint, peek.problem) == (None, None)
    with pytest.raises(HostError, match=r"analyst_summary\.md"):
        responses.read("analyst")


def test_bytes_that_are_no_text_are_replaced_and_the_rest_kept(responses: ResponseFiles) -> None:
    put(responses, b"RESULT: FAIL\n\xff\xfe broken \x80\n- and on")
    assert responses.peek("analyst").fingerprint
    said = responses.read("analyst")
    assert said.startswith("RESULT: FAIL\n")
    assert said.endswith("\n- and on")
    said.encode("utf-8")


def test_a_response_that_changes_has_another_fingerprint(responses: ResponseFiles) -> None:
    path = put(responses, "one")
    first = responses.peek("analyst").fingerprint
    assert responses.peek("analyst").fingerprint == first
    path.write_text("longer")
    second = responses.peek("analyst").fingerprint
    path.unlink()
    path.write_text("anew!!")
    os.utime(path, ns=(1, 1))
    third = responses.peek("analyst").fingerprint
    assert len({first, second, third}) == 3


def as_link(path: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("RESULT: PASS")
    path.symlink_to(tmp_path / "secret")


def as_dead_link(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "nowhere")


def as_folder(path: Path, _tmp_path: Path) -> None:
    path.mkdir()


def as_pipe(path: Path, _tmp_path: Path) -> None:
    os.mkfifo(path)


def as_too_much(path: Path, _tmp_path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"RESULT: PASS\n")
        file.truncate(MAX_BYTES + 1)


Odd = Callable[[Path, Path], None]


@pytest.mark.parametrize("odd", [as_link, as_dead_link, as_folder, as_pipe, as_too_much], ids=lambda odd: odd.__name__)
def test_what_is_no_ordinary_file_is_a_problem_that_names_it(
    responses: ResponseFiles, tmp_path: Path, odd: Odd
) -> None:
    odd(responses.path("analyst"), tmp_path)
    peek = responses.peek("analyst")
    assert peek.fingerprint is None
    assert peek.problem is not None
    assert "analyst_summary.md" in peek.problem


def test_the_largest_allowed_file_is_a_response(responses: ResponseFiles) -> None:
    put(responses, b"x" * MAX_BYTES)
    assert responses.peek("analyst").problem is None
    assert len(responses.read("analyst")) == MAX_BYTES


@pytest.mark.parametrize("odd", [as_link, as_dead_link, as_folder, as_pipe], ids=lambda odd: odd.__name__)
def test_what_took_the_place_of_a_response_since_the_last_look_is_not_read(
    responses: ResponseFiles, tmp_path: Path, odd: Odd
) -> None:
    path = responses.path("analyst")
    odd(path, tmp_path)
    ends: list[object] = []

    def read() -> None:
        try:
            ends.append(responses.read("analyst"))
        except Exception as error:  # noqa: BLE001 - looked at below
            ends.append(error)

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    reading.join(5)
    with suppress(OSError):
        # Whoever waits at a pipe is let go.
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
    reading.join(PATIENCE)
    assert [type(end) for end in ends] == [HostError]


def test_a_response_can_be_looked_at_while_it_is_replaced_again_and_again(responses: ResponseFiles) -> None:
    stop = threading.Event()

    def replace_and_remove() -> None:
        while not stop.is_set():
            put(responses, "RESULT: PASS\n")
            responses.clear("analyst")

    writer = threading.Thread(target=replace_and_remove, daemon=True)
    writer.start()
    try:
        for _ in range(500):
            assert responses.peek("analyst").problem is None
    finally:
        stop.set()
        writer.join(PATIENCE)


# --- the bell


@pytest.fixture(params=["doorbell", "handbell"])
def change_signal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChangeSignal]:
    if request.param == "handbell":
        yield ManualSignal()
        return
    doorbell = FileWatcher(tmp_path)
    yield doorbell
    doorbell.close()


def test_a_ring_between_counting_and_waiting_is_not_missed(change_signal: ChangeSignal) -> None:
    heard = change_signal.wakeups
    change_signal.wake()
    change_signal.wait(heard, PATIENCE * 10)
    assert change_signal.wakeups > heard


def test_a_ring_wakes_whoever_waits(change_signal: ChangeSignal) -> None:
    heard, woken = change_signal.wakeups, threading.Event()

    def wait() -> None:
        change_signal.wait(heard, PATIENCE * 10)
        woken.set()

    threading.Thread(target=wait, daemon=True).start()
    change_signal.wake()
    assert woken.wait(PATIENCE)


def test_waiting_for_nothing_ends_by_itself(change_signal: ChangeSignal) -> None:
    change_signal.wait(change_signal.wakeups + 1_000, 0.01)


def change_until_it_rings(change_signal: FileWatcher, change: Callable[[int], object]) -> None:
    """The listener starts in its own time: changes go on until one is heard."""
    heard = change_signal.wakeups
    for n in range(int(PATIENCE / 0.1)):
        change(n)
        change_signal.wait(heard, 0.1)
        if change_signal.wakeups > heard:
            return
    pytest.fail("it never rang")


def test_the_doorbell_rings_when_a_file_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "responses"
    folder.mkdir()

    def move_in(n: int) -> None:
        (tmp_path / "elsewhere").write_text(f"moved {n}")
        os.replace(tmp_path / "elsewhere", folder / "moved.md")

    change_signal = FileWatcher(folder)
    try:
        change_until_it_rings(change_signal, lambda n: (folder / f"{n}.md").write_text("here"))
        change_until_it_rings(change_signal, lambda n: (folder / "same.md").write_text(f"again {n}"))
        change_until_it_rings(change_signal, move_in)
    finally:
        change_signal.close()


def test_looking_at_a_response_does_not_ring_the_doorbell(tmp_path: Path) -> None:
    responses = ResponseFiles(tmp_path)
    responses.path("analyst").write_text("here")
    change_signal = FileWatcher(tmp_path)
    try:
        heard = change_signal.wakeups
        for _ in range(20):
            responses.peek("analyst")
        # Events come in order: whatever the looks caused comes before this one.
        change_until_it_rings(change_signal, lambda n: (tmp_path / f"{n}.md").write_text("here"))
        assert change_signal.wakeups - heard < 20
    finally:
        change_signal.close()


def test_a_doorbell_without_a_folder_is_silent_and_harmless(tmp_path: Path) -> None:
    change_signal = FileWatcher(tmp_path / "nowhere")
    heard = change_signal.wakeups
    change_signal.wait(heard, 0.01)
    change_signal.wake()
    assert change_signal.wakeups == heard + 1
    change_signal.close()


def test_where_no_more_watchers_can_be_had_waiters_are_not_woken_and_go_on_polling(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_one = os.dup(0)
    os.close(next_one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, hard))
    try:
        change_signal = FileWatcher(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    heard = change_signal.wakeups
    change_signal.wait(heard, 0.01)
    change_signal.wake()
    assert change_signal.wakeups == heard + 1
    change_signal.close()


def test_closing_the_doorbell_wakes_whoever_waits(tmp_path: Path) -> None:
    change_signal = FileWatcher(tmp_path)
    heard = change_signal.wakeups
    change_signal.close()
    change_signal.wait(heard, PATIENCE * 10)
    assert change_signal.wakeups > heard


def test_a_link_is_refused_as_the_system_refuses_it(responses: ResponseFiles, tmp_path: Path) -> None:
    as_link(responses.path("analyst"), tmp_path)
    with pytest.raises(HostError, match=os.strerror(errno.ELOOP)):
        responses.read("analyst")
