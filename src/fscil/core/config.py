"""What a run does, as frozen dataclasses: defaults <- recipe (TOML) <- `--set key=value`.

A recipe may name another that it `extends`; its tables are merged into the parent's, and its values replace them. The
types of the fields say what they may hold (`core.options`); the resolved config is saved with every result.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from fscil.core.errors import InputError, did_you_mean
from fscil.core.options import (
    Amount,
    BelowOne,
    Bounds,
    Checked,
    Count,
    FileName,
    Hint,
    Items,
    Positive,
    Share,
    Whole,
    build,
    to_dict,  # noqa: F401, for those who import `build` and `to_dict` from here
)

Precision = Literal[
    "auto", "32-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true", "64-true", "32", "16", "bf16", "64",
    "transformer-engine", "transformer-engine-float16",
]  # fmt: skip


@dataclass(frozen=True)
class DataConfig(Checked):
    """The benchmark: which images, in which class order, cut into which sessions."""

    prefix: ClassVar[str] = "data."
    name: str = "glyphs"  # see `fscil datasets`
    path: str = ""  # file or folder; not needed for what is built in, and for what is fetched into the cache
    base: Annotated[int, Bounds(low=2)] = 60  # classes of the base session
    way: Count = 5  # new classes per session
    shot: Count = 5  # training images per new class
    sessions: Whole = 0  # novel sessions; 0: as many as the classes allow
    order_seed: Annotated[int, Bounds(low=-1)] = -1  # shuffle the class order with this seed; -1: natural order
    # Image files are decoded to this square; 0: 32 for folder and omniglot, 64 for tinyimagenet, 84 for miniimagenet,
    # 224 for cub200.
    image_size: Whole = 0
    # folder without train/test, digits and omniglot: share of each class (of the drawers) that is kept for testing, and
    # the seed of that split
    test_fraction: Annotated[float, Bounds(above=0, below=1)] = 0.3
    split_seed: Whole = 0
    # published: those of Tao et al. (CVPR 2020) on cifar100, cub200 and miniimagenet; stored: the project's own draws,
    # the same on every copy of the data; empty: drawn by seed
    shots: Annotated[Literal["", "stored", "published"], Hint("The number of images per new class is data.shot.")] = ""
    session_lists: str = ""  # folder with other lists in the form of the published ones (session_N.txt)
    download: bool = False  # fetch the original archive, where it has an address

    @property
    def fixed_shots(self) -> bool:
        """Whether a list says which images are shown: then there is one draw of them."""
        return bool(self.session_lists) or self.shots == "published"


@dataclass(frozen=True)
class BackboneConfig(Checked):
    """The network. A vit is built from the sizes below, as timm would; a `name` (timm, vit) takes one of timm's."""

    prefix: ClassVar[str] = "backbone."
    # joined: the features of the networks in `parts` side by side, each trained before; `fscil join` makes one
    # timm: any of timm's networks by its `name`; its stages, or a transformer's blocks, are the layers
    kind: Literal["vit", "resnet12", "resnet18", "resnet20", "timm", "joined"] = "vit"
    name: str = ""  # of timm, such as resnet18 or vit_small_patch16_224
    pretrained: bool = False  # load timm's weights, or those of an installed package (tf_efficientnet_lite0)
    # What is beyond a highest value, here and below, is a slip of the keyboard that would run until memory is out.
    image_size: Annotated[Count, Bounds(high=4096)] = 32
    # Outside training, images are enlarged by this factor and their middle is taken: random resized crops make things
    # look larger in training than they are.
    test_zoom: Annotated[float, Bounds(low=1)] = 1.0
    test_mirror: bool = False  # outside training, features are the mean over an image and its mirror image
    # patch: one linear map per patch; conv, residual: overlapping convolutions to the same grid.
    # resnet18: imagenet for the 7x7 stem with max-pool, else a 3x3 one.
    stem: Literal["patch", "conv", "residual", "imagenet"] = "patch"
    # First weights of a ResNet's convolutions: normal, by their outputs; or torch's own, uniform and about 2.4 times
    # smaller, so that the same rate turns them faster at first: batch-norm hides their length.
    start: Literal["normal", "torch"] = "normal"
    signed: bool = False  # resnet18, resnet20: features are those before the last ReLU, and may be negative
    patch_size: Count = 8
    embed_dim: Annotated[Count, Bounds(high=65_536)] = 64
    depth: Annotated[Count, Bounds(high=1000)] = 8
    num_heads: Count = 4
    mlp_ratio: Positive = 4.0
    # conv: a depthwise 3x3 convolution over the grid of tokens inside every MLP.
    mlp: Literal["plain", "conv"] = "plain"
    pool: Literal["token", "mean"] = "token"  # features: of the class token, or the mean over patches (no class token)
    drop_path: BelowOne = 0.0
    parts: tuple["BackboneConfig", ...] = ()  # joined: what each network is


LOOKS = ("test_zoom", "test_mirror")  # how a trained network looks at images: these are not part of its training


@dataclass(frozen=True)
class AugmentConfig(Checked):
    """Per-sample augmentation, applied to the whole batch at once."""

    prefix: ClassVar[str] = "train.augment."
    crop_scale: Annotated[float, Bounds(above=0, high=1)] = 1.0  # random resized crop: smallest area kept; 1: off
    flip: Share = 0.0  # probability of a horizontal flip
    rotate: Amount = 0.0  # largest angle, degrees
    turn: Share = 0.0  # probability of a quarter, half or three-quarter turn; turned classes are classes of their own
    translate: Amount = 0.0  # largest shift, as a share of the side; whole pixels where nothing else resamples
    scale: BelowOne = 0.0  # largest relative zoom in or out
    shear: Amount = 0.0
    # what a warp brings in from outside the image: its border again, or black (0 before the network's normalisation)
    border: Literal["repeat", "black"] = "repeat"
    autoaugment: bool = False  # a policy of AutoAugment
    # which one; imagenet: as timm has it (v0-mstd0.5), with strengths that vary from image to image
    policy: Literal["cifar10", "imagenet"] = "cifar10"
    brightness: Amount = 0.0
    contrast: Amount = 0.0
    saturation: Amount = 0.0
    hue: Annotated[float, Bounds(low=0, high=0.5)] = 0.0  # largest shift, of the whole circle of colours
    jitter: Share = 1.0  # probability that these four change at all; they do in random order
    grey: Share = 0.0  # probability of shades of grey alone
    noise: Amount = 0.0  # standard deviation of added noise, of a 0..1 range
    erase: Share = 0.0  # probability of blanking a rectangle
    cutout: Share = 0.0  # side of a square that is always blanked, as a share of the image's side
    # what these two leave: the image's mean, black, or a colour at random, which may be darker and brighter than any
    blank: Literal["mean", "black", "random"] = "mean"
    mixup: Amount = 0.0  # Beta parameter; 0: off
    cutmix: Amount = 0.0  # Beta parameter; 0: off
    mix_prob: Share = 1.0  # probability that an image is mixed
    mix_by: Literal["image", "batch"] = "image"  # who draws how: each image, or the batch for all of its own
    epochs: Whole = 0  # at the start, in which images are augmented at all; 0: in every epoch


@dataclass(frozen=True)
class TrainConfig(Checked):
    """Base training."""

    prefix: ClassVar[str] = "train."
    epochs: Annotated[Whole, Bounds(high=1_000_000)] = 40  # 0: the network as it starts, such as a pretrained one
    # updates in an epoch; 0: as many whole batches as the images fill
    epoch_steps: Annotated[Whole, Bounds(high=1_000_000)] = 0
    batch_size: Annotated[int, Bounds(low=2)] = 128  # over all devices together
    # lars: sgd that turns every matrix by a share of its length, at most; vectors as sgd does, without decay
    optimizer: Literal["adamw", "sgd", "lars"] = "adamw"
    lr: Amount = 2e-3
    min_lr: Amount = 1e-5  # where the cosine ends
    # epochs at which the rate is multiplied by gamma; where there are any, they take the place of the cosine
    milestones: tuple[Positive, ...] = ()
    gamma: Positive = 0.1
    objective_rate: Positive = 1.0  # rate of the objective's own parameters, as a factor of lr
    weight_decay: Amount = 0.05
    # what it touches: matrices alone, or all that is trained (norms and biases too), as torch does unasked
    decay: Literal["matrices", "all"] = "matrices"
    beta2: BelowOne = 0.99  # adamw
    momentum: BelowOne = 0.9  # sgd, lars
    nesterov: bool = True  # sgd, lars
    warmup_epochs: Amount = 3
    clip: Amount = 1.0  # largest gradient norm; 0: off
    label_smoothing: Share = 0.0
    # the network is trained in evaluation mode: batch-norm keeps the statistics it has, nothing is dropped
    frozen_statistics: bool = False
    # layers (blocks of a vit, stages of others), and all before them, that training leaves as they are
    frozen_layers: Whole = 0
    ema: BelowOne = 0.998  # decay of the weight average that is kept; 0: off
    objective: str = "cross_entropy"  # cross_entropy, dot_regression (for the etf head) or a method's own
    objective_options: Mapping[str, Any] = field(default_factory=dict)  # what differs from the objective's defaults
    # cosine: learned class weights; linear: the same without unit lengths, scale and bias;
    # etf: a small neck and fixed, maximally separated class vectors
    head: Literal["cosine", "etf", "linear"] = "cosine"
    # etf: vectors to reserve, classes to come included; 0: one per class that is trained
    vertices: Annotated[int, Bounds(low=0, high=512)] = 0
    logit_scale: Positive = 16.0  # the head's factor (a linear one has none)
    teacher: str = ""  # checkpoint of a teacher network; several, separated by commas: the mean of their outputs
    distill: Literal["hard", "soft", "zscore"] = "hard"  # what to learn from the teacher
    distill_weight: Share = 0.9  # share of the teacher in the loss; the rest is the labels'
    temperature: Positive = 2.0
    checkpoint_seconds: Amount = 20  # how often a resumable state is written
    compile: Literal["auto", "on", "off"] = "auto"  # torch.compile the step; auto: on a GPU
    graph: Literal["auto", "on", "off"] = "auto"  # replay the step as a CUDA graph; auto: on one GPU, compiled
    augment: AugmentConfig = field(default_factory=AugmentConfig)


@dataclass(frozen=True)
class Config(Checked):
    """One recipe, resolved."""

    recipe: Annotated[str, FileName()] = "glyphs"  # also names the folder of its runs
    seed: Annotated[int, Bounds(low=0, high=2**32 - 1)] = 0  # base training and the methods' own randomness
    draws: Annotated[Count, Bounds(high=10_000)] = 3  # shot draws, with seeds 0, 1, ...
    methods: Annotated[tuple[str, ...], Items(least=1, unique=True)] = ("prototypes", "yourself")
    accelerator: Literal["auto", "cpu", "cuda", "gpu", "mps"] = "auto"
    devices: Count = 1
    strategy: str = "auto"
    precision: Precision = "auto"  # auto: bf16-mixed on a GPU, 32-true on a CPU
    # of a CPU; 0: one for a small network (`hardware.SMALL`), else as many as the machine gives
    threads: Annotated[Whole, Bounds(high=1024)] = 0
    # The same bits however many threads the machine would take: one thread, and no kernel that may round otherwise.
    deterministic: bool = False
    # Where numbers are sent besides OUT/log: an extra of the same name each
    log: Annotated[tuple[Literal["tensorboard", "mlflow", "wandb"], ...], Items(unique=True)] = ()
    data: DataConfig = field(default_factory=DataConfig)
    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    # A second stage of base training, with settings of its own: it goes on from the network of the first (and its head,
    # where the two have the same shape) with a new objective, which keeps what the first one's had of the same name.
    second: TrainConfig | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # per method: what differs from its defaults

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.deterministic and self.threads > 1:
            raise InputError(f"deterministic takes one thread, and threads is {self.threads}; leave one of them out.")

    def check_draws(self) -> None:
        """Refuse several draws of shots that a list fixes."""
        if self.data.fixed_shots and self.draws > 1:
            key = "data.session_lists" if self.data.session_lists else "data.shots=published"
            raise InputError(f"{key} fixes the shots, so more draws would repeat them; add --seeds 1.")

    @property
    def last(self) -> TrainConfig:
        """The stage of base training that leaves the network."""
        return self.second or self.train


def recipe_folder() -> Path:
    return Path(__file__).parents[1] / "configs"


def recipes() -> list[str]:
    """The recipes of the package. A file whose name begins with an underscore is only there to be extended."""
    return sorted(path.stem for path in recipe_folder().glob("[!_]*.toml"))


def load(recipe: str = "glyphs", overrides: Sequence[str] = ()) -> Config:
    """A recipe by name or by path, with `key=value` overrides.

    Examples:
        >>> import fscil
        >>> config = fscil.load_config("digits", ["train.epochs=5", "methods=prototypes,teen"])
        >>> config.data.base, config.data.way, config.train.epochs, config.methods
        (6, 2, 5, ('prototypes', 'teen'))
        >>> fscil.load_config("digits", ["train.epoch=5"])
        Traceback (most recent call last):
        ...
        fscil.core.errors.InputError: Unknown key 'train.epoch'...
    """
    path = _path(recipe)
    document = _read(path)
    for override in overrides:
        _override(document, override)
    return build(Config, {"recipe": path.stem, **document})


def _path(recipe: str, child: Path | None = None) -> Path:
    """Where a recipe is: of that name in the package, or a .toml file, beside or below the recipe that extends it."""
    if Path(recipe).suffix == ".toml":
        path = (child.parent if child else Path()) / recipe
        # A recipe may be a stranger's: it names no files of one's own.
        if child and not (recipe.isprintable() and child.parent.resolve() in path.resolve().parents):
            raise InputError(f"The recipe {child} extends {recipe!r}, which is not in its folder; copy it there.")
        return path
    stored = {path.stem: path for path in recipe_folder().glob("*.toml")}
    if recipe not in stored:
        wrong = f"There is no recipe '{recipe}'"
        if child:
            wrong = f"The recipe {child} extends '{recipe}', which does not exist"
        close = did_you_mean(recipe, stored)
        if (folder := Path(recipe).expanduser()).is_dir() and not child:
            close = f"for the images in that folder: fscil run folder --set data.path={folder}."
        elif alike := [name for name in recipes() if name.startswith(f"{recipe}_")]:
            close = f"there are {', '.join(alike)}."
        short = ", ".join(name for name in recipes() if "_" not in name)
        raise InputError(
            f"{wrong}; {close} Valid: {short}; of single methods as `fscil methods` lists them. Or give a .toml file."
        )
    return stored[recipe]


def _read(path: Path, children: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The tables of a recipe, merged into those of the recipe that it extends."""
    if path.resolve() in children:
        chain = " -> ".join(each.name for each in (*children, path))
        raise InputError(f"The recipes {chain} extend each other in a circle; take `extends` out of one of them.")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Notepad puts a byte-order mark first
    except FileNotFoundError:
        raise InputError(
            f"The recipe {path} does not exist; check the path, or take one of: {', '.join(recipes())}."
        ) from None
    except (ValueError, RecursionError) as error:  # of tomllib, of the decoder; and a path with a NUL in it
        raise InputError(f"The recipe {path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise InputError(f"The recipe {path} cannot be read: {error.strerror}.") from None
    parent = document.pop("extends", None)
    if parent is None:
        return document
    if not isinstance(parent, str):
        raise InputError(
            f"In the recipe {path}, extends must be the name of a recipe or a .toml file; got {parent!r:.40}."
        )
    return _merged(_read(_path(parent, path), (*children, path.resolve())), document)


def _merged(parent: Mapping[str, Any], child: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(parent)
    for key, value in child.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def _override(document: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise InputError(f"'--set {override}' is not of the form key=value; write for example --set train.epochs=10.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text.strip()  # a bare word is text
    *groups, last = key.strip().split(".")
    for group in groups:
        document = document.setdefault(group, {})
        if not isinstance(document, dict):
            raise InputError(f"'{group}' in --set {override} is a value, not a group of keys.")
    document[last] = value
