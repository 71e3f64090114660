"""The API with a fake learner: what each route takes, gives and refuses."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import io
import re
import threading
import time
import zlib
from pathlib import Path

import pytest
from fake_learner import FakeLearner
from PIL import Image, ImageFile
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient
from web_clients import client_of, picture, taught, uploads

from fscil.core.errors import InputError
from fscil.teach import Learned, Learner
from fscil.teach.project.limits import MAX_FILE_BYTES
from fscil.web.batching import Batcher
from fscil.web.pages import FOLDER
from fscil.web.uploads import MAX_IMAGES, thumbnail


@pytest.fixture
def learner(tmp_path: Path) -> FakeLearner:
    return taught(tmp_path)


@pytest.fixture
def client(learner: FakeLearner) -> TestClient:
    return client_of(learner)


def sentence(answer: object) -> str:
    """The error of an answer, which must be one sentence and no trace."""
    text: str = answer.json()["error"]  # type: ignore[attr-defined]
    assert text.endswith((".", "?")) and "Traceback" not in text and "\n" not in text  # noqa: PT018
    return text


def test_the_fake_has_the_interface_of_the_real_learner() -> None:
    for name, method in inspect.getmembers(FakeLearner, inspect.isfunction):
        if not name.startswith("_"):
            real = inspect.signature(getattr(Learner, name)).parameters
            assert list(inspect.signature(method).parameters) == list(real)[: len(inspect.signature(method).parameters)]


def test_teach_try_and_take_back(client: TestClient) -> None:
    lesson = client.post("/api/learn", data={"name": "grey"}, files=uploads(*map(picture, (120, 125, 130)))).json()
    assert lesson["name"] == "grey"
    assert lesson["added"] == 3
    assert [rival["name"] for rival in lesson["rivals"]] == ["dark", "light"]
    assert [each["name"] for each in client.get("/api/classes").json()] == ["dark", "light", "grey"]
    verdicts = client.post(
        "/api/predict", data={"top": 2}, files=uploads(picture(126), picture(12), b"no image")
    ).json()
    assert [verdict["label"] for verdict in verdicts] == ["grey", "dark", ""]
    assert [len(verdict["top"]) for verdict in verdicts] == [2, 2, 0]
    assert [bool(verdict["error"]) for verdict in verdicts] == [False, False, True]
    assert client.post("/api/undo").json()["message"] == "Undone: learned grey."
    assert len(client.get("/api/classes").json()) == 2


def test_state_tells_of_changes(client: TestClient) -> None:
    before = client.get("/api/state").json()
    assert before["undo"] == "learned light"
    client.post("/api/rename", json={"old": "dark", "new": "night"})
    after = client.get("/api/state").json()
    assert after["generation"] > before["generation"]
    assert (after["classes"], after["images"]) == (2, 4)


def test_explain_map_doctor_history_export(client: TestClient) -> None:
    said = client.post("/api/explain", data={"count": 3}, files=uploads(picture(15), field="image")).json()
    assert said["label"] == "dark"
    assert {each["class_name"] for each in said["examples"]} == {"dark"}  # what it is taken for, and nothing else
    assert {each["class_name"] for each in said["others"]} == {"light"}
    unknown = client.post("/api/explain", data={"count": 3}, files=uploads(picture(130), field="image")).json()
    assert (unknown["label"], unknown["examples"], len(unknown["others"])) == ("unknown", [], 3)
    assert len(client.get("/api/map").json()) == 4
    assert client.get("/api/doctor").json()["findings"] == []
    assert [change["what"] for change in client.get("/api/history").json()] == ["learned dark", "learned light"]
    exported = client.get("/api/export")
    assert exported.content == b"onnx"
    assert exported.headers["content-disposition"].startswith("attachment")


def test_forget_and_remove_image(client: TestClient) -> None:
    [first, _] = client.get("/api/images", params={"name": "dark"}).json()
    client.post("/api/remove-image", json={"id": first["id"]})
    assert len(client.get("/api/images", params={"name": "dark"}).json()) == 1
    client.post("/api/forget", json={"name": "dark"})
    assert [each["name"] for each in client.get("/api/classes").json()] == ["light"]


def test_move_and_keep_an_image(client: TestClient, learner: FakeLearner) -> None:
    [first, _] = client.get("/api/images", params={"name": "dark"}).json()
    moved = client.post("/api/move-image", json={"id": first["id"], "to": "light"}).json()
    assert moved["message"] == "Moved one image to 'light'."
    assert first["id"] in [each["id"] for each in client.get("/api/images", params={"name": "light"}).json()]
    assert client.post("/api/keep", json={"kind": "worst_images", "images": [first["id"]]}).status_code == 200
    assert learner.changes[-1][0] == f"kept worst_images {first['id']}"


def test_a_bad_file_is_named_and_does_not_stop_a_lesson(client: TestClient) -> None:
    files = [
        ("images", ("../holiday/good.png", picture(120), "image/png")),
        ("images", ("empty.png", b"", "image/png")),
        ("images", ("large\u202e.png", bytes(MAX_FILE_BYTES + 1), "image/png")),
    ]
    lesson = client.post("/api/learn", data={"name": "grey"}, files=files).json()
    assert lesson["added"] == 1
    assert [each["file"] for each in lesson["skipped"]] == ["empty.png", "large\ufffd.png"]
    assert ["empty" in lesson["skipped"][0]["reason"], "20 MB" in lesson["skipped"][1]["reason"]] == [True, True]
    refused = client.post("/api/learn", data={"name": "none"}, files=files[1:])
    assert refused.status_code == 400
    assert [each["file"] for each in refused.json()["skipped"]] == ["empty.png", "large\ufffd.png"]
    assert sentence(refused).startswith("Nothing was learned: empty.png: ")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("forget", {"name": "nobody"}),
        ("rename", {"old": "dark", "new": "light"}),
        ("rename", {"old": "dark"}),
        ("rename", {"old": "dark", "new": "x" * 81}),
        ("forget", {"name": ""}),
        ("forget", {"name": ["dark"]}),
        ("forget", {"name": "dark", "path": "/etc/passwd"}),
        ("move-image", {"id": "0" * 64, "to": "light"}),
        ("move-image", {"id": "x", "to": "light"}),
        ("keep", {"kind": "worst images", "images": ["0" * 64]}),
        ("keep", {"kind": "worst_images", "images": []}),
        ("remove-image", {"id": "0" * 64}),
        ("remove-image", {"id": "../../project.sqlite"}),
        ("threshold", {"value": 2}),
        ("threshold", {"value": "NaN"}),
        ("threshold", {}),
    ],
)
def test_bad_questions_get_a_sentence(client: TestClient, path: str, body: dict[str, object]) -> None:
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code in (400, 422)
    sentence(answer)


def test_bad_uploads_get_a_sentence(client: TestClient) -> None:
    many = client.post("/api/predict", files=uploads(*[picture()] * (MAX_IMAGES + 1)))
    assert many.status_code == 422
    assert f"at most {MAX_IMAGES}" in sentence(many)
    for answer in (
        client.post("/api/predict", files=uploads(b"")),
        client.post("/api/predict"),
        client.post("/api/learn", files=uploads(picture())),
        client.post("/api/learn", data={"name": "x"}),
        client.post("/api/learn", data={"name": "x"}, files=uploads(b"no image")),
        client.post("/api/learn", data={"name": "x" * 81}, files=uploads(picture())),
        client.post(
            "/api/predict", content=b"--b\r\nbroken", headers={"content-type": "multipart/form-data; boundary=b"}
        ),
        client.post("/api/predict", content=b"{", headers={"content-type": "application/json"}),
        client.post("/api/forget", content=b"{", headers={"content-type": "application/json"}),
        client.post("/api/explain", files=uploads(b"no image", field="image")),
    ):
        assert answer.status_code in (400, 422)
        sentence(answer)
    assert len(client.get("/api/classes").json()) == 2


@pytest.mark.parametrize(
    "path",
    [
        "/api/image/../../project.sqlite",
        "/api/image/%2e%2e%2fproject.sqlite",
        "/api/image/" + "A" * 64,
        "/api/image/" + "0" * 63,
        "/api/image/" + "0" * 64 + "%0a",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/%00",
        "/app.py",
    ],
)
def test_no_path_leads_out(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (404, 422)
    sentence(answer)


def test_an_unforeseen_error_shows_no_trace(
    client: TestClient, learner: FakeLearner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("secret detail at /home/someone")

    monkeypatch.setattr(learner, "map", fail)
    answer = client.get("/api/map")
    assert answer.status_code == 500
    assert "secret" not in sentence(answer)
    monkeypatch.undo()
    assert client.get("/api/map").status_code == 200  # the failure is not remembered


def test_thumbnails_are_made_anew(client: TestClient, learner: FakeLearner) -> None:
    # A GIF that is also a script, and a PNG with a page after its end: valid images, other things besides.
    script = b"<script>alert(1)</script>"
    gif = picture(77, kind="GIF")
    for content in (gif + script, picture(78) + script):
        id = hashlib.sha256(content).hexdigest()
        learner.known["dark"][id] = content
        answer = client.get(f"/api/image/{id}")
        assert answer.headers["content-type"] == "image/png"
        assert script not in answer.content
        with Image.open(io.BytesIO(answer.content)) as image:
            assert image.format == "PNG"
    assert thumbnail(script) is None
    assert thumbnail(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n") is None  # a format that starts programs


def test_large_images_give_small_thumbnails() -> None:
    stream = io.BytesIO()
    Image.new("CMYK", (3000, 1500)).save(stream, "JPEG")
    small = thumbnail(stream.getvalue())
    assert small is not None
    assert Image.open(io.BytesIO(small)).size == (160, 80)


def test_a_bomb_has_no_thumbnail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda _: pytest.fail("it is being decoded"))

    def chunk(kind: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    size = (60_000).to_bytes(4, "big") * 2
    bomb = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + b"\x08\x02\0\0\0") + chunk(b"IDAT", zlib.compress(b"\0" * 10_000))
    )
    assert thumbnail(bomb) is None


def test_the_event_loop_answers_while_a_lesson_runs(client: TestClient, learner: FakeLearner) -> None:
    begun, gate, learn = threading.Event(), threading.Event(), learner.learn

    def slow(name: str, images: list[bytes]) -> Learned:
        begun.set()
        assert gate.wait(300)
        return learn(name, images)

    learner.learn = slow  # type: ignore[method-assign]
    with client:
        lesson = threading.Thread(
            target=lambda: client.post("/api/learn", data={"name": "slow"}, files=uploads(picture(99)))
        )
        lesson.start()
        assert begun.wait(300)
        assert client.get("/api/state").status_code == 200
        assert client.post("/api/predict", files=uploads(picture(12))).json()[0]["label"] == "dark"
        assert lesson.is_alive()
        gate.set()
        lesson.join()


def test_waiting_images_share_one_run_and_one_failure_does_not_stop_the_rest() -> None:
    sizes: list[int] = []

    def run(images: list[bytes]) -> list[bytes]:
        sizes.append(len(images))
        time.sleep(0.05)
        if b"bad" in images:
            raise InputError("Bad.")
        return [image.upper() for image in images]

    async def scene() -> None:
        batcher = Batcher(run)
        answers = await asyncio.gather(*(batcher.predict([b"a", b"b"]) for _ in range(20)))
        assert answers == [[b"A", b"B"]] * 20
        assert max(sizes) > 2  # put together
        assert sum(sizes) == 40
        with pytest.raises(InputError):
            await batcher.predict([b"bad"])
        assert await batcher.predict([b"c"]) == [b"C"]
        with pytest.raises(HTTPException, match="waiting"):
            await batcher.predict([b"x"] * 1000)
        batcher.close()

    asyncio.run(scene())


def test_the_page_needs_nothing_from_elsewhere_and_builds_no_markup_from_text() -> None:
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//cdn|@import", text), path.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text), (
            path.name
        )
        assert not re.search(r"\son\w+=|\sstyle=|<script>", text) or path.suffix == ".js", path.name
