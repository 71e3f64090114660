"""The API on a real project: hostile images and names, projects without images, changes made by another process."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from web_clients import client_of, picture, uploads

from fscil.teach import Learner
from fscil.web.demo import printed


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[Learner]:
    with Learner.create(tmp_path / "project") as learner:
        for character in "AB":
            learner.learn(character, printed(character, 3))
        yield learner


@pytest.fixture
def client(learner: Learner) -> TestClient:
    return client_of(learner)


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few kilobytes that says it is enormous."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100_000))


HOSTILE = {
    "bomb": bomb(60_000, 60_000),
    "wide": bomb(2**31 - 1, 1),
    "lying": bomb(3000, 3000),  # within the limits, but the pixels are not there
    "page": b"<html><script>alert(1)</script></html>",
    "drawing": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\nshowpage\n",
    "pickle": b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94",
    "cut": picture(100, 64)[:60],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_images_are_refused_and_nothing_is_kept(client: TestClient, learner: Learner, kind: str) -> None:
    content = HOSTILE[kind]
    before = learner.generation, sorted(learner.path.rglob("*.png"))
    [verdict, good] = client.post("/api/predict", files=uploads(content, picture(50))).json()
    assert verdict["error"]
    assert not good["error"]  # one bad image does not spoil the others
    assert client.post("/api/learn", data={"name": "bad"}, files=uploads(content)).status_code == 400
    assert client.post("/api/explain", files=uploads(content, field="image")).status_code == 400
    assert (learner.generation, sorted(learner.path.rglob("*.png"))) == before


@pytest.mark.parametrize(
    "name",
    ["unknown", " Unknown ", "   ", "a\nb", "a\0b", "\u202ecba", "u\u200bnknown", "c\u200dat", "\x1b[2J", "x" * 81],
)
def test_bad_names_are_refused(client: TestClient, learner: Learner, name: str) -> None:
    answers = [
        client.post("/api/learn", data={"name": name}, files=uploads(picture(50))),
        client.post("/api/rename", json={"old": "A", "new": name}),
    ]
    assert all(answer.status_code in (400, 422) for answer in answers)
    assert [each.name for each in learner.classes()] == ["A", "B"]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "C:\\x", "<b>", "猫", "a/b?c#d%2e", "null", "__proto__", "'; DROP TABLE"]
)
def test_odd_names_are_names(client: TestClient, name: str) -> None:
    lesson = client.post("/api/learn", data={"name": name}, files=uploads(picture(50), picture(60)))
    assert lesson.json()["name"] == name
    assert len(client.get("/api/images", params={"name": name}).json()) == 2
    assert client.post("/api/forget", json={"name": name}).status_code == 200


def test_a_picture_given_twice_is_said(client: TestClient) -> None:
    lesson = client.post("/api/learn", data={"name": "C"}, files=uploads(picture(50), picture(50), picture(60))).json()
    assert lesson["added"] == 2
    assert len(lesson["skipped"]) == 1
    again = client.post("/api/learn", data={"name": "C"}, files=uploads(picture(50)))
    assert again.status_code == 400
    assert "already" in again.json()["error"]


def test_a_project_of_features_alone_serves_no_images(tmp_path: Path) -> None:
    with Learner.create(tmp_path / "features", keep_images=False) as learner:
        learner.learn("A", printed("A", 3))
        client = client_of(learner)
        assert client.get("/api/state").json()["keeps_images"] is False
        [entry, *_] = client.get("/api/images", params={"name": "A"}).json()
        assert client.get(f"/api/image/{entry['id']}").status_code == 404
        assert len(client.get("/api/map").json()) == 3


def test_changes_of_another_process_are_seen(client: TestClient, learner: Learner) -> None:
    before: dict[str, Any] = client.get("/api/state").json()
    with Learner.open(learner.path) as other:
        other.learn("C", printed("C", 3))
    after = client.get("/api/state").json()
    assert after["generation"] > before["generation"]
    assert after["classes"] == 3
    top = client.post("/api/predict", files=uploads(picture(50))).json()[0]["top"]
    assert "C" in [guess["label"] for guess in top]
    assert len(client.get("/api/map").json()) == 9


def test_the_threshold_decides_what_is_unknown(client: TestClient, learner: Learner) -> None:
    automatic = client.get("/api/state").json()["threshold"]
    files = uploads(picture(50))
    assert client.post("/api/threshold", json={"value": 1}).status_code == 200
    assert client.post("/api/predict", files=files).json()[0]["label"] == "unknown"
    assert client.post("/api/threshold", json={"value": -1}).status_code == 200
    assert client.post("/api/predict", files=files).json()[0]["label"] in ("A", "B")
    assert client.post("/api/threshold", json={"value": None}).status_code == 200
    assert client.get("/api/state").json()["threshold"] == pytest.approx(automatic)
