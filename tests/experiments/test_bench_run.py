"""The grid on digits: shared trainings, restarts, failures, engines, and the command as a user meets it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Process
from typer.testing import CliRunner

from fscil.cli.main import app
from fscil.core import config as configs
from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.core.storage import read_json
from fscil.data.session import Session
from fscil.experiments import runner
from fscil.experiments.bench import plan as plans
from fscil.experiments.bench.collect import collect_bench
from fscil.experiments.bench.grid import BenchFailures, Grid, fill_grid
from fscil.experiments.bench.plan import BenchRequest, Plan, make_plan
from fscil.experiments.recipes import own_recipe as find_own_recipe
from fscil.experiments.run import Run
from fscil.methods import REGISTRY, YourSelf
from fscil.training.checkpoint import Classifier, save_classifier

QUICK = ("train.epochs=2", "accelerator=cpu", "options.yourself.base_steps=2", "options.yourself.novel_steps=2")
SETTINGS = [part for setting in QUICK for part in ("--set", setting)]
QUIET = Reporter(quiet=True)


def request(out: Path, methods: str = "yourself", **changes: Any) -> BenchRequest:
    return BenchRequest("digits", methods, draws=2, overrides=QUICK, out=out, **changes)


def filled(plan: Plan, fresh: bool = False) -> BenchFailures:
    return fill_grid(Grid(plan, QUIET, fresh=fresh))


def collected(plan: Plan, failures: BenchFailures | None = None) -> Any:
    return collect_bench(Grid(plan, QUIET), failures or {})


def bench(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["bench", *map(str, arguments), *SETTINGS], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench") / "digits"
    said = bench("--data", "digits", "--methods", "yourself", "--seeds", 2, "--out", out)
    assert "gAcc, grid" in said
    assert "bench.html" in said
    return out


@pytest.fixture
def own_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Recipes of the package beside made-up ones, as a new method would bring them."""
    folder = tmp_path / "configs"
    folder.mkdir()
    for path in configs.recipe_folder().glob("digits*.toml"):
        (folder / path.name).write_text(path.read_text())
    monkeypatch.setattr(configs, "recipe_folder", lambda: folder)

    def write(name: str, changes: str) -> None:
        (folder / f"{name}.toml").write_text((folder / "digits.toml").read_text() + changes)

    return write


def test_it_leaves_a_page_a_table_and_a_document(finished: Path) -> None:
    for name in ("bench.html", "bench.md", "bench.json"):
        assert (finished / name).stat().st_size > 0
    document = read_json(finished / "bench.json")
    assert [row["method"] for row in document["rows"]] == ["lazy", "prototypes", "yourself"]  # both always there
    assert document["classes"] == [6, 2, 2]
    assert len(document["networks"]) == 1
    assert document["scores"]["lazy"]["novel"] == [0, 0]


def test_a_cell_is_what_a_run_gives(finished: Path, tmp_path: Path) -> None:
    run = Run.open(configs.load("digits", [*QUICK, "draws=2"]), tmp_path / "run")
    run.train()
    for path in run.evaluate():
        mine = read_json(path)
        theirs = read_json(next(finished.glob(f"networks/*/{path.relative_to(run.out)}")))
        assert theirs["matrix"] == mine["matrix"]
        assert theirs["inputs"] == mine["inputs"]
        assert theirs["network"] == mine["network"]
        assert set(theirs) == set(mine)
        assert theirs["cost"]["network_parameters"] == sum(p.numel() for p in run.train().backbone.parameters())
        assert theirs["cost"]["peak_memory_mb"] > 50
    means = read_json(next(finished.glob("networks/*/prototypes/shots-0/result.json")))
    assert means["cost"]["kept_numbers"] == 10 * 32  # a mean per class


def test_a_finished_bench_is_not_overwritten_nor_done_again(finished: Path) -> None:
    with pytest.raises(InputError, match="--resume"):
        bench("--data", "digits", "--methods", "yourself", "--out", finished)
    times = {path: path.stat().st_mtime_ns for path in finished.glob("networks/*/*/*/result.json")}
    bench("--data", "digits", "--methods", "yourself", "--seeds", 2, "--out", finished, "--resume")
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_more_draws_join_those_measured_before(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "x")
    network = next((tmp_path / "x").glob("networks/*/base/backbone.safetensors"))
    before = network.stat().st_mtime_ns
    said = bench(
        "--data", "digits", "--methods", "prototypes", "--seeds", 3, "--out", tmp_path / "x", "--resume", "--json"
    )  # fmt: skip
    document = json.loads(said)
    assert {row["method"]: len(row["draws"]) for row in document["rows"]} == {"lazy": 3, "prototypes": 3}
    assert network.stat().st_mtime_ns == before


def test_another_training_setting_is_another_network(finished: Path) -> None:
    same = make_plan(request(finished)).networks[0]
    assert same.folder.is_dir()
    other = make_plan(dataclasses.replace(request(finished), overrides=(*QUICK, "train.lr=0.5"))).networks[0]
    assert not other.folder.exists()
    shots = make_plan(dataclasses.replace(request(finished), overrides=(*QUICK, "data.shot=2"))).networks[0]
    assert not shots.folder.exists()  # the same network, but not the same sessions
    pace = ("train.checkpoint_seconds=1", "train.compile=off", "devices=1")
    assert make_plan(dataclasses.replace(request(finished), overrides=(*QUICK, *pace))).networks[0].key == same.key


def test_methods_share_a_network_where_their_recipes_ask_for_the_same(
    own_recipe: Callable[[str, str], None], tmp_path: Path
) -> None:
    own_recipe("digits_yourself", "top_k = 1\n")  # another option, the same training
    plan = make_plan(request(tmp_path))
    assert [entry.config.recipe for entry in plan.methods] == ["digits", "digits", "digits_yourself"]
    assert len(plan.networks) == 1
    own_recipe("digits_yourself", "\n[train.augment]\nnoise = 0.1\n")
    plan = make_plan(request(tmp_path))
    assert len(plan.networks) == 2
    # Class means are measured on both networks, as a control.
    assert [sorted({cell.method for cell in plan.cells(t)}) for t in plan.networks] == [
        ["lazy", "prototypes"],
        ["prototypes", "yourself"],
    ]
    failures = filled(plan)
    found = collected(plan, failures)
    assert not failures
    assert not found.left_out
    rows = {row.method: row for row in found.rows}
    assert rows["yourself"].network != rows["prototypes"].network
    means = found.comparison.row("prototypes").cells["gacc_grid"]
    assert found.class_means("lazy") == means
    assert found.class_means("yourself") != means


def test_the_same_backbone_for_all_keeps_the_methods_options(
    own_recipe: Callable[[str, str], None], tmp_path: Path
) -> None:
    own_recipe("digits_yourself", "top_k = 1\n[train.augment]\nnoise = 0.1\n")
    plan = make_plan(request(tmp_path, same_backbone=True))
    assert len(plan.networks) == 1
    entry = plan.methods[-1]
    assert entry.config.options["yourself"]["top_k"] == 1
    assert entry.config.train.augment.noise == 0


def test_a_hyphen_in_a_name_is_no_obstacle(own_recipe: Callable[[str, str], None]) -> None:
    own_recipe("digits_nc_fscil", "")
    assert find_own_recipe("digits", "nc-fscil") == "digits_nc_fscil"
    assert find_own_recipe("digits", "fscil") is None
    assert find_own_recipe("glyphs", "nc-fscil") is None


def test_data_from_elsewhere_keeps_the_data_sets_recipes(
    own_recipe: Callable[[str, str], None], tmp_path: Path
) -> None:
    own_recipe("digits_yourself", "top_k = 1\n")
    copy = ("data.name=npz", f"data.path={tmp_path / 'copy.npz'}")
    plan = make_plan(dataclasses.replace(request(tmp_path), overrides=(*QUICK, *copy)))
    (mine,) = [entry for entry in plan.methods if entry.method == "yourself"]
    assert (mine.config.recipe, mine.config.data.name) == ("digits_yourself", "npz")
    assert mine.config.options["yourself"]["top_k"] == 1


def test_recipes_with_other_sessions_do_not_compare(own_recipe: Callable[[str, str], None], tmp_path: Path) -> None:
    own_recipe("digits_yourself", "")
    path = configs.recipe_folder() / "digits_yourself.toml"
    path.write_text(path.read_text().replace("way = 2", "way = 1"))
    with pytest.raises(InputError, match=r"other \[data\] settings"):
        make_plan(request(tmp_path))


def test_a_trained_network_is_taken_where_it_fits(finished: Path, tmp_path: Path) -> None:
    network = next(finished.glob("networks/*/base/backbone.safetensors"))
    plan = make_plan(request(tmp_path, checkpoints=(network,)))
    assert not filled(plan)
    assert not list(tmp_path.rglob("backbone.safetensors"))
    expected = read_json(finished / "bench.json")["scores"]
    found = collected(plan)
    assert {row.method: [r.metrics["aacc"] for r in row.results] for row in found.comparison.rows} == {
        method: scores["aacc"] for method, scores in expected.items()
    }
    other = dataclasses.replace(request(tmp_path, checkpoints=(network,)), overrides=(*QUICK, "train.lr=0.5"))
    with pytest.raises(InputError, match="No method here has the base training"):
        make_plan(other)
    shared = make_plan(dataclasses.replace(other, same_backbone=True))  # whatever its training
    assert shared.networks[0].config.train.lr == 4e-3
    assert shared.networks[0].checkpoint == network


def test_killed_at_any_moment_it_goes_on_to_the_same_numbers(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(request(tmp_path))
    write, count = runner.write_sealed, iter(range(4))

    def interrupted(path: Path, document: Any) -> None:
        if path.name == "result.json" and next(count, None) is None:
            raise KeyboardInterrupt
        write(path, document)

    monkeypatch.setattr(runner, "write_sealed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        filled(plan)
    assert len(list(tmp_path.rglob("result.json"))) == 4
    monkeypatch.setattr(runner, "write_sealed", write)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    next(iter(times)).write_text('{"schema": 1, "half a f')  # and one file damaged besides
    filled(plan)
    found = collected(plan)
    expected = read_json(finished / "bench.json")
    assert [[draw.matrix for draw in row.draws] for row in found.rows] == [
        [tuple(map(tuple, draw["matrix"])) for draw in row["draws"]] for row in expected["rows"]
    ]


def test_a_kill_during_base_training_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 in the middle of the training; the next start continues it."""
    settings = ("train.epochs=300", "train.checkpoint_seconds=0", "accelerator=cpu")
    words = [part for setting in settings for part in ("--set", setting)]
    command = ["bench", "--data", "digits", "--methods", "lazy", "--seeds", "1", "--out", tmp_path / "x", *words]
    process = Process(*command, log=tmp_path / "log")
    while not process.over and not list(tmp_path.rglob("state.safetensors")):
        time.sleep(0.05)
    process.kill()

    seen = []

    @contextlib.contextmanager
    def watched(self: Reporter, label: str) -> Iterator[Callable[[int, int], None]]:
        def update(done: int, total: int) -> None:
            seen.append(done)
            raise KeyboardInterrupt

        yield update

    monkeypatch.setattr(Reporter, "task", watched)
    with pytest.raises(KeyboardInterrupt):
        filled(make_plan(BenchRequest("digits", "lazy", draws=1, overrides=settings, out=tmp_path / "x")))
    assert seen[0] > 1


def test_a_method_that_cannot_run_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: YourSelf, session: Session) -> None:
        raise InputError("It needs its own base training.")

    monkeypatch.setattr(YourSelf, "fit_novel", refuse)
    monkeypatch.setattr("fscil.experiments.bench.plan.methods.REGISTRY", _only("lazy", "prototypes", "yourself"))
    document = json.loads(bench("--data", "digits", "--seeds", 1, "--out", tmp_path / "x", "--json"))  # all: fine
    assert document["left_out"] == {"yourself": "It needs its own base training."}
    assert [row["method"] for row in document["rows"]] == ["lazy", "prototypes"]
    with pytest.raises(InputError, match="It needs its own base training"):  # asked for by name: not
        bench("--data", "digits", "--methods", "yourself", "--seeds", 1, "--out", tmp_path / "x", "--resume")


def test_a_crash_is_reported_and_ends_with_code_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(YourSelf, "fit_novel", lambda self, session: 1 / 0)
    arguments = ["bench", "--data", "digits", "--methods", "yourself", "--seeds", "1", "--out", str(tmp_path / "x")]
    done = CliRunner().invoke(app, [*arguments, *SETTINGS])
    assert done.exit_code == 1
    assert "yourself failed: ZeroDivisionError" in done.output
    assert "Traceback" in next(tmp_path.rglob("yourself/shots-0/log.txt")).read_text()
    assert "ZeroDivisionError" in read_json(tmp_path / "x" / "bench.json")["left_out"]["yourself"]


def test_all_leaves_out_what_the_network_cannot_give_and_names_refuse_it(tmp_path: Path) -> None:
    asked = BenchRequest(
        recipe="cifar100_resnet12", methods="all", same_backbone=True, out=tmp_path, overrides=("accelerator=cpu",)
    )
    plan = make_plan(asked)
    assert "needs intermediate layers" in plan.left_out["yourself"]
    assert "prototypes" in [entry.method for entry in plan.methods]
    with pytest.raises(InputError, match="needs intermediate layers"):
        make_plan(dataclasses.replace(asked, methods="yourself"))


def test_a_missing_teacher_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    settings = (*QUICK, "train.teacher=nowhere/base")
    with pytest.raises(InputError, match="needs the teacher nowhere/base"):
        make_plan(dataclasses.replace(request(tmp_path), overrides=settings))


def test_a_trained_network_needs_no_teacher_any_more(tmp_path: Path) -> None:
    config = configs.load("digits", [*QUICK, "train.teacher=nowhere/base"])
    path = tmp_path / "network.safetensors"
    save_classifier(path, Classifier(config.backbone, config.train, 6), {"config": configs.to_dict(config)})
    plan = make_plan(request(tmp_path / "out", same_backbone=True, checkpoints=(path,)))
    assert [entry.network.checkpoint for entry in plan.methods] == [path] * 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "digit"], "did you mean 'digits'"),
        (["--data", "npz"], r"needs data\.path; set it to an \.npz file"),
        (["--data", "digits", "--recipe", "glyphs"], "is for the data set glyphs"),
        (["--data", "digits", "--methods", "yourslef"], "did you mean 'yourself'"),
        (["--data", "digits", "--methods", ","], "names no method"),
        (["--data", "digits", "--methods", "teen,lazy,teen"], "names 'teen' twice"),
        (["--data", "digits", "--engine", "clouds"], "local, cores, ray or slurm"),
        (["--data", "digits", "--device", "quantum"], "no device 'quantum'"),
        (["--data", "digits", "--set", "train.epoch=1"], "did you mean 'epochs'"),
        (["--data", "digits", "--set", "options.yourself.weight=1"], r"options\.yourself\.weight"),
        (["--data", "digits", "--methods", "lazy", "--set", "options.yourslef.top_k=1"], "did you mean 'yourself'"),
        (["--data", "digits", "--checkpoint", "nowhere.safetensors"], "does not exist"),
        (["--data", "digits", "--same-backbone", "--checkpoint", "a", "--checkpoint", "b"], "takes one --checkpoint"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as refused:
        bench(*arguments, "--out", tmp_path / "x")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "x").exists()


def test_without_ray_a_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'fscil\[ray\]'"):
        bench("--data", "digits", "--methods", "lazy", "--engine", "ray", "--out", tmp_path / "x")


def test_data_settings_name_the_benchmark() -> None:
    """Whatever is added to the data settings must make another folder; download alone does not change the data."""
    config = configs.load("digits")
    for field in dataclasses.fields(DataConfig):
        value = getattr(config.data, field.name)
        changed = {bool: not value, int: 7, float: 0.123, str: "stored"}[type(value)]
        other = dataclasses.replace(config, data=dataclasses.replace(config.data, **{field.name: changed}))
        assert (plans._key(other) == plans._key(config)) == (field.name == "download"), field.name


def test_folders_from_before_a_key_keep_their_names() -> None:
    config = configs.Config()
    assert plans._key(config) == "vit-cross_entropy-f6d4b7ef"  # as it was when the settings had fewer keys
    other = dataclasses.replace(config, train=dataclasses.replace(config.train, milestones=(3.0,)))
    assert plans._key(other) != plans._key(config)


def _only(*names: str) -> dict[str, Any]:
    return {name: REGISTRY[name] for name in names}
