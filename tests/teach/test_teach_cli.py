"""The command line as a user meets it: what is printed, exit codes, one sentence for bad input."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from teach_samples import NOVEL, characters, encoded

from fscil.cli import main as cli
from fscil.teach import Learner

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`fscil ...` in this process: exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fscil", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return call


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of images per class."""
    for character, name in zip(NOVEL[:4], ("eta", "phi", "seven", "gamma"), strict=True):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number, image in enumerate(characters(character, 6)):
            (folder / f"{number}.png").write_bytes(encoded(image))
    return tmp_path / "photos"


@pytest.fixture
def project(run: Run, photos: Path, tmp_path: Path) -> Path:
    assert run("teach", "init", tmp_path / "p")[0] == 0
    assert run("teach", "add", tmp_path / "p", "--from", photos)[0] == 0
    return tmp_path / "p"


def test_a_first_session(run: Run, photos: Path, tmp_path: Path) -> None:
    p = tmp_path / "p"
    code, out, _ = run("teach", "init", p)
    assert code == 0
    assert f"Next: fscil teach add {p}" in out
    assert "encoder glyphs" in out
    assert "knows no class yet" in run("teach", "list", p)[1]
    (photos / "eta" / "notes.txt").write_text("x")
    code, out, err = run(
        "teach", "add", p, "eta", photos / "eta", photos / "eta" / "0.png", photos / "eta" / "notes.txt"
    )
    assert code == 0
    assert re.search(r"Learned 'eta' from 6 images in \d+\.", out)
    assert "skipped" in err
    assert "notes.txt: not a PNG" in err
    code, out, _ = run("teach", "add", p, "phi", str(photos / "phi" / "[0-2].png"))
    assert "Learned 'phi' from 3 images" in out
    assert "nearest classes: 'eta'" in out
    code, out, _ = run("teach", "list", p)
    assert [line.split()[:2] for line in out.splitlines()[:3]] == [["class", "images"], ["eta", "6"], ["phi", "3"]]
    assert "2 classes, 9 images, encoder glyphs." in out
    code, out, _ = run("predict", p, photos / "phi")
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["phi"] * 6


def test_predict_as_json_and_csv(run: Run, project: Path, photos: Path) -> None:
    files = sorted((photos / "seven").glob("*.png"))[:2]
    _, out, _ = run("predict", project, *files, "--json", "--top", 2)
    found = json.loads(out)
    assert [set(entry) for entry in found] == [{"file", "label", "confidence", "top"}] * 2
    assert [entry["file"] for entry in found] == [str(file) for file in files]
    for entry in found:
        assert entry["label"] == "seven"
        assert [set(guess) for guess in entry["top"]] == [{"label", "confidence"}] * 2
        assert entry["top"][0] == {"label": entry["label"], "confidence": entry["confidence"]}
    rows = list(csv.DictReader(io.StringIO(run("predict", project, *files, "--csv", "--top", 2)[1])))
    assert [row["label"] for row in rows] == ["seven", "seven"]
    assert float(rows[0]["confidence1"]) == found[0]["confidence"]
    assert run("predict", project, *files, "--csv", "--json")[0] == 2


def test_predict_with_files_that_cannot_be_read(run: Run, project: Path, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"x")
    code, out, err = run("predict", project, tmp_path / "bad.png", photos / "eta" / "0.png", "--json")
    assert code == 0
    assert json.loads(out)[0]["error"]
    assert json.loads(out)[1]["label"] == "eta"
    assert "bad.png" in err
    assert run("predict", project, tmp_path / "bad.png")[0] == 2


def test_changing_and_undoing(run: Run, project: Path) -> None:
    assert run("teach", "rename", project, "eta", "H")[1] == "'eta' is now 'H'.\n"
    assert "Removed" in run("teach", "remove", project, "H", "--image", "2.png")[1]
    assert "Forgot 'phi'" in run("teach", "remove", project, "phi")[1]
    listed = json.loads(run("teach", "list", project, "--json")[1])
    assert {row["name"]: row["images"] for row in listed} == {"H": 5, "gamma": 6, "seven": 6}
    assert len(json.loads(run("teach", "list", project, "H", "--json")[1])) == 5
    assert run("teach", "undo", project)[1] == "Undone: forgot 'phi'.\n"
    history = run("teach", "history", project)[1].splitlines()
    assert history[-1].endswith("forgot 'phi'  (undone)")
    assert json.loads(run("teach", "history", project, "--json")[1])[-1]["undone"] is True
    estimated = run("teach", "threshold", project)[1]
    assert run("teach", "threshold", project, "0.9")[1] == "0.900\n"
    assert run("teach", "threshold", project, "auto")[1] == estimated
    assert float(run("teach", "threshold", project, "--false-alarms", 0.3)[1]) > float(estimated)


def test_the_doctor_speaks(run: Run, project: Path, photos: Path) -> None:
    code, out, _ = run("doctor", project, "--test", photos, "--base", 2)
    assert code == 0
    for words in (
        "4 classes, 24 images",
        "Expected accuracy",
        "Images per class",
        "Test folder",
        "the 2 classes taught first",
    ):
        assert words in out
    document = json.loads(run("doctor", project, "--json")[1])
    assert document["expected_accuracy"] > 80
    assert document["test"] is None


@pytest.mark.usefixtures("kept_traces")
def test_export_and_start_from_a_model(run: Run, project: Path, photos: Path, tmp_path: Path) -> None:
    code, out, _ = run("export", project, tmp_path / "m.onnx")
    assert code == 0
    assert "Checked on 24 images" in out
    assert run("export", project, tmp_path / "m.onnx")[0] == 2  # nothing is overwritten unasked
    assert "4 classes" in run("teach", "init", tmp_path / "q", "--from", tmp_path / "m.onnx")[1]
    file = photos / "eta" / "1.png"
    first, second = (json.loads(run("predict", p, file, "--json")[1])[0] for p in (project, tmp_path / "q"))
    assert first["label"] == second["label"]
    assert first["confidence"] == pytest.approx(second["confidence"], abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["teach", "list", "{tmp}/absent"], "is not a project"),
        (["teach", "init", "{p}"], "a project already"),
        (["teach", "init", "{tmp}/new", "--encoder", "glyfs"], "did you mean 'glyphs'"),
        (["teach", "add", "{p}", "x"], "Give the class and its images"),
        (["teach", "add", "{p}", "x", "{tmp}/absent.png"], "Nothing was learned"),
        (["teach", "add", "{p}", "x", "{tmp}/*.nothing"], "Nothing matches"),
        (["teach", "add", "{p}", "unknown", "{tmp}/photos/eta"], "another name"),
        (["teach", "add", "{p}", "x", "--from", "{tmp}/photos"], "not both"),
        (["teach", "remove", "{p}", "ета"], "There is no class"),
        (["teach", "remove", "{p}", "eta", "--image", "png"], "names 0 images"),
        (["teach", "threshold", "{p}", "high"], "is not a number"),
        (["teach", "threshold", "{p}", "7"], "from -1 to 1"),
        (["predict", "{p}", "{tmp}/p/state"], "Nothing matches|no images|could be read"),
        (["doctor", "{p}", "--test", "{tmp}/absent"], "cannot be read"),
        (["serve"], "--demo"),
        (["serve", "{p}", "--demo"], "not both"),
    ],
)
def test_bad_input_is_one_sentence(run: Run, project: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    code, _, err = run(*[text.format(p=project, tmp=tmp_path) for text in arguments])
    assert code == 2
    last = err.strip().splitlines()[-1]
    assert last.startswith("fscil: ")
    assert re.search(words, last)


def test_listing_does_not_load_the_network(project: Path) -> None:
    program = (
        "import sys; from fscil.cli import main as cli; sys.argv = ['fscil', 'teach', 'list', sys.argv[1]]\n"
        "try: cli.main()\nexcept SystemExit: print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, project], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_a_project_made_of_a_folder_names_its_encoder(run: Run, photos: Path, tmp_path: Path) -> None:
    assert "4 classes (encoder glyphs)" in run("teach", "init", tmp_path / "p", "--from", photos)[1]


def test_photographs_in_a_project_for_characters_are_warned_of(run: Run, project: Path, tmp_path: Path) -> None:
    scene = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(scene).resize((200, 160), Image.Resampling.BICUBIC).save(tmp_path / "scene.png")
    assert "--encoder photos" in run("teach", "add", project, "scene", tmp_path / "scene.png")[2]


LEAVING = """
import atexit, gc, sys, types
before = gc.get_freeze_count()  # Python 3.12 begins with some
atexit.register(lambda: print("frozen", gc.get_freeze_count() > before))
if sys.argv.pop(1) == "complaining":
    sys.modules["triton"] = types.ModuleType("triton")
from fscil.cli.main import main
main()
"""


@pytest.mark.parametrize(("beside", "frozen"), [("nothing", True), ("complaining", False)])
def test_a_process_that_ends_looks_through_nothing(tmp_path: Path, beside: str, frozen: bool) -> None:
    """Or does, where a module of torch would complain of what is left."""
    Learner.create(tmp_path / "p", encoder="glyphs").close()
    words = [sys.executable, "-c", LEAVING, beside, "teach", "list", str(tmp_path / "p")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"frozen {frozen}"
