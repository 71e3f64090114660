"""The page of a project with 20, 200 and 2,000 classes: what the server sends and computes, and what a browser shows.

Five pictures a class, kept: the upper half of one character of glyphs over the lower half of another. Chromium is
headless, with a window of 1280 x 800.
"""

from __future__ import annotations

import http.client
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fscil.data import glyphs
from fscil.teach import Learner

SIZES = (20, 200, 2_000)
IMAGES = 5  # of a class
SIDE = 32
ASKED = {"state": "/api/state", "list": "/api/classes", "map": "/api/map", "doctor": "/api/doctor"}
REPEATS, OFTEN, ENOUGH = 3, 100, 1.0  # times that each is asked, and seconds after which that is often enough
TICKS = os.sysconf("SC_CLK_TCK")  # of the processor's clock in a second
LONG = 600_000  # milliseconds that a page may take
FRAMES = 90
_SCROLL = """async (frames) => {
  const times = [], end = document.documentElement.scrollHeight - innerHeight;
  let before = performance.now();
  for (let at = 1; at <= frames; at++) {
    scrollTo(0, end * at / frames);
    await new Promise((done) => requestAnimationFrame(done));
    times.push(performance.now() - before);
    before = performance.now();
  }
  scrollTo(0, 0);
  return times;
}"""


def run(sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    place, points = Path(tempfile.mkdtemp(prefix="fscil-growth-")), []
    try:
        learner = Learner.create(place / "project", "glyphs")
        for size in sizes:
            _fill(learner, size)
            points.append({"classes": size, **_measured(learner.path)})
            print(*(f"{key} {value:.4g}" for key, value in points[-1].items()), flush=True)
        learner.close()
    finally:
        shutil.rmtree(place)
    return {"images_of_a_class": IMAGES, "points": points}


def _fill(learner: Learner, classes: int) -> None:
    fsync, drawn = os.fsync, glyphs.load().train.images.reshape(100, -1, SIDE, SIDE, 3)
    assert learner._store._writer is not None
    learner._store._writer.execute("PRAGMA synchronous = OFF")
    os.fsync = lambda handle: None  # what waits for the disk is no part of what is timed
    try:
        for at in range(len(learner.classes()), classes):
            upper, lower = drawn[at % 100], drawn[(at // 100 + at) % 100]
            halves = [np.concatenate([upper[row, :16], lower[row, 16:]]) for row in range(IMAGES)]
            learner.learn(f"class {at}", [_png(image) for image in halves])
    finally:
        os.fsync = fsync
        learner._store._writer.execute("PRAGMA synchronous = FULL")


def _png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def _measured(project: Path) -> dict[str, float]:
    call = "serve(pathlib.Path(sys.argv[1]), port=0, no_token=True)"
    script = f"import sys, pathlib; from fscil.web.serve import serve; {call}"
    server = subprocess.Popen([sys.executable, "-c", script, str(project)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[1]
        host, port = address.split("//")[1].rstrip("/").split(":")
        return {**_asked(server.pid, host, int(port)), **_shown(address)}
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=300)


def _asked(process: int, host: str, port: int) -> dict[str, float]:
    found = {}
    _predict(host, port)  # the network is loaded when this is answered
    for name, path in ASKED.items():
        before, length, asked = _processor(process), 0, 0
        while asked < REPEATS or (asked < OFTEN and _processor(process) - before < ENOUGH):
            length, asked = _get(host, port, path), asked + 1
        found[name] = max(_processor(process) - before, 1 / TICKS) / asked
        found[f"{name}_kb"] = length / 1024
    before = _processor(process)
    for _ in range(10 * REPEATS):
        _predict(host, port)
    found["predict"] = (_processor(process) - before) / (10 * REPEATS)
    return found


def _processor(process: int) -> float:
    """Seconds that it has computed."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _get(host: str, port: int, path: str) -> int:
    connection = http.client.HTTPConnection(host, port, timeout=LONG / 1000)
    connection.request("GET", path)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {content[:200]!r}")
    return len(content)


def _predict(host: str, port: int) -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="images"; filename="a.png"\r\n\r\n'
    connection = http.client.HTTPConnection(host, port, timeout=LONG / 1000)
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    connection.request(
        "POST", "/api/predict", head + _png(np.zeros((SIDE, SIDE, 3), dtype=np.uint8)) + b"\r\n--b--\r\n", kind
    )
    if (answer := connection.getresponse()).status != 200:
        raise RuntimeError(f"predict: {answer.status} {answer.read()[:200]!r}")


def _shown(address: str) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    found: dict[str, float] = {}
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        path = next((each for name in ("chromium", "google-chrome") if (each := shutil.which(name))), own)
        options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=options, timeout=LONG)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(LONG)
        started = time.perf_counter()
        page.goto(address)
        page.locator("#class-list .class").first.wait_for(timeout=LONG)
        found["usable"] = time.perf_counter() - started
        page.locator("#doctor-body > *").first.wait_for(timeout=LONG)
        if page.locator("#doctor-ask").count():  # of many classes it is made when it is wanted
            page.click("#doctor-ask")
        page.locator("#doctor-body :is(.findings, .none)").first.wait_for(timeout=LONG)
        found["checked"] = time.perf_counter() - started
        found["elements"] = page.evaluate("document.getElementsByTagName('*').length")
        found["height"] = page.evaluate("document.documentElement.scrollHeight")
        frames = sorted(page.evaluate(_SCROLL, FRAMES))
        found["frame_ms"], found["slowest_frame_ms"] = frames[len(frames) // 2], frames[-1]
        processor = page.evaluate("performance.now()")
        page.fill("#teach-name", "x")
        found["typing_ms"] = page.evaluate("performance.now()") - processor
        found["heap_mb"] = page.evaluate("performance.memory?.usedJSHeapSize ?? 0") / 2**20
        browser.close()
    return found
