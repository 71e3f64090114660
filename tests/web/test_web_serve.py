"""`fscil serve` as a process: where it binds, what it refuses, how it stops; and the colours of its page."""

from __future__ import annotations

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

from fscil.core.errors import InputError
from fscil.web.pages import FOLDER
from fscil.web.serve import check, page_address, serve

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_a_reachable_address_needs_a_token(host: str) -> None:
    with pytest.raises(InputError, match=r"add for example --token \S{20,}"):
        check(host, None)
    assert check(host, TOKEN).token == TOKEN


def test_localhost_needs_none_and_short_tokens_are_refused() -> None:
    assert check("127.0.0.1", None).token is None
    for token in ("", "short", "with\nnewlines and more", "ümläute-in-the-token"):
        with pytest.raises(InputError, match="12 or more"):
            check("127.0.0.1", token)


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


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn", "python_multipart"])
def test_missing_packages_are_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=r"pip install 'fscil\[web\]'"):
        serve(tmp_path)


def test_demo_serves_until_stopped_and_leaves_nothing(tmp_path: Path) -> None:
    script = f"from fscil.web.serve import serve; serve(None, port=0, demo=True, token={TOKEN!r})"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        for _ in range(2)
    ]
    for process, stop in zip(processes, (signal.SIGINT, signal.SIGTERM), strict=True):
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(rf"Teach: (http://127\.0\.0\.1:\d+/)\?token={TOKEN}\n", line)
        assert found, process.stderr and process.stderr.read()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(found[1] + "api/state")
        request = urllib.request.Request(found[1] + "api/state", headers={"Authorization": f"Bearer {TOKEN}"})
        assert b'"classes":10' in urllib.request.urlopen(request).read()
        assert list(tmp_path.glob("fscil-*"))
        process.send_signal(stop)
        _, errors = process.communicate(timeout=20)
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
