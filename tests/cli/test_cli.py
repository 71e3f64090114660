"""The command line as a user meets it: exit codes, files, one sentence for bad input; some as programs of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import LONG, Process, fscil, program

from fscil import __version__

QUICK = ["--seeds", "2", "--set", "train.epochs=6", "--set", "options.yourself.novel_steps=10"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "digits"
    done = program("run", "digits", "--out", out, *QUICK)
    assert done.returncode == 0, done.stderr
    assert "Report:" in done.stdout
    assert "Base training:" in done.stderr  # progress goes to stderr
    assert "gAcc" in done.stdout
    return out


def test_a_run_leaves_every_stage_behind(finished: Path) -> None:
    for name in ("config.json", "base/backbone.safetensors", "analysis.json", "report.html"):
        assert (finished / name).stat().st_size > 0
    assert not (finished / "base" / "state.safetensors").exists()
    for method in ("prototypes", "yourself"):
        for draw in range(2):
            result = json.loads((finished / method / f"shots-{draw}" / "result.json").read_text())
            assert result["schema"] == 2
            assert result["method"] == method
            assert result["shots_seed"] == draw
            assert result["classes"] == [6, 2, 2]
            assert [len(row) for row in result["matrix"]] == [1, 2, 3]
            assert set(result) >= {
                "recipe", "dataset", "seed", "config", "commit", "hardware", "seconds", "peak_memory_mb", "metrics",
            }  # fmt: skip
            assert result["seconds"]["base"] > 0
            assert result["config"]["options"][method] is not None
    analysis = json.loads((finished / "analysis.json").read_text())
    assert {layer["kind"] for layer in analysis["layers"]} == {"raw", "rectified", "ensemble", "whitened", "whole"}
    assert len(analysis["tsne"]["panels"]) == 5


def test_metrics_of_a_result_are_the_ones_in_it(finished: Path) -> None:
    path = finished / "yourself" / "shots-0" / "result.json"
    done = fscil("metrics", path, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads(path.read_text())["metrics"]


def test_a_finished_run_is_not_done_again_nor_overwritten(finished: Path) -> None:
    before = (finished / "base" / "backbone.safetensors").stat().st_mtime_ns
    refused = fscil("run", "digits", "--out", finished, *QUICK)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    again = fscil("run", "digits", "--out", finished, *QUICK, "--resume", "--json")
    assert again.returncode == 0
    assert len(json.loads(again.stdout)["results"]) == 4
    assert (finished / "base" / "backbone.safetensors").stat().st_mtime_ns == before


def test_another_config_does_not_continue_a_run(finished: Path) -> None:
    done = fscil("run", "digits", "--out", finished, *QUICK, "--set", "train.lr=0.1", "--resume")
    assert done.returncode == 2
    assert "train.lr" in done.stderr


def test_stages_one_by_one_give_the_same_as_the_whole(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "stages"
    assert fscil("train", "digits", "--out", out, *QUICK[2:]).returncode == 0
    assert fscil("features", "digits", "--out", out, *QUICK).returncode == 0
    assert fscil("eval", "digits", "--out", out, *QUICK).returncode == 0
    page = fscil("report", out, "--out", tmp_path / "page.html")
    assert page.returncode == 0, page.stderr
    assert "<html" in (tmp_path / "page.html").read_text()
    for path in finished.glob("*/shots-*/result.json"):
        mine = json.loads((out / path.relative_to(finished)).read_text())
        assert mine["matrix"] == json.loads(path.read_text())["matrix"]


def test_eval_from_a_checkpoint_elsewhere(finished: Path, tmp_path: Path) -> None:
    done = fscil(
        "eval",
        "digits",
        "--out",
        tmp_path / "e",
        "--checkpoint",
        finished / "base",
        "--methods",
        "prototypes",
        *QUICK,
        "--json",
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    expected = [
        json.loads((finished / "prototypes" / f"shots-{d}" / "result.json").read_text())["matrix"] for d in range(2)
    ]
    assert [r["matrix"] for r in results] == expected
    other = fscil("eval", "digits", "--out", tmp_path / "f", "--checkpoint", finished / "base", "--set", "data.base=4")
    assert other.returncode == 2
    assert "another base session" in other.stderr


def test_the_classifiers_weights_reach_the_method_and_the_report(tmp_path: Path) -> None:
    arguments = [
        "run",
        "digits",
        "--out",
        tmp_path / "x",
        *QUICK,
        "--set",
        "options.yourself.prototypes=head",
        "--json",
    ]
    first = fscil(*arguments)
    assert first.returncode == 0, first.stderr
    analysis = (tmp_path / "x" / "analysis.json").read_bytes()
    again = fscil(*arguments, "--resume")  # the method is gone: the map needs it learned again
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "x" / "analysis.json").read_bytes() == analysis


def test_two_runs_at_once_do_not_disturb_each_other(finished: Path, tmp_path: Path) -> None:
    both = [
        Process("run", "digits", *QUICK, "--json", "--out", tmp_path / name, log=tmp_path / f"log-{name}")
        for name in "ab"
    ]
    outputs = [json.loads(process.wait().stdout) for process in both]
    matrices = [[r["matrix"] for r in output["results"]] for output in outputs]
    expected = [
        json.loads((finished / m / f"shots-{d}" / "result.json").read_text())["matrix"]
        for m in ("prototypes", "yourself")
        for d in range(2)
    ]
    assert matrices == [expected, expected]  # bit for bit


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "glyhps"], "did you mean 'glyphs'"),
        (["run", "digits", "--set", "train.epoch=1"], "did you mean 'epochs'"),
        (["run", "digits", "--methods", "yourslef"], "did you mean 'yourself'"),
        (["run", "digits", "--set", "options.yourself.weight=1"], "options.yourself.weight"),
        (["run", "digits", "--set", "options.yourslef.top_k=1"], "did you mean 'yourself'"),
        (["run", "digits", "--set", "data.name=digit"], "did you mean 'digits'"),
        (["run", "digits", "--set", "data.base=10"], "too few"),
        (["run", "digits", "--set", "backbone.num_heads=5"], "multiple"),
        (["run", "digits", "--set", "options.yourself.layers=[9]"], "Block 9"),
        (["run", "digits", "--device", "quantum"], "no device 'quantum'"),
        (["eval", "digits"], "fscil train digits"),
        (["train", "digits", "--set", "train.teacher=nowhere.safetensors"], "does not exist"),
        (["report", "nothing.json"], "does not exist"),
        (["metrics", "nothing.csv"], "does not exist"),
        (["metrics"], "Missing argument"),
        (["fly"], "No such command"),
        (["run", "--fly"], "No such option"),
    ],
)
def test_bad_input_is_one_sentence_and_code_two(arguments: list[str], words: str, tmp_path: Path) -> None:
    command = program if arguments in (["run", "glyhps"], ["metrics", "nothing.csv"], ["fly"]) else fscil
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("fscil: ")]
    assert len(said) == 1, done.stderr
    assert words in said[0]
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("result.json"))


@pytest.mark.parametrize(
    ("rows", "classes", "words"),
    [
        ("85,\n80,50", "60,5", None),
        ("85,\n80,", "60,5", "hole"),
        ("85,\n80,150", "60,5", "150"),
        ("85,\n80,50", "60,5,5", "class counts"),
        ("85,3\n80,50", "60,5", "above the diagonal"),
        ("85,\n80,50", "60,x", "whole numbers"),
        ("85,\n80,abc", "60,5", "abc"),
    ],
)
def test_matrix_files(rows: str, classes: str, words: str | None, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(rows)
    done = fscil("metrics", tmp_path / "m.csv", "--classes", classes, "--json")
    if words is None:
        assert json.loads(done.stdout)["novel"] == 50
    else:
        assert done.returncode == 2
        assert words in done.stderr


def test_listings() -> None:
    assert {m["name"] for m in json.loads(fscil("methods", "--json").stdout)} >= {"prototypes", "yourself"}
    found = {d["name"]: d for d in json.loads(fscil("datasets", "--json").stdout)}
    assert found.keys() >= {"glyphs", "npz", "folder", "cifar100", "cub200", "miniimagenet", "tinyimagenet", "omniglot"}
    assert found["cub200"]["base"] == 100
    one = fscil("datasets", "cub200").stdout
    assert "5,994 training and 5,794 test images" in one
    assert "licence:" in one
    assert "miniImageNet" not in one
    assert "did you mean 'cub200'" in fscil("datasets", "cub").stderr
    assert "YourSelf" in fscil("methods").stdout


def test_help_is_complete_and_quick_to_load() -> None:
    text = fscil("--help").stdout
    for command in ("run", "train", "features", "eval", "report", "tune", "paper", "metrics", "methods", "datasets"):
        assert command in text
    code = "import sys, fscil.cli; print('torch' in sys.modules)"
    probe = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert probe.stdout.strip() == "False"


def test_ctrl_c_leaves_a_resumable_run(tmp_path: Path) -> None:
    long = ["--set", "train.epochs=500", "--set", "train.checkpoint_seconds=0"]
    process = Process("run", "digits", "--out", tmp_path / "x", *long, log=tmp_path / "log")
    state = tmp_path / "x" / "base" / "state.safetensors"
    deadline = time.monotonic() + LONG
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    done = process.wait()
    assert done.returncode == 130
    assert "--resume" in done.stderr
    assert "Traceback" not in done.stderr
    assert state.exists()
    left = [path.name for path in (tmp_path / "x").rglob(".*") if path.is_file()]
    assert left == [".lock"]  # empty, and held by nobody: no half-written file


def test_version_and_the_short_form_of_help() -> None:
    assert program("--version").stdout == f"fscil {__version__}\n"
    for arguments in (["-h"], ["run", "-h"], ["teach", "add", "-h"]):
        done = fscil(*arguments)
        assert (done.returncode, "Usage:" in done.stdout) == (0, True)
    assert fscil().stderr == ""  # without arguments: the help, and no complaint


def test_trouble_of_the_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    from fscil.cli import main

    def trouble(**options: object) -> None:
        raise PermissionError(13, "Permission denied", "/some/where")

    monkeypatch.setattr(main, "app", trouble)
    with pytest.raises(SystemExit) as left:
        main.main()
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("fscil: /some/where: Permission denied; check")
