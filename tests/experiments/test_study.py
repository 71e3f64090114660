"""The study on digits: its numbers are those of separate runs, it can be cut off, and no test image shapes a fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.core.storage import read_json
from fscil.data.benchmark import Exam
from fscil.evaluation import confidence
from fscil.evaluation.confidence import Setup, measure_confidence, without_fold
from fscil.evaluation.cost import BATCH
from fscil.evaluation.protocol import run_method
from fscil.experiments import runner
from fscil.experiments.ablate.collect import collect_ablation
from fscil.experiments.ablate.plan import PARTS, betas, choices, steps
from fscil.experiments.ablate.study import Study
from fscil.experiments.run import Run
from fscil.experiments.runner import NetworkRun
from fscil.methods import Prototypes, Whitened, YourSelf
from fscil.methods.raw_layers import RawLayers
from fscil.metrics import summary
from fscil.results.ablation import Ablation
from fscil.training.checkpoint import read_tensors, save_tensors

SETTINGS = [
    "draws=2",
    "train.epochs=3",
    "methods=prototypes,yourself",
    "accelerator=cpu",
    "options.yourself.base_steps=4",
    "options.yourself.novel_steps=4",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    opened = Run.open(configs.load("digits", SETTINGS), tmp_path_factory.mktemp("ablation") / "digits")
    opened.train()
    return opened


@pytest.fixture(scope="module")
def study(run: Run) -> Study:
    made = Study(run.on)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fscil.evaluation.cost._SECONDS", 0.01)
        made.measure(PARTS)
    return made


@pytest.fixture(scope="module")
def found(study: Study) -> Ablation:
    return collect_ablation(study)


def alone(run: Run, study: Study, method: Any, draw: int) -> dict[str, Any]:
    """The same measurement without the study."""
    outcome = run_method(method, run.on.benchmark.draw(draw), study.on.cache, seed=run.config.seed, network=run.train())
    return {"": summary(outcome.matrix), **{label: summary(m) for label, m in outcome.variants.items()}}


def test_rows_are_what_separate_runs_give(run: Run, study: Study, found: Ablation) -> None:
    untrained = (Prototypes(), Whitened(layers=study.blocks), RawLayers(layers=study.blocks, scale=study.method.scale))
    expected = [alone(run, study, method, 1)[""] for method in untrained]
    trained = steps(study.method)[3:]
    for step in trained:
        assert step.changes is not None
        expected.append(alone(run, study, study.yourself(step.changes), 1)[step.part])
    # What is trained does not depend on the whitened features, so the paper's ensemble is a part of ours.
    assert alone(run, study, study.yourself({"whitened": 0.0}), 1)[""] == expected[-2]
    for line, metrics in zip(found.steps, expected, strict=True):
        for key, values in line.scores.items():
            assert values[1] == metrics[key], (line.label, key)


def test_each_row_of_the_recipe_adds_one_thing() -> None:
    """One option, or the two weights of IR, differs between neighbours; what a recipe does not have has no row."""

    def keys(method: YourSelf) -> list[str]:
        return [step.key for step in steps(method)]

    usual = [step for step in steps(YourSelf()) if step.changes is not None]
    for row, before in zip(usual[1:-1], usual, strict=False):
        assert row.changes is not None
        assert before.changes is not None
        gone = before.changes.keys() - row.changes.keys()
        assert gone in ({"weight_all"}, {"weight_cr"}, {"weight_intra", "weight_inter"})
        assert row.changes.keys() < before.changes.keys()
        assert row.over == before.key
    assert usual[-2].changes == usual[-1].changes == {}
    untrained = ["prototypes", "whitened-means", "raw-layers", "yourself-cos"]
    assert keys(YourSelf()) == [*untrained, "yourself-all", "yourself-cos-cr", "yourself", "whitened"]
    assert keys(YourSelf(whitened=0.0, weight_all=0.0)) == [*untrained, "yourself-cos-cr", "yourself"]
    assert keys(YourSelf(whitened=0.0, weight_cr=0.0, weight_intra=0.0)) == [*untrained, "yourself-all"]


def test_choices_are_what_separate_runs_give(run: Run, study: Study, found: Ablation) -> None:
    recipe, *others = found.choices
    assert recipe.scores == found.steps[-1].scores
    assert len(others) == len(study.choices()) == 12
    for row in others:
        (option, value), *more = row.options.items()
        assert not more
        assert value != getattr(study.method, option)
        metrics = alone(run, study, study.yourself(row.options), 1)[""]
        assert {key: values[1] for key, values in row.scores.items()} == {key: metrics[key] for key in row.scores}
    assert found.changed("aacc").keys() == {row.key for row in others}


def test_the_other_rule_of_prediction_is_not_trained_for(study: Study) -> None:
    (rule,) = (choice for choice in study.choices() if choice.option == "ensemble")
    assert rule.value == "logits"
    assert study.rectified(rule.changes, 0).path == study.rectified({}, 0).path
    paths = {cell.path for cell in study.cells("choices")}
    assert len(paths) == 2 * len(study.choices())  # two draws; the rule has no cells, the recipe has


def test_the_recipe_itself_is_no_choice() -> None:
    published = YourSelf(prototypes="head", joint=False, residual=False, own_relations=False, weight_all=0.0)
    values = {(choice.option, choice.value) for choice in choices(published)}
    assert values == {
        ("prototypes", "means"), ("joint", True), ("top_k", 1), ("top_k", 4), ("pool", 0), ("replay", False),
        ("first_step", "dampened"), ("ensemble", "logits"), ("residual", True), ("own_relations", True),
        ("reverse_relations", True), ("weight_all", 0.3),
    }  # fmt: skip
    assert not [choice for choice in choices(YourSelf(), head=False) if choice.value == "head"]


def test_draws_measured_apart_make_the_same_document(run: Run, found: Ablation, tmp_path: Path) -> None:
    """Each by a process that opens the folder without claiming it; what is of no draw is measured with the first."""
    for draw in (1, 0):
        alone = Study(_elsewhere(run, tmp_path))
        alone.measure(["layers", "diagnosis"], draws=[draw])
        cells = {path.name for path in (tmp_path / "cells").rglob("shots-*.json")}
        assert cells == ({"shots-1.json"} if draw else {"shots-0.json", "shots-1.json"})
        assert bool(collect_ablation(alone).layers) == bool(collect_ablation(alone).diagnosis) == (draw == 0)
    together = collect_ablation(Study(_elsewhere(run, tmp_path)))
    assert (together.layers, together.diagnosis) == (found.layers, found.diagnosis)
    for part in PARTS:
        apart = [cell.path for draw in range(2) for cell in alone.cells(part, [draw])]
        assert sorted(apart) == sorted(cell.path for cell in alone.cells(part))


def test_layers_are_what_separate_runs_give(run: Run, study: Study, found: Ablation) -> None:
    lines = {line.key: line for line in found.layers}
    ours = alone(run, study, study.yourself({}), 0)
    for block in study.blocks:
        raw = alone(run, study, Prototypes(block=block), 0)[""]
        assert lines[f"{block}-raw"].scores["gacc_grid"][0] == raw["gacc_grid"]
        assert lines[f"{block}-rectified"].scores["aacc"][0] == ours[f"block {block}"]["aacc"]
    assert lines["final"].scores == found.steps[0].scores
    assert lines["ensemble"].scores == found.steps[-2].scores
    assert lines["whitened"].scores["aacc"][0] == ours["whitened"]["aacc"]
    assert lines["whole"].scores == found.steps[-1].scores


def test_curves_meet_at_the_recipe_and_start_without_the_loss(study: Study, found: Ablation) -> None:
    for curve in found.curves:
        assert [point.factor for point in curve.points] == [0, 0.25, 0.5, 1, 2, 4]
        assert curve.points[3].scores == found.steps[-1].scores
    by_key = {curve.key: curve for curve in found.curves}
    without = study.yourself(betas(study.method)[2].scaled(0))
    assert (without.weight_intra, without.weight_inter) == (0, 0)
    assert by_key["ir"].points[0].scores != found.steps[-1].scores
    assert {beta.key: beta.scaled(2) for beta in betas(study.method)} == {
        "cos": {"weight_cos": 0.2},
        "cr": {"weight_cr": 1.0},
        "ir": {"weight_intra": 0.6, "weight_inter": 0.0},
    }


def test_a_weight_of_zero_has_no_curve(run: Run) -> None:
    config = configs.load("digits", [*SETTINGS, "options.yourself.weight_cr=0"])
    other = Study(_elsewhere(run, run.out, config))
    weights = {beta.key: any(beta.weights.values()) for beta in betas(other.method)}
    assert weights == {"cos": True, "cr": False, "ir": True}


def test_calibration_is_about_the_same_predictions(found: Ablation) -> None:
    """Accuracies come from another code path than the matrices: both must count the same images right."""
    steps, layers = {s.key: s for s in found.steps}, {line.key: line for line in found.layers}
    expected = {"prototypes": steps["prototypes"], "rectified": steps["yourself"], "ensemble": steps["whitened"]}
    expected["whitened"] = layers["whitened"]
    expected |= {f"block {line.block}": line for line in layers.values() if line.kind == "rectified"}
    assert {each.key for each in found.predictors} == set(expected)
    for each in found.predictors:
        for moment in (each.before, each.after):
            assert moment["all"]["accuracy"] == pytest.approx(expected[each.key].scores["lacc"])
        assert each.after["all"] != each.before["all"]


def test_every_shot_is_left_out_once(run: Run) -> None:
    method = Study(run.on).method
    session = Setup(run.on.benchmark, run.on.cache, lambda: method, 0, torch.device("cpu"), None).prepared()[1]
    assert session.view is not None
    left = []
    for fold in range(5):
        kept, out = without_fold(session, fold, 5)
        assert torch.bincount(kept.labels - session.classes.start).tolist() == [4, 4]
        assert torch.bincount(out.labels - session.classes.start).tolist() == [1, 1]
        assert out.view is not None
        left += [row.tolist() for row in out.view.final]
    assert sorted(left) == sorted(row.tolist() for row in session.view.final)


def test_no_test_image_reaches_the_temperature(run: Run, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = read_json(study.calibration(0).path)["predictors"]
    benchmark = run.on.benchmark.draw(0)
    honest = benchmark.exam
    monkeypatch.setattr(benchmark, "exam", lambda index: _spoiled(honest(index)))
    setup = Setup(benchmark, study.on.cache, lambda: study.yourself({}), run.config.seed, run.on.device, None)
    spoiled = measure_confidence(setup)
    for key, judged in stored.items():
        assert spoiled[key]["temperatures"]["left_out"] == judged["temperatures"]["left_out"]
        assert spoiled[key]["temperatures"]["test"] != judged["temperatures"]["test"]


def _spoiled(exam: Exam) -> Exam:
    return dataclasses.replace(exam, labels=exam.labels.flip(0))


def test_one_shot_leaves_nothing_to_leave_out(run: Run) -> None:
    benchmark = run.on.benchmark.draw(0)
    benchmark.shot = 1
    with pytest.raises(InputError, match="takes two shots"):
        measure_confidence(Setup(benchmark, run.on.cache, lambda: None, 0, run.on.device, None))  # type: ignore[arg-type,return-value]


def test_distributions_are_not_squeezed_again() -> None:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
    logits = torch.tensor([[1.0, 0.5, -1.0], [0.2, 0.3, 0.4]])
    assert torch.allclose(confidence._scaled(lambda view: p)(None).exp(), p.double())  # type: ignore[arg-type]
    twice = confidence._scaled(lambda view: logits, 2.0)(None).exp()  # type: ignore[arg-type]
    assert torch.allclose(twice, torch.softmax(2 * logits.double(), -1))


def test_a_cut_off_study_continues_to_the_same_document(
    run: Run, study: Study, found: Ablation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = ["ablation", "layers"]
    again = Study(_elsewhere(run, tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(runner, "write_sealed", _breaking(3))
        with pytest.raises(KeyboardInterrupt):
            again.measure(parts)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").rglob("*.json")}
    assert len(files) == 3
    assert not collect_ablation(again).steps
    again.measure(parts)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    continued = collect_ablation(again)
    assert (continued.steps, continued.layers) == (found.steps, found.layers)
    assert not continued.curves
    assert not continued.predictors


def test_cells_of_another_network_are_not_taken(run: Run, study: Study, tmp_path: Path) -> None:
    """One weight changed is another network; another date in its notes is not."""
    tensors, info = read_tensors(run.on.checkpoint)
    for name, change in (("same", 0.0), ("other", 1e-3)):
        changed = {**tensors, "head.weight": tensors["head.weight"] + change}
        save_tensors(tmp_path / f"{name}.safetensors", changed, {**info, "seconds": 1.0})
        network = NetworkRun(run.config, run.out, run.on.reporter, checkpoint=tmp_path / f"{name}.safetensors")
        assert Study(network).complete("layers") == (name == "same")


def test_flops_and_parameters_follow_from_the_sizes(run: Run, found: Ablation) -> None:
    costs = {cost.key: cost for cost in found.costs}
    tokens, d, depth, classes, blocks = 17, 32, 4, sum(run.on.benchmark.classes), 3
    attention = 2 * tokens * d * 3 * d + 2 * 2 * tokens * tokens * d + 2 * tokens * d * d
    network = 2 * 16 * d * 12 + depth * (attention + 2 * 2 * tokens * d * 4 * d)
    assert costs["backbone"].mflops == pytest.approx(network / 1e6)
    shifts = 3 * 2 * 2 * d * d / BATCH  # of the norms, put into the next bias: once a batch
    branch = 2 * (2 * 2 * d * 2 * d) + 2 * (2 * d * 2 * d + 2 * d * d) + shifts + 2 * d * classes
    assert costs["one"].mflops == pytest.approx(branch / 1e6)
    joint = (1 + blocks) * d
    assert costs["all"].mflops == pytest.approx((blocks * branch + 2 * joint * joint + 2 * joint * classes) / 1e6)
    assert costs["means"].mflops == pytest.approx(2 * d * classes / 1e6)
    assert costs["all"].parameters == blocks * costs["one"].parameters
    assert costs["backbone"].parameters == sum(p.numel() for p in run.train().backbone.parameters())
    assert all(cost.microseconds > 0 for cost in found.costs)


def _elsewhere(run: Run, out: Path, config: Any = None) -> NetworkRun:
    return NetworkRun(config or run.config, out, run.on.reporter, checkpoint=run.on.checkpoint)


def _breaking(after: int) -> Any:
    """write_sealed that is interrupted at the next cell."""
    from fscil.core.storage import write_sealed

    count: Iterator[int] = iter(range(after))

    def write(path: Path, content: Any) -> None:
        if next(count, None) is None:
            raise KeyboardInterrupt
        write_sealed(path, content)

    return write
