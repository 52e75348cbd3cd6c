"""Attacks on the page: from other sites in the browser, from other ports, and from what agents have written."""

from __future__ import annotations

import html
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from logos.domain.events import PersonSaid
from logos.testing import PASS
from logos.web.options import WebOptions
from logos.web.security import LARGEST_BODY
from tests.support.sandbox import Sandbox
from tests.support.web import Browser, Raw, Served

EVIL = "http://evil.example"
# What agents may answer; none of it may be more than text on the page.
MARKUP = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<svg/onload=alert(1)>",
    "</textarea></title></script><iframe src=//evil.example>",
    "[click](javascript:alert(1)) ![x](http://evil.example/x.png)",
    "{{ 7*7 }}{% include 'error.html' %}",
)
CONTROLS = "\x1b[2J\x1b]0;owned\x07\x1b[31mred\u202etxt.exe\u200b\x00"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """A run whose analyst has written an attack."""
    shop = Sandbox(tmp_path_factory.mktemp("work"))
    said = "ANALYST_SUMMARY:\n- openspec-propose: done\n" + "\n".join((*MARKUP, CONTROLS)) + "\n"
    shop.hire(analyst=[said], tester=[PASS])
    shop.run()
    return shop


@pytest.fixture(scope="module")
def served(shop: Sandbox) -> Iterator[Served]:
    with Served(WebOptions((shop.wd,))) as served:
        yield served


@pytest.fixture
def browser(served: Served) -> Browser:
    return served.browser()


@pytest.fixture
def tell(shop: Sandbox, browser: Browser) -> Any:
    """A write that is refused must not have happened; `tell` is one that any run would take."""
    before = len(shop.records())
    path, body = f"/api/runs/{shop.run_id}/fork", json.dumps({"resume": False}).encode()

    def attempt(*, without: tuple[str, ...] = (), **changed: str) -> Raw:
        headers = {**browser.headers, **browser.writing} | {name.replace("_", "-"): v for name, v in changed.items()}
        return browser.served.raw("POST", path, {k: v for k, v in headers.items() if k not in without}, body)

    yield attempt
    assert len(shop.records()) == before
    assert len(shop.logs()) == 1


# --- other sites


@pytest.mark.parametrize("path", ["/", "/runs/RUN", "/api/runs", "/api/stream", "/static/enter.js", "/enter"])
def test_a_name_that_leads_here_by_dns_is_refused(browser: Browser, shop: Sandbox, path: str) -> None:
    answer = browser.served.raw("GET", path.replace("RUN", shop.run_id), {**browser.headers, "Host": "evil.example"})
    assert answer.status == 421
    assert shop.run_id not in answer.text


def test_a_request_with_two_hosts_or_none_is_refused(browser: Browser) -> None:
    cookie = ("Cookie", browser.headers["Cookie"])
    both = [("Host", browser.served.host), ("Host", "evil.example"), cookie]
    assert browser.served.raw("GET", "/api/runs", both).status == 400
    assert browser.served.raw("GET", "/api/runs", [cookie]).status in (400, 421)


def test_a_form_of_another_site_cannot_write(tell: Any) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        assert tell(Origin=EVIL, Content_Type=kind, without=("X-Logos-Token",)).status == 403
        # Even if it could forge everything else.
        assert tell(Content_Type=kind).status == 415


@pytest.mark.parametrize("origin", [EVIL, "null", "http://127.0.0.1:1", "http://localhost", "file://", ""])
def test_a_write_with_a_foreign_origin_is_refused(tell: Any, origin: str) -> None:
    assert tell(Origin=origin).status == 403


def test_a_write_without_an_origin_is_refused(tell: Any) -> None:
    assert tell(without=("Origin",)).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_a_write_that_the_browser_says_is_from_elsewhere_is_refused(tell: Any, site: str) -> None:
    assert tell(Sec_Fetch_Site=site).status == 403


def test_a_write_needs_more_than_the_cookie(tell: Any, browser: Browser) -> None:
    """A server on another port of this host is sent the cookie by the browser."""
    assert tell(without=("X-Logos-Token",)).status == 403
    assert tell(X_Logos_Token="").status == 403
    assert tell(X_Logos_Token=browser.cookie).status == 403
    assert tell(X_Logos_Token=browser.write_token + "x").status == 403


def test_the_cookie_does_not_lead_to_the_token_that_writes(browser: Browser, shop: Sandbox) -> None:
    run = shop.run_id
    for path in ("/", "/start", f"/runs/{run}", "/enter", "/api/session", "/api/runs", f"/api/runs/{run}"):
        answer = browser.served.raw("GET", path, browser.headers)
        assert answer.status == 200
        assert browser.write_token not in answer.text
        assert browser.write_token not in json.dumps(answer.headers)


def test_a_write_needs_the_cookie_of_its_own_session(tell: Any, served: Served) -> None:
    other = served.browser()
    assert tell(Cookie=other.headers["Cookie"]).status == 403
    assert tell(without=("Cookie",)).status == 401
    assert tell(Cookie="logos=x").status == 401


def test_a_request_with_two_tokens_is_refused(tell: Any, browser: Browser) -> None:
    other = browser.served.browser()
    name = f"logos-{browser.served.port}"
    assert tell(Cookie=f"{name}={browser.cookie}; {name}={other.cookie}").status == 400
    assert tell(Authorization=f"Bearer {browser.served.access.token}").status == 400
    twice = [*browser.headers.items(), *browser.writing.items(), ("X-Logos-Token", "x")]
    assert browser.served.raw("POST", "/api/rotate", twice, b"{}").status == 400


def test_nothing_is_allowed_to_other_origins(browser: Browser) -> None:
    asks = {"Origin": EVIL, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "X-Logos-Token"}
    answers = [
        browser.served.raw("OPTIONS", "/api/runs", {**browser.headers, **asks}),
        browser.served.raw("GET", "/api/runs", {**browser.headers, "Origin": EVIL}),
        browser.served.raw("GET", "/api/runs", browser.headers),
    ]
    assert [answer.status for answer in answers] == [405, 403, 200]
    for answer in answers:
        assert [name for name in answer.headers if name.startswith("access-control")] == []


@pytest.mark.parametrize("path", ["/api/stream?runs=RUN", "/api/runs/RUN/events/stream", "/api/runs/RUN/events"])
def test_a_stream_is_not_for_other_origins(browser: Browser, shop: Sandbox, path: str) -> None:
    wants = {**browser.headers, "Accept": "text/event-stream"}
    for more in ({"Origin": EVIL}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        answer = browser.served.raw("GET", path.replace("RUN", shop.run_id), {**wants, **more})
        assert answer.status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("dest", ["script", "image", "style", "empty", "iframe", "object", "embed", "worker"])
def test_nothing_is_a_part_of_another_sites_page(browser: Browser, shop: Sandbox, site: str, dest: str) -> None:
    for path in ("/", f"/runs/{shop.run_id}", "/api/runs", "/static/enter.js"):
        headers = {**browser.headers, "Sec-Fetch-Site": site, "Sec-Fetch-Dest": dest}
        answer = browser.served.raw("GET", path, headers)
        assert answer.status == 403
        assert shop.run_id not in answer.text


def test_no_page_is_shown_inside_of_another(browser: Browser) -> None:
    answer = browser.served.raw("GET", "/", {**browser.headers, "Sec-Fetch-Dest": "iframe"})
    assert answer.status == 403
    shown = browser.served.raw("GET", "/", browser.headers)
    assert shown.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in shown.headers["content-security-policy"]


def test_a_link_from_elsewhere_lands_on_an_empty_page_that_opens_itself_again(browser: Browser, shop: Sandbox) -> None:
    target = f"/runs/{shop.run_id}"
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
    # With and without the cookie: what a browser sends along is not looked at.
    for own in (browser.headers, {"Host": browser.served.host}):
        landed = browser.served.raw("GET", f"{target}?at=3", {**own, **headers})
        assert landed.status == 200
        assert landed.headers["refresh"] == f"0; url={target}?at=3"
        assert shop.run_id not in landed.text
    again = browser.served.raw("GET", target, {**browser.headers, **headers, "Sec-Fetch-Site": "same-origin"})
    assert shop.run_id in again.text


def test_a_landing_page_leads_nowhere_else(browser: Browser) -> None:
    headers = {**browser.headers, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}
    for query in ("x=%0d%0aSet-Cookie:a=b", "a=;url=http://evil.example", "a='\"><script>", "u=//evil.example"):
        landed = browser.served.raw("GET", f"/start?{query}", headers)
        assert landed.headers.get("refresh") == "0; url=/start"
        assert "set-cookie" not in landed.headers
        assert "evil" not in landed.text


# --- tokens


def test_without_a_session_there_is_nothing(served: Served, shop: Sandbox) -> None:
    own, run, turn = {"Host": served.host}, shop.run_id, shop.asked[0]
    for path in ("/", "/start", f"/runs/{run}", f"/runs/{run}/turns/{turn}", f"/runs/{run}/diff", "/parts/rows"):
        answer = served.raw("GET", path, own)
        assert answer.status == 303
        assert answer.headers["location"] == f"/enter?next={path}"
        assert answer.text == ""
    for path in ("/api/runs", f"/api/runs/{run}", f"/api/runs/{run}/events/stream", "/api/stream", "/api/openapi.json"):
        assert served.raw("GET", path, own).status == 401
    for path in ("/static/nothing.css", "/api/nothing"):
        assert served.raw("GET", path, own).status == 401
    assert run not in served.raw("GET", "/enter", own).text


def test_a_token_in_an_address_opens_nothing(served: Served, shop: Sandbox) -> None:
    """Addresses are kept in histories and logs, and sent as Referer."""
    for token in (served.access.link(), served.access.token):
        for path in (f"/?token={token}", f"/enter?token={token}", f"/api/runs?token={token}", f"/api/runs/{token}"):
            answer = served.raw("GET", path, {"Host": served.host})
            assert "set-cookie" not in answer.headers
            assert shop.run_id not in answer.text
            assert token not in answer.headers.get("location", "")


def test_a_link_is_used_up_and_no_answer_repeats_a_token(served: Served) -> None:
    token = served.access.link()
    headers = {"Host": served.host, "Origin": served.url, "Content-Type": "application/json"}
    body = json.dumps({"token": token}).encode()
    first, second = (served.raw("POST", "/enter", headers, body) for _ in range(2))
    assert (first.status, second.status) == (200, 403)
    assert token not in first.text + second.text
    cookie = first.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert first.headers["referrer-policy"] == "same-origin"


def test_a_session_cannot_be_opened_from_another_site(served: Served) -> None:
    """Otherwise another site could make a browser use a session that the attacker knows."""
    token = served.access.link()
    body = json.dumps({"token": token}).encode()
    good = {"Host": served.host, "Origin": served.url, "Content-Type": "application/json"}
    for changed in ({"Origin": EVIL}, {"Content-Type": "text/plain"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = served.raw("POST", "/enter", {**good, **changed}, body)
        assert answer.status in (403, 415)
        assert "set-cookie" not in answer.headers
    assert served.raw("POST", "/enter", good, body).status == 200


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"null", b'{"token": 5}', b'{"token": null}', b"\xff", b"[" * 100_000]
)
def test_odd_logins_are_refused(served: Served, body: bytes) -> None:
    headers = {"Host": served.host, "Origin": served.url, "Content-Type": "application/json"}
    assert served.raw("POST", "/enter", headers, body).status == 403


def test_log_out_ends_the_session_and_its_streams(served: Served, shop: Sandbox) -> None:
    browser = served.browser()
    with browser.stream(f"/api/stream?runs={shop.run_id}") as sent:
        assert next(sent)["event"] == "run"
        assert browser.post("/api/logout").status_code == 204
    assert served.raw("GET", "/api/runs", browser.headers).status == 401
    assert served.raw("POST", "/api/rotate", {**browser.headers, **browser.writing}, b"{}").status == 401


def test_rotation_ends_every_other_session(served: Served) -> None:
    one, other = served.browser(), served.browser()
    answer = one.post("/api/rotate")
    assert answer.status_code == 200
    assert served.raw("GET", "/api/runs", other.headers).status == 401
    assert served.raw("GET", "/api/runs", one.headers).status == 401
    one.write_token = answer.json()["write_token"]
    assert one.get("/api/runs").status_code == 200
    assert one.post("/api/link").status_code == 200


def test_a_program_needs_its_token(served: Served) -> None:
    own = {"Host": served.host}
    for given in ("Bearer wrong", "Bearer", "Basic " + served.access.token, served.access.token, "Bearer \u00e9"):
        answer = served.raw("GET", "/api/runs", {**own, "Authorization": given.encode("utf-8").decode("latin-1")})
        assert answer.status in (400, 401)
    assert served.raw("GET", "/api/runs", {**own, "Authorization": f"Bearer {served.access.token}"}).status == 200


# --- paths and bodies


@pytest.mark.parametrize(
    "path",
    [
        *("//", "//api/runs", "/api//runs", "/static/../pages.py", "/static/%2e%2e/pages.py", "/static/..%2fpages.py"),
        *("/static/....//pages.py", "/static/enter.js/", "/static//etc/passwd", "/runs/..%2f..%2fetc", "/runs/%00"),
        *("/runs/..", "/api/runs/../openapi.json", "/runs\\..\\x", "/static/enter.js%00.css", "/parts/..%2frun"),
        *("/enter/", "/enter%2f..", "/%65nter", "/API/runs", "http://evil.example/api/runs", "*"),
    ],
)
def test_tricks_in_paths_lead_nowhere(browser: Browser, shop: Sandbox, path: str) -> None:
    for headers in (browser.headers, {"Host": browser.served.host}):
        answer = browser.served.raw("GET", path, headers)
        assert answer.status in (400, 401, 404) or answer.headers.get("location", "").startswith("/enter?next=/")
        assert shop.run_id not in answer.text
        assert "def " not in answer.text
        assert "root:" not in answer.text


def test_a_long_body_is_not_read(browser: Browser) -> None:
    headers = {**browser.headers, **browser.writing}
    with socket.create_connection(("127.0.0.1", browser.served.port)) as connection:
        lines = [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join(["POST /api/rotate HTTP/1.1", *lines, f"Content-Length: {LARGEST_BODY + 1}", "", ""])
        connection.sendall(head.encode())
        assert b" 413 " in connection.recv(100)


def test_a_long_body_without_a_length_is_not_kept(browser: Browser, shop: Sandbox) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(LARGEST_BODY // 10_000 + 10):
            yield b" " * 10_000

    path = f"/api/runs/{shop.run_id}/approve"
    assert browser.client.post(path, content=chunks(), headers=browser.writing).status_code == 413


# --- a server that only shows


def test_read_only_refuses_every_verb(shop: Sandbox) -> None:
    with Served(WebOptions((shop.wd,), read_only=True)) as served:
        browser = served.browser()
        assert browser.get("/api/runs").status_code == 200
        for verb in ("approve", "reject", "answer", "tell", "grant", "stop", "resume", "fork", "rollback", "abandon"):
            assert browser.post(f"/api/runs/{shop.run_id}/{verb}").status_code == 403
        assert browser.post("/api/runs", {"wd": str(shop.wd), "text": "x"}).status_code == 403
        assert browser.post("/api/logout").status_code == 204
    assert len(shop.logs()) == 1
    assert shop.events(PersonSaid) == []


def test_only_known_work_dirs_are_started_in(browser: Browser, shop: Sandbox) -> None:
    for wd in ("/", "/etc", str(shop.wd.parent), f"{shop.wd}/..", f"{shop.wd}/", ""):
        answer = browser.post("/api/runs", {"wd": wd, "text": "x"})
        assert answer.status_code == 409
        assert "none of the work dirs" in answer.json()["error"]


# --- what agents write


def test_what_agents_write_is_text(browser: Browser, shop: Sandbox) -> None:
    run = shop.run_id
    for path in ("/", f"/runs/{run}", f"/runs/{run}/turns/r1.analyst.c1", f"/runs/{run}/diff", f"/runs/{run}/proof"):
        page = browser.get(path).text
        for attack in MARKUP[:4]:
            assert attack not in page
        for bad in ("\x1b", "\u202e", "\u200b", "\x00"):
            assert bad not in page
        assert "<svg/onload" not in page
        assert 'href="javascript:' not in page
        assert 'src="http' not in page
    turn = browser.get(f"/runs/{run}/turns/r1.analyst.c1").text
    assert html.escape("<script>alert(1)</script>") in turn or "&lt;script&gt;alert(1)" in turn


def test_answers_cannot_be_taken_for_something_else(browser: Browser, shop: Sandbox) -> None:
    for path in (f"/api/runs/{shop.run_id}/turns/r1.analyst.c1", "/api/runs/x", f"/api/runs/{shop.run_id}/events"):
        answer = browser.get(path)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "<script>alert" in answer.text or answer.status_code == 404


def test_a_stream_has_no_message_that_an_agent_made(tmp_path_factory: pytest.TempPathFactory) -> None:
    shop = Sandbox(tmp_path_factory.mktemp("stream"))
    shop.hire(analyst=["ANALYST_SUMMARY:\n\n\nevent: list\ndata: {}\n\r\rid: 99999\r\n\r\nretry: 1\n\n"], tester=[PASS])
    shop.run()
    with Served(WebOptions((shop.wd,))) as served:
        own, last = served.browser(), len(shop.records())
        with own.stream(f"/api/runs/{shop.run_id}/events/stream") as sent:
            told = [next(sent) for _ in range(last)]
    assert [message["event"] for message in told] == ["event"] * last
    assert [message["id"] for message in told] == [str(number) for number in range(1, last + 1)]


def test_an_enormous_response_is_shown_in_part(tmp_path_factory: pytest.TempPathFactory) -> None:
    shop = Sandbox(tmp_path_factory.mktemp("large"))
    shop.hire(analyst=["ANALYST_SUMMARY:\n" + "all work and no play\n" * 150_000], tester=[PASS])
    shop.run()
    with Served(WebOptions((shop.wd,))) as served:
        browser = served.browser()
        with browser.stream(f"/api/stream?runs={shop.run_id}", **{"Last-Event-ID": f"{shop.run_id}:0"}) as sent:
            told = [next(sent) for _ in range(len(shop.records()))]
        assert max(len(message["data"]) for message in told) < 20_000
