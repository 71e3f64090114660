"""Invitations, their QR codes, and projects that are made from the page: what is allowed, and to whom."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from browser import DESKTOP, LONG, Tab, violations
from starlette.testclient import TestClient
from web_clients import HOME, client_of, picture, serving, taught, uploads

from fscil.core.errors import InputError
from fscil.teach import Learner
from fscil.web import addresses
from fscil.web.addresses import page_address, reachable
from fscil.web.app import create_app
from fscil.web.guard import Rules
from fscil.web.invitations import MINUTES, MOST, Invitations, qr_code, qr_for_terminal
from fscil.web.projects import folder_name

TOKEN = "k9Xw-27fQz_mT4pL"
BEARER = {"authorization": f"Bearer {TOKEN}"}


def read(code: list[str]) -> str:
    """By zxing, an independent reader, from a picture of the code."""
    import zxingcpp

    dark = np.array([[cell == "1" for cell in row] for row in code])
    found = zxingcpp.read_barcodes(np.where(np.kron(dark, np.ones((6, 6), bool)), 0, 255).astype(np.uint8))
    return str(found[0].text) if found else ""


@pytest.mark.parametrize(
    "text", ["http://192.168.1.20:8000/?invitation=abc", "http://[2001:db8::7]:80/?token=" + "x" * 80]
)
def test_codes_can_be_read(text: str) -> None:
    assert read(qr_code(text)) == text
    assert not any(character.isalnum() for character in re.sub(r"\x1b\[[\d;]*m", "", qr_for_terminal(text)))


def test_invitations_end() -> None:
    now = 0.0
    invitations = Invitations(lambda: now)
    word = invitations.make()
    assert invitations.admits(word)
    assert not invitations.admits(word[:-1])
    assert not invitations.admits("")
    now = 60 * MINUTES - 1
    assert invitations.admits(word)  # for as many guests as come in time
    now += 2
    assert not invitations.admits(word)
    words = [invitations.make() for _ in range(MOST + 1)]
    assert [invitations.admits(each) for each in words] == [False] + [True] * MOST
    assert len(set(words)) == len(words)


@pytest.fixture
def shared(tmp_path: Path) -> TestClient:
    return client_of(taught(tmp_path), host="0.0.0.0", token=TOKEN)


def test_an_invitation_lets_a_guest_in_and_is_not_the_token(shared: TestClient) -> None:
    assert shared.post("/api/invite").status_code == 401  # none for who is not in already
    invitation = shared.post("/api/invite", headers=BEARER).json()
    address = urlsplit(invitation["address"])
    assert read(invitation["code"]) == invitation["address"]
    assert address.hostname not in {"127.0.0.1", "localhost"}  # though it was asked for by that name
    [word] = parse_qs(address.query)["invitation"]
    assert TOKEN not in invitation["address"]
    guest = TestClient(shared.app, base_url=f"http://{address.hostname}:8000", follow_redirects=False)
    assert guest.get("/api/state").status_code == 401
    assert guest.get("/api/state", headers={"authorization": f"Bearer {word}"}).status_code == 401  # for the page alone
    assert guest.get(f"/?invitation={word}x").status_code == 401
    welcome = guest.get(f"/?invitation={word}")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
    assert guest.get("/api/state").json()["shared"] is True


def test_who_came_from_elsewhere_invites_to_the_same_address(shared: TestClient) -> None:
    elsewhere = TestClient(shared.app, base_url="http://192.168.7.7:9000")
    assert elsewhere.post("/api/invite", headers=BEARER).json()["address"].startswith("http://192.168.7.7:9000/?")


def test_nobody_is_invited_to_what_only_this_machine_reaches(tmp_path: Path) -> None:
    client = client_of(taught(tmp_path))
    assert client.get("/api/state").json()["shared"] is False
    answer = client.post("/api/invite")
    assert answer.status_code == 404
    assert "--host 0.0.0.0" in answer.json()["error"]


def test_the_address_is_one_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reachable("192.168.1.5") == "192.168.1.5"
    assert page_address("2001:db8::7", 80, None) == "http://[2001:db8::7]:80/"
    found = reachable("0.0.0.0")
    if found != socket.gethostname():
        with socket.socket() as listener:  # it can be bound: it is ours
            listener.bind((found, 0))
    # No way leads out, and the name is that of this machine alone.
    monkeypatch.setattr(addresses, "_ELSEWHERE", ((socket.AF_INET, "no address"),))
    local = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: local)
    assert reachable("0.0.0.0") == socket.gethostname()


@pytest.mark.parametrize(
    "name", ["", "..", ".hidden", "a/b", "a\\b", "/etc", "C:", "con", "COM1.x", "a?", "x.", "-rf", "unknown"]
)
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        folder_name(name)


def test_a_name_is_a_folder() -> None:
    assert [folder_name(name) for name in ("birds", "  my  birds ", "Vögel 2")] == ["birds", "my birds", "Vögel 2"]


@pytest.fixture
def making(tmp_path: Path) -> Iterator[TestClient]:
    (tmp_path / "digits").mkdir()
    app = create_app(taught(tmp_path / "digits"), Rules(), folder=tmp_path)  # type: ignore[arg-type]
    with TestClient(app, base_url=HOME, raise_server_exceptions=False) as client:
        yield client


def test_a_project_is_made_and_each_tab_asks_for_its_own(making: TestClient, tmp_path: Path) -> None:
    assert making.get("/api/state").json()["encoders"][0] == "glyphs"
    made = making.post("/api/projects", json={"name": "birds", "encoder": "glyphs"}).json()
    assert made == {"name": "birds", "folder": str(tmp_path / "birds")}
    assert making.get("/api/state").json()["projects"] == ["digits", "birds"]
    there = {"project": "birds"}
    assert making.get("/api/state", params=there).json()["classes"] == 0
    making.post("/api/learn", params=there, data={"name": "robin"}, files=uploads(picture(90)))
    assert [each["name"] for each in making.get("/api/classes", params=there).json()] == ["robin"]
    assert [each["name"] for each in making.get("/api/classes").json()] == ["dark", "light"]
    [image] = making.get("/api/images", params={"name": "robin", **there}).json()
    assert making.get(f"/api/image/{image['id']}", params=there).status_code == 200
    assert making.get(f"/api/image/{image['id']}").status_code == 404
    assert making.get("/api/state", params={"project": "cats"}).status_code == 404
    with pytest.raises(InputError):  # two processes may open a project; it is one, and whole
        Learner.create(tmp_path / "birds")


@pytest.mark.parametrize("taken", ["digits", "file", "empty", "link"])
def test_nothing_that_is_there_is_touched(making: TestClient, tmp_path: Path, taken: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.rglob("*"))
    answer = making.post("/api/projects", json={"name": taken, "encoder": "glyphs"})
    assert answer.status_code == 400
    assert "already" in answer.json()["error"]
    assert sorted(tmp_path.rglob("*")) == before


def test_encoders_are_those_that_are_here(making: TestClient, tmp_path: Path) -> None:
    for encoder in ("timm:resnet18", str(tmp_path), "nonsense"):
        answer = making.post("/api/projects", json={"name": "new", "encoder": encoder})
        assert answer.status_code == 400
        assert "glyphs" in answer.json()["error"]
    assert not (tmp_path / "new").exists()


def test_a_server_without_a_folder_makes_none(tmp_path: Path) -> None:
    client = client_of(taught(tmp_path))
    assert client.get("/api/state").json()["encoders"] == []
    assert client.post("/api/projects", json={"name": "new", "encoder": "glyphs"}).status_code == 403


def test_new_projects_and_invitations_in_the_page(chrome: Any, tmp_path: Path) -> None:
    with Learner.create(tmp_path / "first") as learner:
        app = create_app(learner, Rules(host="0.0.0.0", token=TOKEN), folder=tmp_path)
        with serving(app) as address:
            context = chrome.new_context(viewport=DESKTOP)
            tab = Tab(context, f"{address}/?token={TOKEN}")
            page = tab.page
            assert "network" in page.inner_text("#private")
            page.click("#new-project")
            page.keyboard.press("Enter")  # nothing happens without a name
            assert violations(page) == []
            page.fill("#project-name", "birds")
            page.check('.ask input[value="glyphs"]')
            page.keyboard.press("Enter")
            page.wait_for_url("**/?project=birds")
            page.wait_for_function(
                "() => document.getElementById('project').textContent.startsWith('birds: 0 classes')"
            )
            page.wait_for_function("() => document.getElementById('notice-text').textContent.includes('birds lies in')")
            tab.teach("star", "star", range(2))
            assert page.evaluate(
                "[...document.querySelectorAll('#class-list img')].every(i => i.src.endsWith('project=birds'))"
            )
            page.select_option("#projects", "first")
            page.wait_for_url("**/?project=first")
            page.wait_for_function(
                "() => document.getElementById('project').textContent.startsWith('first: 0 classes')"
            )
            page.click("#invite")
            shown = page.inner_text(".address")
            path = page.get_attribute(".qr path", "d")
            side = int(page.get_attribute(".qr svg", "viewBox").split()[2])
            cells = {(int(y), int(x)) for x, y in re.findall(r"M(\d+) (\d+)h1v1h-1z", path)}
            assert read(["".join(str(int((y, x) in cells)) for x in range(side)) for y in range(side)]) == shown
            assert violations(page) == []
            page.keyboard.press("Escape")
            guests = chrome.new_context(viewport=DESKTOP)
            guests.set_default_timeout(LONG)
            guest = Tab(guests, f"{address}/?{urlsplit(shown).query}")
            assert guest.page.url == f"{address}/"
            context.close()
            guests.close()
            assert tab.complaints == guest.complaints == []
