"""Tuning: pseudo-sessions come from the base session alone, and the choice is repeatable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from commands import fscil

from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.data import load_benchmark
from fscil.experiments.tune import pseudo_benchmark, settings, tune

CONFIG = configs.load("digits", ["train.epochs=4", "draws=2", "options.yourself.novel_steps=5"])


def test_pseudo_sessions_are_made_of_base_training_images_only() -> None:
    benchmark = load_benchmark(CONFIG.data)
    base = benchmark.session(0)
    pseudo = pseudo_benchmark(base, benchmark.class_names, CONFIG.data)
    assert pseudo.classes == (4, 2)
    assert set(pseudo.class_names) == set(benchmark.class_names[:6])
    assert base.images is not None
    allowed = {image.numpy().tobytes() for image in base.images}
    seen: list[bytes] = []
    for index in range(2):
        session, exam = pseudo.session(index), pseudo.exam(index)
        assert session.images is not None
        trained = {image.numpy().tobytes() for image in session.images}
        tested = {image.numpy().tobytes() for image in exam.images}
        assert trained | tested <= allowed
        assert not trained & tested
        seen += [*trained, *tested]
    assert len(pseudo.session(1)) == 10  # five shots of two classes


def test_settings_are_the_product_of_what_is_tried() -> None:
    assert settings([], "yourself") == [{}]
    lists = settings(["layers=[3,4],[5],[]"], "yourself")
    assert [each.get("layers") for each in lists] == [None, [3, 4], [5], []]
    tried = settings(["weight_novel=0.5,1", "joint=true,false"], "yourself")
    assert tried[0] == {}
    assert len(tried) == 5
    assert {"weight_novel": 0.5, "joint": False} in tried
    for bad, words in (("weight_novel", "key=value"), ("wieght=1", "wieght"), ("joint=maybe", "true or false")):
        with pytest.raises(InputError, match=words):
            settings([bad], "yourself")


def test_too_few_base_classes_are_refused() -> None:
    benchmark = load_benchmark(CONFIG.data)
    data = configs.load("digits", ["data.way=6"]).data
    with pytest.raises(InputError, match="too few to make pseudo-sessions"):
        pseudo_benchmark(benchmark.session(0), benchmark.class_names, data)


def test_the_best_comes_first_and_trials_are_kept(tmp_path: Path) -> None:
    arguments = (CONFIG, "yourself", ["weight_novel=0,1,5"], tmp_path, Reporter(quiet=True))
    first = tune(*arguments).trials
    assert len(first) == 4
    means = [trial.spread("gacc_grid").mean for trial in first]
    assert means == sorted(means, reverse=True)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    assert len(files) == 3 * 2  # weight_novel=1 is the recipe as it is: measured once
    assert tune(*arguments).trials == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")} == files


def test_the_command(tmp_path: Path) -> None:
    command = ["tune", "digits", "--out", str(tmp_path), "--seeds", "1", "--set", "train.epochs=2"]
    command += ["--set", "options.yourself.novel_steps=5", "--try", "weight_cr=0,0.5"]
    done = fscil(*command, "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["trials"]) == 3
    assert torch.isfinite(torch.tensor(json.loads(done.stdout)["trials"][0]["scores"]["aacc"])).all()
    wrong = fscil(*command, "--try", "weihgt_cr=1")
    assert wrong.returncode == 2
    assert "weihgt_cr" in wrong.stderr
