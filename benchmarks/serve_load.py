"""Many people try while one teaches: `fscil serve` under load, over real connections.

    python benchmarks/serve_load.py --seconds 60 --clients 50

Every client sends one image after another and waits for each answer; one teacher teaches a new class of five images as
fast as it is acknowledged, with a short pause. At the end the server is stopped, the project is opened again and every
acknowledged class must be in it. Exits with 1 if any request failed or any class was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fscil.data.glyphs import CHARACTERS
from fscil.teach import Learner
from fscil.web.demo import make_demo, printed

SHOTS = 5


@dataclass
class Record:
    """What happened: seconds per answer, and what went wrong."""

    predictions: list[float] = field(default_factory=list)
    lessons: list[float] = field(default_factory=list)
    taught: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


async def post(host: str, port: int, path: str, form: dict[str, str], images: list[bytes], keep: list[Any]) -> Any:
    """One multipart request over a connection that is kept in `keep` (http.client is too slow for fifty of them)."""
    if not keep:
        keep.extend(await asyncio.open_connection(host, port))
    reader, writer = keep
    parts = [
        b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value.encode())
        for name, value in form.items()
    ]
    parts += [
        b'--b\r\nContent-Disposition: form-data; name="images"; filename="a.png"\r\n\r\n%s\r\n' % image
        for image in images
    ]
    body = b"".join(parts) + b"--b--\r\n"
    kind = "Content-Type: multipart/form-data; boundary=b"
    head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = re.search(r"content-length: (\d+)", answer, re.IGNORECASE)
    document = json.loads(await reader.readexactly(int(length[1]) if length else 0))
    if " 200 " not in answer.splitlines()[0]:
        raise RuntimeError(f"{answer.splitlines()[0]} {document}")
    return document


async def ask(host: str, port: int, until: float, images: list[bytes], record: Record) -> None:
    connection: list[Any] = []
    while time.monotonic() < until:
        began = time.perf_counter()
        try:
            [verdict] = await post(host, port, "/api/predict", {}, [random.choice(images)], connection)
            if verdict["error"]:
                raise RuntimeError(verdict["error"])
            record.predictions.append(time.perf_counter() - began)
        except Exception as error:
            record.errors.append(f"predict: {error!r}")
            connection.clear()


async def teach(
    host: str, port: int, until: float, pause: float, shapes: list[list[np.ndarray]], record: Record
) -> None:
    connection: list[Any] = []
    rng = np.random.default_rng(0)
    while time.monotonic() < until:
        number = len(record.lessons)
        name = f"lesson {number}"
        images = [png(image, rng) for image in shapes[number % len(shapes)]]
        began = time.perf_counter()
        try:
            lesson = await post(host, port, "/api/learn", {"name": name}, images, connection)
            record.lessons.append(time.perf_counter() - began)
            if lesson["added"] != SHOTS:
                raise RuntimeError(f"{name}: {lesson}")
            record.taught.append(name)
        except Exception as error:
            record.errors.append(f"learn: {error!r}")
            connection.clear()
        await asyncio.sleep(pause)


def png(image: np.ndarray, rng: np.random.Generator) -> bytes:
    """As a file, with a little noise: no two are the same picture."""
    noisy = image.astype(int) + rng.integers(-4, 5, image.shape)
    stream = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(stream, "PNG")
    return stream.getvalue()


async def load(address: str, arguments: argparse.Namespace) -> Record:
    host, port = address.split("//")[1].rstrip("/").split(":")
    rng = np.random.default_rng(1)
    images = [png(image, rng) for character in "0123456789" for image in printed(character, SHOTS)]
    # Drawn beforehand: what these clients compute meanwhile would count as the server's time.
    shapes = [printed(character, SHOTS) for character in CHARACTERS[:30]]
    await post(host, int(port), "/api/predict", {}, images[:1], [])  # the encoder is loaded when this is answered
    until = time.monotonic() + arguments.seconds
    record = Record()
    clients = [ask(host, int(port), until, images, record) for _ in range(arguments.clients)]
    await asyncio.gather(*clients, teach(host, int(port), until, arguments.pause, shapes, record))
    return record


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--pause", type=float, default=0.25, help="seconds between two lessons")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        make_demo(project, "glyphs").close()
        call = "serve(pathlib.Path(sys.argv[1]), port=0, no_token=True)"
        script = f"import sys, pathlib; from fscil.web.serve import serve; {call}"
        server = subprocess.Popen([sys.executable, "-c", script, str(project)], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            record = asyncio.run(load(server.stdout.readline().split()[1], arguments))
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(timeout=300)
        with Learner.open(project, readonly=True) as learner:
            known = {each.name: each.images for each in learner.classes()}
    lost = [name for name in record.taught if known.get(name) != SHOTS]
    tell("predictions", record.predictions, arguments.seconds)
    tell("lessons", record.lessons, arguments.seconds)
    print(f"{len(record.errors)} errors, {len(lost)} of {len(record.taught)} acknowledged classes lost")
    for error in record.errors[:5]:
        print(" ", error)
    return int(bool(record.errors or lost))


def tell(what: str, seconds: list[float], total: float) -> None:
    if not seconds:
        print(f"{what}: none")
        return
    p50, p95, p99, most = (f"{1000 * np.quantile(seconds, share):.0f} ms" for share in (0.5, 0.95, 0.99, 1))
    print(f"{what}: {len(seconds)} ({len(seconds) / total:.1f}/s), p50 {p50}, p95 {p95}, p99 {p99}, max {most}")


if __name__ == "__main__":
    sys.exit(main())
