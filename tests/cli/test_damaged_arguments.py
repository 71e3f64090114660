"""Every command that reads a file, given something else in its place: one sentence, exit code 2, no traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fscil.cli import main

COMMANDS = {
    "report": ("result.json", ["report", "{file}", "--out", "{folder}/page.html"]),
    "report, of a folder": ("result.json", ["report", "{folder}", "--out", "{folder}/page.html"]),
    "metrics csv": ("m.csv", ["metrics", "{file}", "--classes", "6,2"]),
    "metrics json": ("m.json", ["metrics", "{file}", "--classes", "6,2"]),
    "metrics log": ("m.log", ["metrics", "{file}", "--classes", "6,2"]),
    "metrics npy": ("m.npy", ["metrics", "{file}", "--classes", "6,2"]),
    "metrics npz": ("m.npz", ["metrics", "{file}", "--classes", "6,2"]),
    "methods": ("result.json", ["methods", "--results", "{folder}"]),
    "paper tables": ("result.json", ["paper", "tables", "--all", "--with", "{file}"]),
    "eval": ("net.safetensors", ["eval", "digits", "--checkpoint", "{file}", "--out", "{folder}/out"]),
    "bench": ("net.safetensors", ["bench", "--data", "digits", "--checkpoint", "{file}", "--out", "{folder}/out"]),
    "ablate": ("net.safetensors", ["ablate", "digits", "--checkpoint", "{file}", "--out", "{folder}/out"]),
    "run, its recipe": ("mine.toml", ["run", "{file}", "--set", "data.name=nowhere", "--out", "{folder}/out"]),
    "run, its data": ("d.npz", ["run", "digits", "--set", "data.name=npz", "--set", "data.path={file}"]),
    "run, its teacher": (
        "net.safetensors",
        ["run", "digits", "--out", "{folder}/out", "--set", "train.teacher={file}"],
    ),
    "run, its config": ("config.json", ["run", "digits", "--out", "{folder}", "--resume"]),
    "teach init": ("net.safetensors", ["teach", "init", "{folder}/p", "--encoder", "{file}"]),
    "teach init --from": ("m.onnx", ["teach", "init", "{folder}/p", "--from", "{file}"]),
    "teach restore": ("b.zip", ["teach", "restore", "{file}", "{folder}/p"]),
    "teach list": ("project.sqlite", ["teach", "list", "{folder}"]),
    "teach check": ("project.sqlite", ["teach", "check", "{folder}"]),
    "predict": ("project.sqlite", ["predict", "{folder}", "{file}"]),
    "export": ("project.sqlite", ["export", "{folder}", "{folder}/m.onnx"]),
    "serve": ("project.sqlite", ["serve", "{folder}", "--port", "0"]),
}
CONTENTS = [b"", b"{}", b"[]", b"\xff\xfe\x00", b"[" * 50_000, b"\x93NUMPY\x01\x00", b"PK\x03\x04" + bytes(40)]


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: repr(content[:6]))
@pytest.mark.parametrize("name", COMMANDS)
def test_one_sentence_and_code_2(
    name: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    if name == "run, its recipe" and content == b"":
        content = b"="  # an empty recipe is a recipe
    file, arguments = COMMANDS[name]
    (tmp_path / file).write_bytes(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "argv", ["fscil", *[each.format(file=tmp_path / file, folder=tmp_path) for each in arguments]]
    )
    with pytest.raises(SystemExit) as left:
        main.main()
    said = capsys.readouterr().err.strip().splitlines()
    assert left.value.code == 2, said
    assert said[-1].startswith("fscil: ")
    assert len(said[-1]) > 40
    assert (tmp_path / file).read_bytes() == content
