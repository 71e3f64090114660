"""Half-sent requests, slow clients, mountains of pixels: who sends nothing of the kind is answered all the same."""

from __future__ import annotations

import asyncio
import http.client
import io
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import h11
import httpx
import numpy as np
import pytest
from fake_learner import FakeLearner
from PIL import Image
from uvicorn.server import ServerState
from web_clients import client_of, picture, serving, taught, uploads

from fscil.teach import Learner
from fscil.teach.project import contents
from fscil.teach.project.store import Store
from fscil.web.app import create_app
from fscil.web.connections import CONNECTIONS, ENOUGH, PatientProtocol, ServerConfig
from fscil.web.decoding import MAX_PIXELS
from fscil.web.demo import printed
from fscil.web.guard import REFUSED, Rules

LONG = 300.0  # seconds: what a test waits at most for what must come


# Half-sent requests

SERVER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import uvicorn
from fake_learner import FakeLearner
from fscil.web.app import create_app
from fscil.web.connections import ServerConfig
from fscil.web.serve import _listen

listener = _listen("127.0.0.1", 0)
print(listener.getsockname()[1], flush=True)
config = ServerConfig(create_app(FakeLearner(Path(sys.argv[2]))), patience=3.0)
uvicorn.Server(config).run(sockets=[listener])
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A server as a process that may open 256 files; its port, and where it writes its log."""
    log = tmp_path / "log"
    limit = (256, 256)
    with open(log, "w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(Path(__file__).parent), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit),
        )
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), log
        finally:
            process.terminate()
            process.wait()


def test_half_sent_requests_stop_nobody_and_fill_no_log(server: tuple[int, Path]) -> None:
    """More of them than the server may open files."""
    port, log = server
    halves = []
    for number in range(300):
        half = socket.create_connection(("127.0.0.1", port), timeout=LONG)
        half.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: " if number % 2 else b"POST /api/le")
        halves.append(half)
    assert status_of(port, "/api/state") == 200
    assert [over(half) for half in halves] == [True] * 300  # hung up on, within `patience` or two
    assert status_of(port, "/api/state") == 200
    assert len(log.read_text().splitlines()) < 40


def test_half_sent_bodies_are_hung_up_on(tmp_path: Path) -> None:
    with serving(create_app(taught(tmp_path)), patience=1.0) as address:
        port = int(address.rpartition(":")[2])
        head = b"POST /api/forget HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        announced, chunked, silent = [socket.create_connection(("127.0.0.1", port), timeout=LONG) for _ in range(3)]
        announced.sendall(head + b'Content-Length: 1000\r\n\r\n{"name"')
        chunked.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
        assert all(map(over, (announced, chunked, silent)))


def over(half: socket.socket) -> bool:
    """Whether the server ends the connection; a server that does not makes the test time out."""
    with half:
        try:
            while half.recv(4096):
                pass
        except ConnectionError:
            pass
    return True


def status_of(port: int, path: str) -> int:
    """Of a whole request; tried again where the server had to make room once more."""
    until = time.monotonic() + LONG
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (ConnectionError, http.client.HTTPException):
            assert time.monotonic() < until
        finally:
            connection.close()


class Wire:
    """Stands for a transport: what is written to it, and whether it was hung up."""

    def __init__(self) -> None:
        self.unread, self.ended, self.said = 0, False, b""

    def get_extra_info(self, _: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: bytes) -> None:
        self.said += data

    def abort(self) -> None:
        self.ended = True

    close = abort

    def is_closing(self) -> bool:
        return self.ended

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def quiet_app(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.Event().wait()


@pytest.fixture
def connect() -> Iterator[Callable[[], tuple[PatientProtocol, Wire]]]:
    """Makes connections whose looks at the clock are called by hand."""
    loop = asyncio.new_event_loop()
    config, state = ServerConfig(quiet_app, patience=1e6), ServerState()
    config.connections = 3

    def connect() -> tuple[PatientProtocol, Wire]:
        protocol, wire = PatientProtocol(config, state, {}, _loop=loop), Wire()
        protocol.connection_made(wire)  # type: ignore[arg-type]
        return protocol, wire

    yield connect
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n"


def test_a_head_must_be_whole_after_one_look(connect: Any) -> None:
    protocol, wire = connect()
    protocol._look()
    protocol.data_received(HEAD[:20])
    protocol._look()
    assert wire.ended


def test_a_body_must_go_on_coming(connect: Any) -> None:
    protocol, wire = connect()
    protocol.data_received(HEAD)
    for _ in range(20):
        protocol._look()
        protocol.data_received(b"x" * ENOUGH)
        protocol.cycle.body = b""  # the application has read it
    assert not wire.ended
    protocol._look()
    protocol.data_received(b"x" * 100)
    protocol._look()
    assert wire.ended


def test_who_sends_faster_than_the_server_reads_is_not_late(connect: Any) -> None:
    protocol, wire = connect()
    protocol.data_received(HEAD + b"x" * 100_000)
    for _ in range(5):
        protocol._look()
    assert not wire.ended


def test_an_answer_must_be_read(connect: Any) -> None:
    protocol, wire = connect()
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    for _ in range(5):  # as long as the server works nobody is late
        protocol._look()
    wire.unread = 70_000
    protocol._look()
    protocol.resume_writing()  # some of it was read
    protocol._look()
    assert not wire.ended
    protocol._look()
    assert wire.ended


def test_the_longest_wait_makes_room(connect: Any) -> None:
    body, first = connect()
    body.data_received(HEAD)
    _, second = connect()
    _, third = connect()
    _, fourth = connect()
    assert [first.ended, second.ended, third.ended, fourth.ended] == [False, True, False, False]
    busy = [connect() for _ in range(3)]
    for protocol, _ in busy:
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    busy[0][0].scope[REFUSED] = True
    _, fifth = connect()
    assert [wire.ended for _, wire in busy] == [True, False, False]  # who has no token waits where nobody needs room
    assert not fifth.ended


def test_where_everyone_is_being_served_the_next_is_told(connect: Any) -> None:
    for _ in range(3):
        protocol, _ = connect()
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert protocol.conn.their_state is h11.DONE
    _, wire = connect()
    assert wire.ended
    assert b"503" in wire.said.splitlines()[0]
    assert b"retry-after" in wire.said


def test_fewer_connections_than_files(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = (200, 400)
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: raised.append(both))
    assert ServerConfig(quiet_app).connections == 100
    assert raised == [(400, 400)]
    monkeypatch.undo()
    assert ServerConfig(quiet_app).connections <= CONNECTIONS


# Mountains of pixels


def grey(side: int) -> bytes:
    """A 16-bit PNG of few bytes and many pixels."""
    stream = io.BytesIO()
    Image.fromarray(np.zeros((side, side), np.uint16)).save(stream, "PNG")
    return stream.getvalue()


class GatedLearner(FakeLearner):
    """Large pictures take as long as the test wants; which were read is known."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate, self.begun = threading.Event(), threading.Semaphore(0)
        self.read_sizes: list[int] = []

    def read(self, images: list[bytes], *, keep: bool) -> list[bytes]:
        self.read_sizes.append(len(images))
        if max(map(len, images)) > 10_000:
            self.begun.release()
            assert self.gate.wait(LONG)
        return [picture(12)] * len(images)


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[GatedLearner]:
    learner = GatedLearner(tmp_path)
    learner.known = taught(tmp_path).known
    yield learner
    learner.gate.set()


def test_all_pixels_of_a_request_are_counted_before_any_is_decoded(gated: GatedLearner) -> None:
    client = client_of(gated)
    bomb = grey(6300)
    for path, data in (("predict", {}), ("learn", {"name": "bomb"})):
        answer = client.post(f"/api/{path}", data=data, files=uploads(*[bomb] * 32))
        assert answer.status_code == 413
        assert "1270 million pixels together, and one request may have 250" in answer.json()["error"]
    assert gated.read_sizes == []
    gated.gate.set()
    most = MAX_PIXELS // (6300 * 6300)
    assert client.post("/api/predict", files=uploads(*[bomb] * most)).status_code == 200
    assert client.post("/api/predict", files=uploads(*[bomb] * (most + 1))).status_code == 413


def test_others_are_answered_while_large_pictures_are_decoded(gated: GatedLearner) -> None:
    large = uploads(*[grey(6300)] * 5)
    with serving(create_app(gated)) as address, ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(post, address, large) for _ in range(3)]
        [refused], others = wait(asked, LONG, FIRST_COMPLETED)  # one is read, one waits, one is too many
        status, headers = refused.result()
        assert (status, headers["retry-after"]) == (503, "5")
        assert get(address, "/") == get(address, "/api/classes") == get(address, "/api/state") == 200
        assert post(address, uploads(picture(12)))[0] == 200
        assert not any(each.done() for each in others)
        gated.gate.set()
        assert [each.result()[0] for each in others] == [200, 200]


def post(address: str, files: list[tuple[str, Any]]) -> tuple[int, dict[str, str]]:
    answer = httpx.post(f"{address}/api/predict", files=files, timeout=LONG)
    return answer.status_code, dict(answer.headers)


def get(address: str, path: str) -> int:
    return httpx.get(f"{address}{path}", timeout=LONG).status_code


def test_bodies_together_are_bounded(gated: GatedLearner) -> None:
    """What waits to be worked on takes memory and temporary disk."""
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(noise).save(stream, "PNG")
    files = uploads(stream.getvalue())  # some 120 kB
    app = create_app(gated, Rules(max_bodies=200_000))
    with serving(app) as address, ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, address, files)
        assert gated.begun.acquire(timeout=LONG)
        status, headers = post(address, files)
        assert (status, headers["retry-after"]) == (503, "5")
        assert get(address, "/api/classes") == 200
        gated.gate.set()
        assert first.result()[0] == 200
        assert [post(address, files)[0] for _ in range(5)] == [200] * 5  # what is done counts no more


def test_exports_at_once_are_bounded(tmp_path: Path) -> None:
    learner, gate = taught(tmp_path), threading.Event()

    def slow(path: Path, tell: Callable[[str], None]) -> None:
        assert gate.wait(LONG)
        path.write_bytes(b"onnx")

    learner.export = slow  # type: ignore[method-assign, assignment]
    with serving(create_app(learner)) as address, ThreadPoolExecutor(5) as pool:
        made = [pool.submit(get, address, "/api/export") for _ in range(5)]
        [refused], others = wait(made, LONG, FIRST_COMPLETED)
        assert refused.result() == 503
        gate.set()
        assert [each.result() for each in others] == [200] * 4
        assert get(address, "/api/export") == 200


def test_the_real_decoder_reads_before_it_learns(tmp_path: Path) -> None:
    """Pictures that were read beforehand are learned and recognised as those that were not."""
    given = printed("A", 4)
    with Learner.create(tmp_path / "one") as one, Learner.create(tmp_path / "two") as two:
        one.learn("A", given)
        two.learn("A", two.read(given, keep=True))
        assert [each.id for each in one.images("A")] == [each.id for each in two.images("A")]
        assert one.predict(given) == two.predict(two.read(given, keep=False))
        [bad] = two.read([b"no image"], keep=True)
        assert two.predict([bad])[0].error == one.predict([b"no image"])[0].error


# One moment


def test_classes_are_those_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process renames a class between two of the questions that one answer takes."""
    with Learner.create(tmp_path / "project") as learner, Learner.open(tmp_path / "project") as other:
        learner.learn("A", printed("A", 3))
        listed = contents.classes

        def renaming(store: Store) -> Any:
            found = listed(store)
            other.rename(found[0].name, "B" if found[0].name == "A" else "A")
            return found

        monkeypatch.setattr(contents, "classes", renaming)
        client = client_of(learner)
        for name in "ABA":
            [only] = client.get("/api/classes").json()
            assert only["name"] == name
            assert len(only["shown"]) == 3
