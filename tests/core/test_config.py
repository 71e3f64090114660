"""Recipes and overrides: what is wrong is named, with what would be right."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from fscil.core import config as configs
from fscil.core.config import AugmentConfig, Config, DataConfig, TrainConfig, build, to_dict
from fscil.core.errors import InputError
from fscil.experiments.preflight import check_methods
from fscil.methods import REGISTRY, make
from fscil.methods.c_fscil import CFSCIL
from fscil.objectives import OBJECTIVES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("recipe", configs.recipes())
def test_every_recipe_loads_and_says_how_it_is_run(recipe: str) -> None:
    config = configs.load(recipe)
    assert config.recipe == recipe
    header = (configs.recipe_folder() / f"{recipe}.toml").read_text().split("\n\n")[0]
    assert re.search(rf"fscil (run|eval) {recipe}\b", header) or recipe == "glyphs"


def test_overrides_win_and_keep_their_type() -> None:
    config = configs.load(
        "digits", ["train.epochs=7", "data.name=npz", "train.lr=1", "methods=yourself", "backbone.pretrained=true"]
    )
    assert config.train.epochs == 7
    assert config.data.name == "npz"
    assert config.train.lr == 1.0
    assert isinstance(config.train.lr, float)
    assert config.methods == ("yourself",)
    assert config.backbone.pretrained is True


def test_the_resolved_config_builds_itself_again() -> None:
    config = configs.load("glyphs", ["options.yourself.weight_cr=0.25"])
    assert build(Config, to_dict(config)) == config


def test_parents_of_recipes_are_not_listed_but_can_be_extended() -> None:
    assert "_cifar100_vit" not in configs.recipes()
    assert configs.load("_cifar100_vit").backbone.depth == 12


def test_a_recipe_extends_another_table_by_table(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "parent.toml").write_text(
        'extends = "digits"\ndraws = 7\n[train]\nepochs = 3\n[options.yourself]\ntop_k = 1\n'
    )
    child = tmp_path / "child.toml"
    child.write_text(
        'extends = "deeper/parent.toml"\nmethods = ["lazy"]\n[train.augment]\nflip = 0.5\n[options.yourself]\nlr = 1\n'
    )
    config, digits = configs.load(str(child), ["train.lr=1"]), configs.load("digits")
    assert (config.recipe, config.draws, config.methods, config.data) == ("child", 7, ("lazy",), digits.data)
    assert (config.train.epochs, config.train.lr, config.train.augment.flip) == (3, 1.0, 0.5)
    assert config.train.batch_size == digits.train.batch_size
    assert config.options["yourself"] == {**digits.options["yourself"], "top_k": 1, "lr": 1}


@pytest.mark.parametrize(
    "name", ["../elsewhere", "/tmp/elsewhere", "..", ".", "", "a\\b", "a\0b", "a\nb", "C:x", "x" * 201]
)
def test_the_name_of_a_recipe_cannot_lead_out_of_its_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="file's name"):
        configs.load("glyphs", [f"recipe={json.dumps(name)}"])
    with pytest.raises(InputError):
        configs.load(name)
    recipe = tmp_path / "...toml"  # whose stem is ..
    recipe.write_text('extends = "glyphs"')
    with pytest.raises(InputError, match="file's name"):
        configs.load(str(recipe))


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 50_000, "a = " + "9" * 5000, "seed = nan", "data = 3", "[options]\nyourself = 3"]
)
def test_odd_recipes_are_refused_in_a_sentence(text: str, tmp_path: Path) -> None:
    recipe = tmp_path / "odd.toml"
    recipe.write_text(text)
    with pytest.raises(InputError):
        check_methods(configs.load(str(recipe)))


def test_parents_that_cannot_be_are_named(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    for text, words in (
        ('extends = "glyps"', r"mine\.toml extends 'glyps', which does not exist; did you mean 'glyphs'"),
        ('extends = "none.toml"', r"none\.toml does not exist"),
        ('extends = "mine.toml"', r"mine\.toml -> mine\.toml extend each other in a circle"),
        ("extends = 3", "extends must be the name of a recipe"),
        ('extends = "../other.toml"', "not in its folder"),
        (f"extends = '{tmp_path.parent}/other.toml'", "not in its folder"),
        ('extends = "a\\u0000.toml"', "not in its folder"),
        ('extends = "../glyphs"', r"extends '\.\./glyphs', which does not exist"),
        ("extends = '{configs.recipe_folder()}/glyphs'", "which does not exist"),
    ):
        recipe.write_text(text)
        with pytest.raises(InputError, match=words):
            configs.load(str(recipe))
    recipe.write_text('extends = "other.toml"')
    (tmp_path / "other.toml").write_text('extends = "mine.toml"')
    with pytest.raises(InputError, match=r"mine\.toml -> other\.toml -> mine\.toml"):
        configs.load(str(recipe))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.epoch=3", "did you mean 'epochs'"),
        ("trian.epochs=3", "did you mean 'train'"),
        ("train.augment.mixupp=1", "train.augment.mixupp"),
        ("train.epochs=many", "whole number"),
        ("train.epochs=2.5", "whole number"),
        ("train.lr=fast", "a number"),
        ("backbone.pretrained=1", "true or false"),
        ("train=3", "a group of keys"),
        ("seed.x=3", "seed must be"),
        ("epochs", "key=value"),
        ("=3", "key=value"),
        ("train.epochs=-1", r"train\.epochs must be a whole number of at least 0; got -1"),
        ("train.lr=nan", r"train\.lr must be a finite number of at least 0; got nan"),
        ("train.lr=inf", r"train\.lr must be a finite number .* got inf"),
        ("train.ema=7", r"train\.ema must be a number from 0 to below 1; got 7"),
        ("backbone.depth=0", r"backbone\.depth must be a whole number of at least 1; got 0"),
        ("seed=-1", "seed must be a whole number from 0 to 4294967295; got -1"),
        ("devices=0", "devices must be a whole number of at least 1; got 0"),
        ("draws=0", "draws must be a whole number of at least 1; got 0"),
        ("draws=99999999999999999999", "draws must be a whole number of at most 10000; got 9"),
        ("threads=999999999", "threads must be a whole number of at most 1024; got 9"),
        ("train.epochs=99999999999999999999", r"train\.epochs must be a whole number of at most 1000000; got 9"),
        ("backbone.depth=100000000", r"backbone\.depth must be a whole number of at most 1000; got 1"),
        ("backbone.embed_dim=1000000000", r"backbone\.embed_dim must be a whole number of at most 65536; got 1"),
        ('methods=""', "methods must be a list with at least 1 entry"),
        ("methods=lazy,teen,lazy", "methods must be a list with at least 1 entry, each once; got 'lazy,teen,lazy'"),
        ("data.shots=10", r"data\.shots must be empty, stored or published; got 10\. .* is data\.shot\."),
        ("backbone.kind=resnet", r"resnet12, resnet18, resnet20, timm or joined; got 'resnet' \(did you mean 'resnet"),
        ("data.test_fraction=1", r"between 0 and 1, both excluded; got 1"),
        ("train.augment.crop_scale=0", r"train\.augment\.crop_scale must be a number above 0 and at most 1"),
        ("train.vertices=600", r"from 0 to 512; got 600"),
        ("accelerator=tpu", "accelerator must be auto, cpu, cuda, gpu or mps"),
        ("precision=8", "precision must be auto, 32-true"),
    ],
)
def test_a_wrong_override_is_named(override: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        configs.load("digits", [override])


def test_a_config_that_is_made_directly_is_checked_too() -> None:
    with pytest.raises(InputError, match=r"train\.epochs must be"):
        TrainConfig(epochs=-1)
    with pytest.raises(InputError, match=r"data\.base must be"):
        replace(DataConfig(), base=1)


def test_every_default_fits_its_own_type() -> None:
    kinds = (Config, *(type(getattr(Config(), name)) for name in ("data", "backbone", "train")), AugmentConfig)
    kinds += tuple(OBJECTIVES[name].Options for name in OBJECTIVES)
    for kind in kinds:
        assert build(kind, to_dict(kind())) == kind()


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_numbers_of_an_objective_must_be_finite_and_whole_where_they_count(name: str) -> None:
    kind = OBJECTIVES[name].Options
    for field in fields(kind):
        if isinstance(field.default, float):
            with pytest.raises(InputError, match=rf"train\.objective_options\.{field.name} must be a finite number"):
                kind(**{field.name: float("nan")})
        elif isinstance(field.default, int) and not isinstance(field.default, bool):
            with pytest.raises(InputError, match=rf"train\.objective_options\.{field.name} must be"):
                kind(**{field.name: -7})


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_numbers_of_a_method_must_be_finite(name: str) -> None:
    for field in fields(REGISTRY[name]):
        if isinstance(field.default, float):
            with pytest.raises(InputError, match=rf"options\.{name}\.{field.name} must be a finite number"):
                make(name, {field.name: float("inf")})
            with pytest.raises(InputError, match=rf"options\.{name}\.{field.name} must be a finite number"):
                REGISTRY[name](**{field.name: float("nan")})


def test_an_unknown_recipe_gets_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'glyphs'"):
        configs.load("glyph")
    with pytest.raises(InputError, match="does not exist"):
        configs.load(str(tmp_path / "none.toml"))
    bad = tmp_path / "bad.toml"
    bad.write_text("a = [1")
    with pytest.raises(InputError, match="not valid TOML"):
        configs.load(str(bad))


def test_a_recipe_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Notepad of Windows saves UTF-8 so."""
    (tmp_path / "mine.toml").write_text('extends = "digits"\ndraws = 7\n', encoding="utf-8-sig")
    assert configs.load(str(tmp_path / "mine.toml")).draws == 7


def test_a_recipe_of_ones_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('draws = 1\n[data]\nname = "digits"\nbase = 6\nway = 2\n')
    assert configs.load(str(mine)).recipe == "mine"


OWN = sorted(path.name for path in (ROOT / "results" / "cifar100" / "own").iterdir())


@pytest.mark.parametrize(
    ("recipe", "folder"),
    [
        ("cifar100_resnet12", "resnet12"),
        ("cifar100_yourself", "yourself/prototypes"),
        ("cifar100_yourself", "yourself/yourself"),
        ("cifar100_plain", "plain/prototypes"),
        ("cifar100_plain", "plain/yourself"),
        ("cifar100_paper", "paper/prototypes"),
        ("cifar100_paper", "paper/yourself"),
        ("cifar100_paper_conv", "paper_conv/prototypes"),
        ("cifar100_paper_conv", "paper_conv/yourself"),
        ("cifar100_paper_zscore", "paper_zscore/yourself"),
        ("cifar100_whitened", "whitened/prototypes"),
        ("cifar100_whitened", "whitened/whitened"),
        *((f"cifar100_{name}", f"own/{name}/{name.replace('_', '-')}") for name in OWN),
    ],
)
def test_the_header_of_a_measured_recipe_says_what_was_measured(recipe: str, folder: str) -> None:
    header = (configs.recipe_folder() / f"{recipe}.toml").read_text(encoding="utf-8")
    results = [json.loads(path.read_text()) for path in (ROOT / "results" / "cifar100" / folder).rglob("result.json")]
    assert len(results) >= 3
    for key, words in (("aacc", "aAcc"), ("gacc_grid", "gAcc (grid)")):
        values = [result["metrics"][key] for result in results]
        assert f"{words} {fmean(values):.2f} +- {stdev(values):.2f}" in " ".join(header.replace("#", " ").split())


def test_the_design_page_lists_the_trials_by_which_the_options_were_chosen() -> None:
    study = json.loads((ROOT / "results" / "cifar100" / "pseudo_sessions.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    plain = {"layers": [8, 9, 10], "whitened_final": False, "shrinkage": 2.0, "centring": 0.8}
    recipe = configs.load("cifar100_yourself").options["yourself"]
    chosen = {key: value for key, value in recipe.items() if key not in ("whitened", "whitened_centring")}
    for options in (plain, {**plain, "joint": False}, {**plain, "own_relations": False}, {**chosen, "base_steps": 200}):
        (trial,) = [trial for trial in study["trials"] if trial["options"] == options]
        for share in ("0.0", "0.5"):
            gacc, aacc, *_ = trial["by_share"][share]
            assert f"{gacc:.2f} / {aacc:.2f}" in page
    assert f"All {len(study['trials'])} trials" in page


def test_whitened_layers_have_the_options_that_their_pseudo_sessions_chose() -> None:
    path = ROOT / "results" / "cifar100" / "pseudo_sessions_whitened.json"
    study = json.loads(path.read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "methods" / "whitened.md").read_text(encoding="utf-8")
    trials = [trial for trial in study["trials"] if trial["method"] == "whitened"]
    best = max(trials, key=lambda trial: fmean(trial["gacc_grid"]) + fmean(trial["aacc"]))
    recipe = configs.load("cifar100_whitened")
    options = make("whitened", recipe.options["whitened"])
    assert best["options"] == {**options.options(), "layers": list(options.blocks(recipe.backbone.depth))}
    assert best["test_mirror"] == recipe.backbone.test_mirror
    for trial in trials:
        if trial["options"]["layers"] == best["options"]["layers"]:
            assert f"{fmean(trial['gacc_grid']):.2f} / {fmean(trial['aacc']):.2f}" in page


def test_recipes_and_pages_follow_the_pseudo_sessions_of_their_methods() -> None:
    path = ROOT / "results" / "cifar100" / "pseudo_sessions_methods.json"
    study = json.loads(path.read_text(encoding="utf-8"))

    def best(method: str, *metrics: str) -> dict[str, Any]:
        trials: list[dict[str, Any]] = study[method]["trials"]
        return max(trials, key=lambda trial: sum(fmean(trial[metric]) for metric in metrics))

    # Short trainings preferred something else; the recipes have the authors' values, and the page says why.
    assert best("alice", "gacc_grid")["train"] == {"lr": 0.03, "epochs": 30, "fused": 1.0}
    for recipe in ("cifar100_alice", "cifar100_fecam"):
        train = configs.load(recipe).train
        assert (train.lr, train.objective_options["fused"]) == (0.01, 4.0)
    assert best("s3c", "gacc_grid")["options"] == best("s3c", "gacc_grid", "aacc")["options"] == {"rows": "head"}
    # The two disagree here; the page says so, and when the rule was settled.
    assert best("c-fscil", "gacc_grid")["options"] == {"meta_steps": 30}
    assert best("c-fscil", "gacc_grid", "aacc")["options"] == {"meta_steps": CFSCIL().meta_steps}
    assert "c-fscil" not in configs.load("cifar100_c_fscil").options
    for method in ("alice", "s3c", "c-fscil"):
        page = (ROOT / "docs" / "methods" / f"{method}.md").read_text(encoding="utf-8")
        for trial in study[method]["trials"]:
            assert f"{fmean(trial['gacc_grid']):.1f}" in page


def test_stored_results_name_no_folder_of_the_machine_they_were_measured_on() -> None:
    files = sorted((ROOT / "results").rglob("*.json"))
    assert len(files) > 100
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not re.findall(r'"(?:[A-Za-z]:\\\\|/)[^"]+"', text), file


def test_headers_state_the_measured_accuracy_of_each_network() -> None:
    networks = json.loads((ROOT / "results" / "cifar100" / "networks.json").read_text(encoding="utf-8"))["networks"]
    assert len(networks) == 8
    for network in networks:
        header = (configs.recipe_folder() / f"{network['recipe']}.toml").read_text(encoding="utf-8")
        share = 100 * network["base_test_correct"] / network["base_test_images"]
        assert f"{share:.2f} %" in header
