"""The grid: which method with which recipe, and which base trainings are one and the same.

A method's recipe is DATA_METHOD.toml where there is one, else the data set's default recipe. Two recipes that ask for
the same base training share its network, whatever else they say.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fscil import methods
from fscil.core import config as configs
from fscil.core.config import Config, to_dict
from fscil.core.errors import InputError, nearest
from fscil.experiments.preflight import obstacle
from fscil.experiments.recipes import default_recipe, own_recipe
from fscil.experiments.runner import NetworkPlace
from fscil.training.checkpoint import load_classifier, same_training

BASELINE, FLOOR = "prototypes", "lazy"  # always measured: what the others are compared with


@dataclass(frozen=True)
class BenchRequest:
    """What `fscil bench` is asked for."""

    data: str = ""  # the data set; empty: that of the recipe, or glyphs
    methods: str = "all"  # or names with commas between
    draws: int = 3
    recipe: str = ""  # the default recipe, where it is not that of the data set's name
    same_backbone: bool = False  # all methods on the default recipe's network
    checkpoints: tuple[Path, ...] = ()  # trained networks to take instead of training them
    overrides: tuple[str, ...] = ()
    out: Path = Path("runs/bench")

    @property
    def everything(self) -> bool:
        return self.methods.strip() == "all"

    @property
    def names(self) -> list[str]:
        """In the order of the registry, the baseline and the floor included."""
        asked = list(methods.REGISTRY) if self.everything else _split(self.methods)
        for name in asked:
            if name not in methods.REGISTRY:
                raise InputError(f"There is no method '{name}'; {nearest(name, [*methods.REGISTRY, 'all'])}")
        if not asked:
            raise InputError("--methods names no method; give some names with commas between, or all.")
        if twice := next((name for name in asked if asked.count(name) > 1), None):
            raise InputError(f"--methods names '{twice}' twice; name each method once.")
        return [name for name in methods.REGISTRY if name in asked or name in (BASELINE, FLOOR)]


@dataclass(frozen=True)
class PlannedCell:
    """One method on one network and one draw of the shots."""

    method: str
    draw: int
    config: Config  # of the method's recipe
    network: NetworkPlace

    @property
    def path(self) -> Path:
        return self.network.folder / self.method / f"shots-{self.draw}" / "result.json"


@dataclass(frozen=True)
class PlannedMethod:
    """One method of the bench."""

    method: str
    config: Config
    network: NetworkPlace


@dataclass(frozen=True)
class Plan:
    request: BenchRequest
    default: Config  # the recipe of methods without one of their own
    methods: tuple[PlannedMethod, ...]
    left_out: Mapping[str, str]  # method -> why it cannot run here

    @property
    def networks(self) -> list[NetworkPlace]:
        """In the order in which they are needed."""
        return list({planned.network.key: planned.network for planned in self.methods}.values())

    def cells(self, network: NetworkPlace) -> list[PlannedCell]:
        """All cells on one network. Class means are measured on every network: they show what its training gave."""
        members = [planned for planned in self.methods if planned.network.key == network.key]
        configs_of = {BASELINE: members[0].config, **{planned.method: planned.config for planned in members}}
        draws = range(self.request.draws)
        return [PlannedCell(method, draw, config, network) for method, config in configs_of.items() for draw in draws]

    def cells_of(self, planned: PlannedMethod) -> list[PlannedCell]:
        return [cell for cell in self.cells(planned.network) if cell.method == planned.method]


def make_plan(request: BenchRequest) -> Plan:
    recipe = request.recipe or default_recipe(request.data or "glyphs")
    default = _load(recipe, request)
    # As the recipe says, not --set: CIFAR-100 that is read from an .npz file still has CIFAR-100's recipes.
    family = configs.load(recipe).data.name
    if request.data and family != request.data:
        raise InputError(
            f"The recipe {default.recipe} is for the data set {family}, not {request.data}; "
            f"leave --data out, or choose another --recipe."
        )
    default.check_draws()
    if request.same_backbone and request.checkpoints:
        default = _as_trained(default, request)
    planned: list[PlannedMethod] = []
    left_out: dict[str, str] = {}
    networks: list[NetworkPlace] = []
    for name in request.names:
        config = _config(name, family, default, request)
        given = _given(config, request)
        if reason := _obstacle(name, config, trained=given is not None):
            # What was asked for by name must run; `all` is all that can.
            if not request.everything:
                raise InputError(reason)
            left_out[name] = reason
            continue
        network = next((network for network in networks if _same(network.config, config)), None)
        if network is None:
            network = NetworkPlace(config, request.out / "networks" / _key(config), given)
            networks.append(network)
        planned.append(PlannedMethod(name, config, network))
    _check_all_used(request, networks)
    return Plan(request, default, tuple(planned), left_out)


def _config(name: str, family: str, default: Config, request: BenchRequest) -> Config:
    recipe = own_recipe(family, name)
    own = _load(recipe, request) if recipe else default
    if own.data != default.data:
        raise InputError(
            f"The recipe {own.recipe} has other [data] settings than {default.recipe}; a comparison needs the same "
            f"sessions, so give the difference with --set."
        )
    for other, options in own.options.items():
        methods.make(other, options)  # a wrong --set is refused whoever it was meant for
    chosen = default if request.same_backbone else own
    # Options belong to the method: on another network it keeps those of its own recipe.
    return replace(chosen, methods=(name,), options={name: own.options[name]} if name in own.options else {})


def _load(recipe: str, request: BenchRequest) -> Config:
    return configs.load(recipe, [*request.overrides, f"draws={request.draws}"])


def _obstacle(name: str, config: Config, trained: bool) -> str:
    """Why this method cannot run with this recipe; empty if it can. A wrong option raises."""
    if reason := obstacle(name, config):
        return reason
    teachers = [path for stage in (config.train, config.last) for path in _split(stage.teacher)]
    for teacher in [] if trained else teachers:
        if not Path(teacher).exists():
            return (
                f"{methods.REGISTRY[name].title} by the recipe {config.recipe} needs the teacher {teacher}, which does "
                f"not exist; train it first, or name another with --set train.teacher=PATH."
            )
    return ""


def _same(one: Config, other: Config) -> bool:
    return same_training({"config": to_dict(one), "data": ""}, {"config": to_dict(other), "data": ""})


def _key(config: Config) -> str:
    """A folder's name: readable, and different for whatever makes another network or other sessions."""
    shaping = to_dict(config)
    shaping |= {"recipe": "", "draws": 0, "methods": [], "options": {}, "accelerator": "", "devices": 1, "strategy": ""}
    shaping["log"] = []
    for stage in ("train", "second"):
        if shaping[stage]:
            shaping[stage] |= {"checkpoint_seconds": 0, "compile": "", "graph": ""}
    shaping["data"]["download"] = False
    drop_later_keys(shaping)
    digest = hashlib.sha256(json.dumps(shaping, sort_keys=True).encode()).hexdigest()[:8]
    return f"{config.backbone.kind}-{config.last.objective}-{digest}"


# Keys that came later, by group. Where they have their default they have no say, so that folders from before keep
# their names.
_LATER = {
    "": ("deterministic", "second", "log", "threads"),
    "backbone": ("start", "signed", "parts"),
    "train": (
        "milestones",
        "gamma",
        "objective_rate",
        "decay",
        "nesterov",
        "epoch_steps",
        "frozen_statistics",
        "frozen_layers",
    ),
    "train.augment": ("border", "hue", "jitter", "grey", "blank", "epochs", "mix_by", "policy"),
}


def drop_later_keys(shaping: dict[str, Any]) -> None:
    """Make a resolved config, in place, what it was before there were those of its keys that have their default."""
    default = to_dict(Config())
    for group, keys in _LATER.items():
        found, usual = shaping, default
        for part in group.split(".") if group else ():
            found, usual = found[part], usual[part]
        for key in keys:
            if found[key] == usual[key]:
                del found[key]


def _given(config: Config, request: BenchRequest) -> Path | None:
    if request.same_backbone:
        return request.checkpoints[0] if request.checkpoints else None
    # A network that is given may have been trained without it.
    wanted = replace(config, deterministic=False)
    return next((p for p in request.checkpoints if _same(replace(_stored(p), deterministic=False), wanted)), None)


def _check_all_used(request: BenchRequest, networks: Sequence[NetworkPlace]) -> None:
    used = {network.checkpoint for network in networks}
    for path in request.checkpoints:
        if path not in used:
            raise InputError(
                f"No method here has the base training of {path}; leave it out, or add --same-backbone to run every "
                f"method on it."
            )


def _as_trained(default: Config, request: BenchRequest) -> Config:
    if len(request.checkpoints) > 1:
        raise InputError("--same-backbone takes one --checkpoint, the network that all methods share.")
    stored = _stored(request.checkpoints[0])
    return replace(default, backbone=stored.backbone, train=stored.train, second=stored.second, seed=stored.seed)


def _stored(path: Path) -> Config:
    return configs.build(Config, load_classifier(path).info["config"])


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
