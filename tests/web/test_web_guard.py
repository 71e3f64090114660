"""What the server refuses, and the headers on everything it answers."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient
from web_clients import HOME, client_of, picture, serving, taught, uploads

from fscil.web.app import create_app
from fscil.web.guard import SLOWLY, Rules, is_loopback

TOKEN = "a-long-enough-token"


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return client_of(taught(tmp_path))


@pytest.fixture
def locked(tmp_path: Path) -> TestClient:
    return client_of(taught(tmp_path), host="0.0.0.0", token=TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:9", "[::1]:8000", "127.0.0.1"])
def test_own_names_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/api/state", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "127.0.0.1,evil.example",
        "localhost:80:80",
        "192.168.0.7",
        "0.0.0.0",
        "",
    ],
)
def test_a_name_rebound_to_this_machine_is_refused(client: TestClient, host: str) -> None:
    for path in ("/", "/api/state", "/static/app.js"):
        assert client.get(path, headers={"host": host}).status_code == 421


def test_an_address_of_its_own_is_answered(tmp_path: Path) -> None:
    client = client_of(taught(tmp_path), host="127.0.0.9")
    assert client.get("/api/state", headers={"host": "127.0.0.9:8000"}).status_code == 200


def test_two_host_headers_are_refused(client: TestClient) -> None:
    assert client.get("/api/state", headers=[("host", "127.0.0.1"), ("host", "evil.example")]).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},  # another program's page on the same machine
        {"origin": "http://localhost:8000"},
        {"origin": "file://127.0.0.1:8000"},
        {"origin": "http://[127.0.0.1:8000"},  # no address at all
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site", "origin": HOME},
    ],
)
def test_other_sites_can_change_nothing(client: TestClient, headers: dict[str, str]) -> None:
    before = client.get("/api/classes").json()
    posts = [
        client.post("/api/forget", json={"name": "dark"}, headers=headers),
        client.post("/api/undo", headers=headers),
        client.post("/api/threshold", json={"value": 0.1}, headers=headers),
        client.post("/api/rename", json={"old": "dark", "new": "x"}, headers=headers),
        client.post("/api/learn", data={"name": "x"}, files=uploads(picture(90)), headers=headers),
        client.post("/api/predict", files=uploads(picture(90)), headers=headers),
    ]
    assert [answer.status_code for answer in posts] == [403] * len(posts)
    assert client.get("/api/classes").json() == before


def test_other_sites_can_read_nothing_but_may_link_to_the_page(client: TestClient) -> None:
    embedded = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    for path in ("/api/state", "/api/export", "/api/image/" + "0" * 64, "/static/app.js", "/"):
        assert client.get(path, headers=embedded).status_code == 403
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=link).status_code == 200
    assert client.get("/api/export", headers=link).status_code == 403


def test_own_page_and_scripts_may_change(client: TestClient) -> None:
    own = {"sec-fetch-site": "same-origin", "origin": HOME}
    assert client.post("/api/forget", json={"name": "dark"}, headers=own).status_code == 200
    assert client.post("/api/undo").status_code == 200  # curl sends neither header


def test_every_answer_carries_the_security_headers_and_no_cors(client: TestClient) -> None:
    answers = [
        client.get("/"),
        client.get("/static/app.js"),
        client.get("/api/state", headers={"origin": HOME}),
        client.get("/nowhere"),
        client.post("/api/forget", json={"name": "nobody"}),
        client.get("/", headers={"host": "evil.example"}),
        client.options(
            "/api/forget", headers={"origin": "https://evil.example", "access-control-request-method": "POST"}
        ),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_no_websocket(client: TestClient) -> None:
    with pytest.raises(Exception), client.websocket_connect("/api/state"):  # noqa: B017, PT011
        pass


def test_token_is_asked_for_everywhere_but_the_look(locked: TestClient) -> None:
    for path in ("/", "/api/state", "/api/openapi.json", "/api/image/" + "0" * 64, "/api/export"):
        assert locked.get(path).status_code == 401
    assert locked.post("/api/undo").status_code == 401
    assert "token" in locked.get("/").text
    assert "unsafe" not in locked.get("/").headers["content-security-policy"]
    assert locked.get("/static/style.css").status_code == 200


@pytest.mark.parametrize("wrong", ["", "a-long-enough-toke", TOKEN + "x", TOKEN.upper(), "ü" * 19, "\x00"])
def test_wrong_tokens(locked: TestClient, wrong: str) -> None:
    header = {"authorization": f"Bearer {wrong}".encode()}
    assert locked.get("/api/state", headers=header).status_code == 401
    assert locked.get("/", params={"token": wrong}, follow_redirects=False).status_code == 401
    locked.cookies.set("fscil-8000", TOKEN)
    assert locked.get("/api/state").status_code == 401


def test_token_by_header_or_once_by_address(locked: TestClient) -> None:
    assert locked.get("/api/state", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    answer = locked.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"  # the token does not stay in the address bar
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and TOKEN not in cookie  # noqa: PT018
    assert locked.get("/api/state").status_code == 200  # with the cookie


def test_servers_on_two_ports_do_not_take_each_others_cookies(locked: TestClient) -> None:
    """Browsers send the cookies of a host to all its ports."""
    other = {"host": "127.0.0.1:9000"}
    answer = locked.get("/", params={"token": TOKEN}, headers=other, follow_redirects=False)
    assert answer.headers["set-cookie"].startswith("fscil-9000=")
    locked.cookies.clear()
    locked.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert "fscil-8000" in locked.cookies
    assert locked.get("/api/state").status_code == 200
    assert locked.get("/api/state", headers=other).status_code == 401


def test_who_guesses_waits_and_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty wrong tokens at once are answered one after another; the right one does not wait for them."""
    over, pauses, pausing = threading.Event(), [], []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        pausing.append(1)
        assert len(pausing) == 1
        while not over.is_set():
            await asyncio.sleep(0.01)
        pausing.clear()

    monkeypatch.setattr("fscil.web.guard.asyncio", SimpleNamespace(Lock=asyncio.Lock, sleep=pause))
    with serving(create_app(taught(tmp_path), Rules(token=TOKEN))) as address, ThreadPoolExecutor(30) as pool:
        wrong = [pool.submit(ask, address, f"{TOKEN}{number}") for number in range(30)]
        try:
            assert ask(address, TOKEN) == 200
            assert not any(each.done() for each in wrong)
        finally:
            over.set()
        assert {each.result() for each in wrong} == {401}
    assert pauses == [SLOWLY] * 30


def ask(address: str, token: str) -> int:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=300)
    with contextlib.closing(connection):
        connection.request("GET", "/api/state", headers={"authorization": f"Bearer {token}"})
        return connection.getresponse().status


def test_reachable_server_answers_addresses_but_not_strangers_names(locked: TestClient) -> None:
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert locked.get("/api/state", headers={"host": "192.168.0.7:8000", **bearer}).status_code == 200
    assert locked.get("/api/state", headers={"host": "evil.example", **bearer}).status_code == 421


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("192.168.1.5", False), ("example.org", False)],
)  # fmt: skip
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_announced_bodies_over_the_limit_are_refused(tmp_path: Path) -> None:
    client = client_of(taught(tmp_path), max_body=1000)
    answer = client.post("/api/predict", files=uploads(b"x" * 2000))
    assert answer.status_code == 413
    assert "send fewer" in answer.json()["error"]
    assert client.post("/api/predict", headers={"content-length": "many"}).status_code == 400


def test_bodies_that_do_not_announce_their_length_are_stopped_while_they_come(tmp_path: Path) -> None:
    """Over a real connection: far more is offered than is read before the server answers."""
    with serving(create_app(taught(tmp_path), Rules(max_body=100_000))) as address:
        form = b'--b\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
        assert offer(address, "/api/learn", "multipart/form-data; boundary=b", form) == 413
        assert offer(address, "/api/forget", "application/json", b'"') == 413


def offer(address: str, path: str, kind: str, head: bytes) -> int:
    """The status of a request whose body would go on for 20 MB."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=300)
    connection.putrequest("POST", path)
    connection.putheader("Transfer-Encoding", "chunked")
    connection.putheader("Content-Type", kind)
    connection.endheaders()
    sent = 0
    with contextlib.suppress(OSError):  # the server hangs up, as it may
        for part in (head, *[b"x" * 10_000] * 2000):
            connection.send(b"%x\r\n%s\r\n" % (len(part), part))
            sent += len(part)
    assert sent < 20_000_000
    status = connection.getresponse().status
    connection.close()
    return status
