"""Who may come in to the page, and which requests are looked at."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from logos.web.access import FAILURE_SECONDS, MOST_FAILURES, Access, TooManyFailures
from logos.web.security import Asked, Hosts, refusal_of

CHOSEN = "a token of sixteen characters or more"


def test_a_link_opens_one_session() -> None:
    access = Access()
    link = access.link()
    session = access.enter(link)
    assert session is not None
    assert access.session(session.cookie) == session
    assert access.enter(link) is None


def test_a_persons_own_token_opens_any_number() -> None:
    access = Access(CHOSEN)
    first, second = access.enter(CHOSEN), access.enter(CHOSEN)
    assert first is not None
    assert second is not None
    assert first.cookie != second.cookie
    assert Access().enter(CHOSEN) is None


def test_the_cookie_is_not_the_token_that_acts() -> None:
    access = Access()
    session = access.enter(access.link())
    assert session is not None
    assert session.cookie != session.write
    assert access.session(session.write) is None


def test_a_session_that_was_left_is_closed() -> None:
    access = Access()
    session = access.enter(access.link())
    assert session is not None
    assert access.is_open(session)
    access.leave(session)
    assert not access.is_open(session)
    assert access.session(session.cookie) is None


def test_rotation_ends_sessions_links_and_programs() -> None:
    access = Access()
    link, token, session = access.link(), access.token, access.enter(access.link())
    assert session is not None
    new = access.rotate()
    assert not access.is_open(session)
    assert access.enter(link) is None
    assert access.program(token) is None
    assert access.is_open(new)
    assert access.program(access.token) is not None


def test_wrong_tokens_are_limited() -> None:
    now = [0.0]
    access = Access(CHOSEN, clock=lambda: now[0])
    for _ in range(MOST_FAILURES):
        assert access.enter("wrong") is None
    with pytest.raises(TooManyFailures):
        access.enter(CHOSEN)
    with pytest.raises(TooManyFailures):
        access.program(access.token)
    # They keep out nobody whose token cannot be guessed.
    assert access.enter(access.link()) is not None
    now[0] = FAILURE_SECONDS + 1
    assert access.enter(CHOSEN) is not None


def asked(method: str = "GET", path: str = "/", host: str = "127.0.0.1:8765", **headers: str) -> Asked:
    given = {"host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Asked(method, path.encode(), "", Headers(given), Hosts("127.0.0.1"), read_only=False)


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "[::1]:8765", "LOCALHOST", "localhost:9000"])
def test_names_of_loopback_are_known_also_through_a_tunnel(host: str) -> None:
    assert refusal_of(asked(host=host)) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", "", "127.0.0.1:8765@evil", "0.0.0.0"],
)
def test_other_names_are_not(host: str) -> None:
    refusal = refusal_of(asked(host=host))
    assert refusal is not None
    assert refusal.status == 421


def test_a_server_on_every_address_answers_to_addresses_but_to_no_foreign_name() -> None:
    hosts = Hosts("0.0.0.0")
    assert hosts.knows("192.168.1.7:8765")
    assert hosts.knows("[fe80::1]:8765")
    assert not hosts.knows("evil.example:8765")
    assert not Hosts("192.168.1.7").knows("192.168.1.8:8765")


@pytest.mark.parametrize(
    "path", ["/", "/runs/k3ab", "/runs/k3ab/turns/s1.L2.cart.author.t2", "/api/runs/a/events", "/static/a/b-1.2.js"]
)
def test_paths_of_the_page_are_plain(path: str) -> None:
    assert refusal_of(asked(path=path)) is None


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "/runs//k3ab",
        "/..",
        "/runs/../etc",
        "/runs/.",
        "/%2e%2e",
        "/runs%2fk3ab",
        "/runs\\k3ab",
        "/a%00",
        "/runs/",
        "/runs/k3;a=b",
        "runs",
        "",
        "/ runs",
        "/runs/\u202e",
    ],
)
def test_other_paths_are_refused(path: str) -> None:
    refusal = refusal_of(asked(path=path))
    assert refusal is not None
    assert refusal.status == 400


WRITE = {"origin": "http://127.0.0.1:8765", "content_type": "application/json"}


def test_a_write_of_our_own_page_is_looked_at() -> None:
    assert refusal_of(asked("POST", "/api/runs", **WRITE)) is None
    assert refusal_of(asked("POST", "/api/runs", sec_fetch_site="same-origin", **WRITE)) is None


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:3000"}, 403),
        ({"origin": "http://localhost:8765"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
        ({"content_type": "text/plain; application/json"}, 415),
        ({"content_length": "9999999"}, 413),
        ({"content_length": "-1"}, 413),
        ({"content_length": "9" * 5000}, 413),
    ],
)
def test_a_write_from_elsewhere_is_refused(changed: dict[str, str], status: int) -> None:
    refusal = refusal_of(asked("POST", "/api/runs", **{**WRITE, **changed}))
    assert refusal is not None
    assert refusal.status == status


def test_a_write_without_origin_is_refused() -> None:
    refusal = refusal_of(asked("POST", "/api/runs", content_type="application/json"))
    assert refusal is not None
    assert refusal.status == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get"])
def test_other_methods_are_refused(method: str) -> None:
    assert refusal_of(asked(method, "/api/runs", **WRITE)) is not None
