"""What is refused is refused before anything is written; what is interrupted says how to go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import fscil

from fscil.cli.main import interrupted
from fscil.core import config as configs
from fscil.core.progress import Reporter
from fscil.experiments.preflight import preflight, trainers

CHECKPOINT = Path(__file__).parents[2] / "checkpoints" / "glyphs.safetensors"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("devices=1000", "set devices to at most"),
        ("data.base=9", "too few for 9 base classes"),
        ("data.shot=200", "fewer than the 200 shots"),
        ("backbone.embed_dim=33", "not a multiple of backbone.num_heads"),
        ("backbone.image_size=33", "not a multiple of backbone.patch_size"),
        ("train.batch_size=33", "cannot be split into pairs"),
        ("train.teacher=absent", "absent does not exist"),
        ("train.objective=nothing", "no train.objective"),
        ("strategy=nothing", "no strategy 'nothing'"),
        ("data.name=npz", "needs data.path"),
        ("data.shots=published", "fixes the shots"),
        ("threads=-1", "threads must be"),
    ],
)
@pytest.mark.parametrize("command", ["run", "train", "tune"])
def test_a_refused_run_leaves_no_folder(command: str, change: str, words: str, tmp_path: Path) -> None:
    if command == "tune" and change.startswith(("backbone", "train", "data.base", "data.shot=")):
        pytest.skip("its network and its sessions are others")
    out = tmp_path / "out"
    done = fscil(command, "digits", "--out", out, "--set", change)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr
    assert not out.exists()


def test_a_refused_bench_leaves_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = fscil("bench", "--recipe", "digits", "--methods", "prototypes", "--set", "data.base=9", "--out", out)
    assert done.returncode == 2
    assert "too few for 9 base classes" in done.stderr
    assert not out.exists()


def test_a_network_of_other_images_leaves_no_folder(tmp_path: Path) -> None:
    done = fscil("eval", "digits", "--checkpoint", CHECKPOINT, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "another base session" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["run", "train", "bench", "ablate"])
def test_going_on_and_starting_over_exclude_each_other(command: str, tmp_path: Path) -> None:
    done = fscil(command, "--resume", "--force", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "give one of them" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("run digits", "--resume"),
        ("bench", "--resume"),
        ("ablate", "--resume"),
        ("train digits --out x", "--resume"),
        ("tune", "same command again to continue"),
        ("eval glyphs", "same command again to continue"),
        ("teach add p cat cat.jpg", "fscil teach history"),
        ("predict p new.jpg", "nothing was written"),
        ("export p model.onnx", "nothing was written"),
        ("run digits --check", "nothing was written"),
        ("bench status runs/bench-glyphs", "nothing was written"),
    ],
)
def test_the_advice_after_ctrl_c_fits_the_command(words: str, advice: str) -> None:
    said = interrupted(words.split())
    assert advice in said
    assert ("--resume" in said) == (advice == "--resume")


def test_a_check_says_what_a_run_would_take_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = fscil("run", "digits", "--check", "--out", out, "--set", "data.way=3", "--json")
    assert done.returncode == 0, done.stderr
    assert not out.exists()
    found = json.loads(done.stdout)
    assert found["notes"][0].startswith("1 class is in no session")
    estimate = found["estimate"]
    assert estimate["steps"] == sum(trainer.total for trainer in ready("data.way=3"))
    assert estimate["training"] > 0
    assert estimate["memory_mb"] > 100
    said = fscil("run", "digits", "--check", "--out", out, "--set", "train.epochs=1", cwd=tmp_path)
    assert "Nothing was written." in said.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_check_refuses_what_a_run_refuses(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").touch()
    for changes in (["--set", "data.base=9"], ["--set", "train.lr=nan"], ["--out", tmp_path]):
        assert fscil("run", "digits", "--check", *changes).returncode == 2


def test_both_stages_of_a_training_are_made_ready() -> None:
    found = ready("second.epochs=2", "train.epochs=1")
    first, second = ([trainer.total // trainer.epoch_steps for trainer in found][at] for at in (0, 1))
    assert (first, second) == (1, 2)


def ready(*changes: str) -> list:
    config = configs.load("digits", list(changes))
    return list(trainers(config, preflight(config, Reporter(quiet=True))))


def test_a_refused_project_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"no backup")
    for words in (
        ["init", tmp_path / "p", "--encoder", "none"],
        ["restore", tmp_path / "no.zip", tmp_path / "a" / "p"],
    ):
        assert fscil("teach", *words).returncode == 2
    assert [path.name for path in tmp_path.iterdir()] == ["no.zip"]


def test_a_file_is_no_project(tmp_path: Path) -> None:
    """It was said to belong to somebody else."""
    (tmp_path / "cat.jpg").write_bytes(b"a picture")
    done = fscil("predict", tmp_path / "cat.jpg", tmp_path / "cat.jpg")
    assert done.returncode == 2
    assert done.stderr.strip() == f"fscil: {tmp_path / 'cat.jpg'} is a file; give the folder of a project."


def test_a_mistyped_recipe_gets_a_short_answer() -> None:
    done = fscil("run", "digit")
    assert "did you mean 'digits'" in done.stderr
    assert len(done.stderr) < 400
    assert "checkpoint" in fscil("run", "digits", "--set", "backbone.kind=joined").stderr
