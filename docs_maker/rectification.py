"""Rectification over networks: what YourSelf as published gives on every network that was diagnosed, and why."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from fscil.core.errors import InputError
from fscil.core.naming import true_title
from fscil.metrics.names import label
from fscil.pages.kit.prose import number, signed
from fscil.pages.kit.table import markdown, table
from fscil.paper.printed import datasets
from fscil.results.ablation import Ablation
from fscil.results.grouping import Group, MeasuredBenchmark, dataset_key

TITLE = "When rectification helps"
_SCORES = ("gacc_grid", "aacc")
_WAYS = {  # steps of an ablation
    "prototypes": "Class means",
    "raw-layers": "Raw layers averaged",
    "whitened-means": "Whitened layers",
    "yourself": "YourSelf as published",
}
_FINAL = {"common": "Common mean, % of the length", "head": "Head and class means: cosine"}
_LAYERS = {  # what is measured -> its title and digits
    "cka": ("Layer and final: CKA", 2),
    "entropy": ("CR target: entropy, % of the highest", 1),
    "wrong": ("CR target wrong, % of base images", 1),
    "novel": ("named as new, %", 1),
}
_BACKBONE = {
    "stem": {"patch": "plain patches", "conv": "convolutional stem", "residual": "residual convolutional stem"},
    "pool": {"token": "class token", "mean": "mean of the tokens"},
}
_LABELS = {"hard": "hard labels of a teacher", "soft": "soft labels of a teacher", "zscore": "z-scored logits"}
_ABOUT = (
    f"Every pair is {' / '.join(map(label, _SCORES))}, mean over the draws of one network. *Class means*, *raw layers "
    "averaged* (the softmax of class means of the layers and of the final features) and *whitened layers* (without a "
    "bonus for new classes) train nothing; *YourSelf as published* adds nothing to the paper's method. *Base "
    "prototypes* are the rows of the network's head, as in the authors' code, or class means; *updates* says how long "
    "FR was trained in a draw. The columns after it are what FR was given to work with, from base "
    "training images and the shots of draw 0, never from test images; of final features, or layer by layer in the "
    "order of the layers. The target of CR is what a layer predicts with the prototypes that YourSelf takes, after all "
    "sessions. [YourSelf](methods/yourself.md) says in words what follows from it."
)
Values = Mapping[str, Sequence[float]]  # of _SCORES, one per draw


@dataclass(frozen=True)
class _Network:
    """One network: its diagnosis, and what was measured on it."""

    path: Path
    ablation: Ablation
    scores: Mapping[str, Values]  # by the keys of _WAYS
    options: Mapping[str, Any]  # of YourSelf as it was measured


def rectification(measured: Sequence[MeasuredBenchmark], root: str) -> list[str]:
    """Nothing where no network was diagnosed with the published settings."""
    rows = [_row(network, root) for benchmark in measured for network in _networks(benchmark)]
    gain = f"over class means: {' / '.join(map(label, _SCORES))}"
    layers = [title for title, _ in _LAYERS.values()]
    header = (
        "Network",
        "Draws",
        *_WAYS.values(),
        gain,
        "Base prototypes",
        "Updates",
        *_FINAL.values(),
        "Layers",
        *layers,
        "Files",
    )
    return [f"## {TITLE}", _ABOUT, markdown(table(TITLE, header, rows))] if rows else []


def _networks(measured: MeasuredBenchmark) -> Iterator[_Network]:
    for path, ablation in measured.ablations:
        if not ablation.diagnosis or true_title("yourself", "YourSelf", ablation.options) != "YourSelf":
            continue
        beside = {name: _beside(measured, path, ablation, name) for name in ("raw-layers", "whitened", "yourself")}
        raw, whitened, trained = beside.values()
        scores = {row.key: row.scores for row in ablation.steps if row.key in _WAYS}
        if raw and "raw-layers" not in scores:
            final = [result.variants["final"]["metrics"] for result in raw.results]
            scores |= {"prototypes": _listed(final), "raw-layers": _measured(raw)}
        if whitened and "whitened-means" not in scores:
            scores["whitened-means"] = _measured(whitened)
        if trained:  # the whole run: an ablation may have shortened it
            scores["yourself"] = _measured(trained)
        options = trained.first.config["options"]["yourself"] if trained else ablation.options
        yield _Network(path, ablation, scores, options)


def _beside(measured: MeasuredBenchmark, path: Path, ablation: Ablation, name: str) -> Group | None:
    """The results in a folder next to the ablation, which must be of its network where they name one."""
    folder = (path.parent / name).as_posix()
    found = next((group for group in measured.groups if group.folder == folder), None)
    if found and found.first.network.get("weights_sha256", ablation.network) != ablation.network:
        raise InputError(f"{folder} is of another network than {path.as_posix()}; put it into another folder.")
    return found


def _measured(group: Group) -> Values:
    return _listed([result.metrics for result in group.results])


def _listed(metrics: Sequence[Mapping[str, Any]]) -> Values:
    return {key: [each[key] for each in metrics] for key in _SCORES}


def _row(network: _Network, root: str) -> list[str]:
    means = {way: [fmean(values[key]) for key in _SCORES] for way, values in network.scores.items()}
    ways = [" / ".join(map(number, means[way])) if way in means else "–" for way in _WAYS]
    both = zip(means.get("yourself", ()), means.get("prototypes", ()), strict=False)
    gain = " / ".join(signed(ours - plain) for ours, plain in both) or "–"
    final, *layers = sorted(network.ablation.diagnosis, key=lambda each: each.block)
    reasons = [number(final.values.get(key), 2 if key == "head" else 1) for key in _FINAL]
    reasons.append(" / ".join(str(each.block) for each in layers))
    for key, (_, digits) in _LAYERS.items():
        reasons.append(" / ".join(number(each.values[key], digits) for each in layers))
    file = network.path.as_posix()
    setting = [str(network.options.get("prototypes", "–")), _updates(network)]
    name, draws = _named(network.ablation), str(network.ablation.draws)
    return [name, draws, *ways, gain, *setting, *reasons, f"[{file}]({root}/{file})"]


def _updates(network: _Network) -> str:
    base, novel = (network.options.get(f"{part}_steps") for part in ("base", "novel"))
    return "–" if base is None or novel is None else f"{base + novel * (len(network.ablation.classes) - 1):,}"


def _named(ablation: Ablation) -> str:
    """The recipe, and in words what its base training is."""
    plan = datasets().get(dataset_key(ablation.dataset))
    backbone, train = (ablation.config.get(key) or {} for key in ("backbone", "train"))
    words = [names.get(backbone.get(key, ""), "") for key, names in _BACKBONE.items()]
    if train:
        words.append(_LABELS.get(train.get("distill", ""), "") if train.get("teacher") else "true labels")
    said = ", ".join(filter(None, words))
    return f"{plan.title if plan else ablation.dataset}, `{ablation.recipe}`{f': {said}' if said else ''}"
