"""What every method must hold to, whatever it does inside."""

from __future__ import annotations

import copy
import dataclasses
import gc
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from feature_worlds import make_world
from tiny_benchmark import (
    BASE,
    CPU,
    DEPTH,
    PER_BASE_CLASS,
    SESSIONS,
    WAY,
    exam_view,
    examiner,
    kept_for,
    prepared,
    tiny_benchmark,
    tiny_features,
    tiny_network,
)
from torch import nn

from fscil.cli import main as cli
from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.data import Benchmark, Session, View
from fscil.data.dataset import ImageSet
from fscil.data.registry import REGISTRY as DATASETS
from fscil.data.session import Memory, PixelView
from fscil.evaluation.fits import BaseFits, DrawState
from fscil.evaluation.kept_images import KeptImages
from fscil.evaluation.protocol import Outcome, prepare, run_method
from fscil.experiments.bench.plan import own_recipe
from fscil.methods import REGISTRY, Method, Prototypes, make
from fscil.training.checkpoint import tensors_sha256

RECTIFIED = "+rectify"  # behind the name of a method: with `rectify = true`
PLAIN_NAMES = sorted(REGISTRY)
NAMES = [*PLAIN_NAMES, *(name + RECTIFIED for name in ("lda", "savc"))]  # of numbers in double, of turned images
FLOOR = {"lazy"}  # never predicts a new class, by design
COMPARERS = {"sppr"}  # compare by a network that eight base classes cannot teach to compare new ones
# What is slow by default is cut short: every option that counts steps, and these.
QUICK: dict[str, dict[str, Any]] = {
    "ranpac": {"width": 64},
    "joint": {"batch": 16},
    "icarl": {"epochs": 1, "exemplars": 3},
    "df-replay": {"generator_epochs": 2, "generator_iterations": 2, "generator_batch": 16, "scale": 16.0},
    "yourself": {"layers": (2, 3), "batch_classes": 8},
    "subspace-reg": {"lr": 0.02},  # ten times the published rate for a twenty-fifth of the published steps
    # As NC-FSCIL below: a projector that has learned nothing answers one class for all.
    "orco": {
        "base_steps": 30,
        "base_lr": 1.0,
        "target_steps": 30,
        "warmup_epochs": 2,
        "hidden": 64,
        "width": 32,
        "copies": 2,
    },
    "dsn": {
        "lr": 0.01
    },  # at the published rate new rows flee from what is drawn of old classes, which looks the same here
    "topic": {"nodes": 20, "drop": 0, "lr": 2.0, "weight_anchor": 1.0},  # rows start near zero, and learn in six steps
    "nc-fscil": {"base_steps": 40, "steps": (40,)},  # a neck that has not learned the base classes answers one for all
}
_COUNTS, _FEW, _ENOUGH = ("steps", "epochs", "episodes", "iterations"), 6, 40


def kind(name: str) -> type[Method]:
    return REGISTRY[name.removesuffix(RECTIFIED)]


def made(name: str, given: dict[str, Any]) -> Method:
    return make(kind(name).name, {**given, "rectify": RECTIFYING} if name.endswith(RECTIFIED) else given)


RECTIFYING = {"layers": [2, 3], "batch_classes": 8, "base_steps": 6, "novel_steps": 6}


class Looker(Prototypes):
    needs = frozenset({"images"})


def options(name: str, most: int = _FEW) -> dict[str, Any]:
    fields = dataclasses.fields(kind(name))
    counts: dict[str, Any] = {field.name: field.default for field in fields if field.name.endswith(_COUNTS)}
    few = {key: min(value, most) for key, value in counts.items() if isinstance(value, int)}
    few |= {key: tuple(min(v, most) for v in value) for key, value in counts.items() if isinstance(value, tuple)}
    return few | QUICK.get(kind(name).name, {})


def fresh(name: str, **changes: Any) -> Method:
    method = made(name, {**options(name), **changes})
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


_KEPT: dict[int, KeptImages] = {}  # of methods by their id, as the protocol has them beside it
_SHOWN: dict[int, dict[int, Session]] = {}  # what each of them was shown, which it is kept from


def learn(method: Method, sessions: list[Session]) -> None:
    """With what the protocol keeps for it."""
    for session in sessions:
        if session.index == 0:
            _SHOWN[id(method)] = {}
            _KEPT[id(method)] = KeptImages(method, _SHOWN[id(method)].__getitem__, CPU)
        _SHOWN[id(method)][session.index] = session
        _KEPT[id(method)].learn(session)


def run(name: str, benchmark: Benchmark) -> Outcome:
    """Through the protocol, which itself refuses scores of another shape than (images, classes seen) or not finite."""
    network = tiny_network(benchmark.base)
    return run_method(made(name, options(name)), benchmark, tiny_features(benchmark.base), network=network)


def matrix(name: str, benchmark: Benchmark) -> list[list[float]]:
    return run(name, benchmark).matrix.to_lists()


def refusal(work: Callable[[], object]) -> str:
    """Empty if it works; else the one sentence that says why not."""
    try:
        work()
    except InputError as error:
        return str(error)
    return ""


def is_sentence(said: str) -> bool:
    return said.endswith(".") and "\n" not in said and len(said) < 400


def works_or_says_why_not(name: str, benchmark: Benchmark) -> None:
    said = refusal(lambda: matrix(name, benchmark))
    assert not said or is_sentence(said)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_finite_and_grow_with_the_classes(name: str) -> None:
    benchmark = tiny_benchmark()
    method = fresh(name)
    view = exam_view(method, benchmark, 0)
    for session in prepared(method, benchmark):
        learn(method, [session])
        scores = method.scores(view)
        assert scores.shape == (len(view), BASE + WAY * session.index)
        assert torch.isfinite(scores).all()
        assert not scores.requires_grad


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_an_easy_world(name: str) -> None:
    sessions, exams = make_world(spread=0.2)
    method = made(name, options(name, _ENOUGH))
    method.start(seed=0, depth=DEPTH, device=CPU)
    said = refusal(lambda: learn(method, sessions))
    if said and kind(name).needs & {"images", "backbone", "tunes"}:
        pytest.skip(f"This world has features only. {said}")
    assert not said
    for index, (view, labels) in enumerate(exams):
        right = float((method.scores(view).argmax(1) == labels).float().mean())
        if name in FLOOR and index:
            assert right == 0
        elif not index or name not in COMPARERS:
            assert right > (0 if name in FLOOR else 0.95)  # the floor asks a head that these features never met


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_matrix(name: str) -> None:
    assert matrix(name, tiny_benchmark()) == matrix(name, tiny_benchmark())
    method, again = fresh(name), fresh(name)
    view = exam_view(method, tiny_benchmark(), 1)
    for each in (method, again):
        learn(each, prepared(each, tiny_benchmark()))
    assert torch.equal(method.scores(view), again.scores(view))


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_left_alone(name: str) -> None:
    method, benchmark = fresh(name), tiny_benchmark()
    sessions, view = prepared(method, benchmark), exam_view(method, benchmark, 0)
    network = tiny_network().classifier.state_dict()

    def content() -> list[torch.Tensor]:
        return [*_tensors([(s.labels, s.images, s.view, s.head) for s in sessions]), *_tensors(view), *network.values()]

    before = copy.deepcopy(content())
    learn(method, sessions)
    method.scores(view)
    assert all(torch.equal(a, b) for a, b in zip(before, content(), strict=True))
    assert not any(parameter.requires_grad for parameter in tiny_network().classifier.parameters())


def exam_of_all(method: Method, benchmark: Benchmark) -> View:
    """All test images as the protocol shows them after the last session."""
    ((_, view),) = examiner(method, benchmark).shown(SESSIONS)
    return view


@pytest.mark.parametrize("name", NAMES)
def test_an_image_is_scored_alone_as_among_others(name: str) -> None:
    """Else the others could tell of its class: that there are as many of each, or which of them came last."""
    method, benchmark = fresh(name), tiny_benchmark()
    learn(method, prepared(method, benchmark))
    view = exam_of_all(method, benchmark)
    for scorer in (method.scores, *method.variants().values()):
        whole = scorer(view)
        for row in (0, 1, 17, len(view) - 1):
            assert torch.allclose(scorer(view[row : row + 1])[0], whole[row], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_scoring_changes_nothing(name: str) -> None:
    method, benchmark = fresh(name), tiny_benchmark()
    view = exam_of_all(method, benchmark)
    for session in prepared(method, benchmark):
        learn(method, [session])
        before, names, random = copy.deepcopy(method.state_dict()), set(vars(method)), torch.get_rng_state()
        for scorer in (method.scores, *method.variants().values()):
            scorer(view)
        assert _alike(before, method.state_dict())
        assert set(vars(method)) == names
        assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize("name", NAMES)
def test_no_test_image_can_be_reached_from_it(name: str) -> None:
    method, benchmark = fresh(name), tiny_benchmark()
    exams = examiner(method, benchmark)
    rows = Rows([exams._view, *[benchmark.exam(index).images for index in range(SESSIONS + 1)]])
    for session in prepared(method, benchmark):
        learn(method, [session])
        for _, view in exams.shown(session.index):  # itself, not the copy that the protocol asks
            for scorer in (method.scores, *method.variants().values()):
                scorer(view)
        assert not rows.within(method)


@pytest.mark.parametrize("name", NAMES)
def test_what_comes_later_changes_nothing_before(name: str) -> None:
    one, other = (run(name, benchmark) for benchmark in (tiny_benchmark(), another_future()))
    assert list(one.variants) == list(other.variants)
    for mine, theirs in ((one.matrix, other.matrix), *zip(one.variants.values(), other.variants.values(), strict=True)):
        assert mine.to_lists()[:2] == theirs.to_lists()[:2]
    if name not in FLOOR and one.matrix.to_lists() == other.matrix.to_lists():
        # Of so few images they may be, by a rounding, where a method names one class for most; its scores are not.
        assert not torch.equal(last_scores(name, tiny_benchmark()), last_scores(name, another_future()))


def last_scores(name: str, benchmark: Benchmark) -> torch.Tensor:
    """Of the base classes' images, which are the same in every future."""
    method = fresh(name)
    learn(method, prepared(method, benchmark))
    return method.scores(exam_view(method, benchmark))


def another_future() -> Benchmark:
    """Sessions 2 and 3 with other images, and fewer of them to test on."""
    benchmark, rng = tiny_benchmark(), np.random.default_rng(1)
    dataset, first = benchmark._dataset, BASE + WAY

    def changed(part: ImageSet) -> ImageSet:
        later = part.labels >= first
        images = np.where(later[:, None, None, None], rng.integers(0, 256, part.images.shape), part.images)
        return ImageSet(images.astype(np.uint8), part.labels)

    test = changed(dataset.test)
    keep = (test.labels < first) | (np.arange(len(test.labels)) % 2 == 0)
    fewer = ImageSet(test.images[keep], test.labels[keep])
    return Benchmark(dataclasses.replace(dataset, train=changed(dataset.train), test=fewer), benchmark._config)


@pytest.mark.parametrize("name", NAMES)
def test_it_holds_no_images_itself(name: str) -> None:
    """Neither pixels nor features of single ones; and not the session, nor any record with one row per image.

    What it wants to see again it names, and the protocol keeps it.
    """
    method = fresh(name)
    sessions = prepared(method, tiny_benchmark())
    images = [tiny_benchmark().session(session.index).images for session in sessions]
    rows = Rows([*[session.view for session in sessions], *images])
    while sessions:
        learn(method, [sessions.pop(0)])
    gc.collect()
    assert not rows.within(method)
    for thing in _reachable(method):
        assert not isinstance(thing, Session | View | Memory)
        if isinstance(thing, torch.Tensor):
            assert thing.dtype != torch.uint8 or thing.ndim < 4, "pixels"
            assert BASE * PER_BASE_CLASS not in thing.shape, f"one row per base image: {tuple(thing.shape)}"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_for_it_is_within_its_budget(name: str) -> None:
    method = fresh(name)
    learn(method, prepared(method, tiny_benchmark()))  # which refuses more
    kept, budget = _KEPT[id(method)], method.memory()
    assert (kept.most > 0) == (budget is not None), "a budget that is not used, or none that is"
    assert budget is None or not budget.everything or method.mark == "reference"


@pytest.mark.parametrize("name", NAMES)
def test_a_method_that_tunes_changes_networks_of_its_own_alone_and_leaves_them_at_rest(name: str) -> None:
    method = fresh(name)
    before = tensors_sha256(tiny_network().classifier.state_dict())
    for session in prepared(method, tiny_benchmark()):
        learn(method, [session])
        modules = [value for key, value in vars(method).items() if key.endswith("_") and isinstance(value, nn.Module)]
        shared = {id(tensor) for tensor in tiny_network().classifier.state_dict(keep_vars=True).values()}
        for module in modules:
            assert not any(part.training for part in module.modules())
            assert not any(parameter.requires_grad or parameter.grad is not None for parameter in module.parameters())
            assert not shared & {id(tensor) for tensor in module.state_dict(keep_vars=True).values()}
    assert tensors_sha256(tiny_network().classifier.state_dict()) == before


@pytest.mark.parametrize("name", [name for name in NAMES if "tunes" in kind(name).needs])
def test_a_draw_that_was_killed_goes_on_to_the_same_matrix(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, benchmark = run(name, tiny_benchmark()), tiny_benchmark()
    under_way = DrawState(tmp_path, "one network and draw")

    def going_on() -> Outcome:
        return run_method(
            made(name, options(name)), benchmark, tiny_features(), network=tiny_network(), under_way=under_way
        )

    own, fit = kind(name), kind(name).fit_novel
    bases, base = [], own.fit_base
    monkeypatch.setattr(own, "fit_base", lambda self, session: (bases.append(1), base(self, session))[1])
    for killed in range(1, SESSIONS + 1):  # each time it comes one session further

        def dying(self: Method, session: Session, killed: int = killed) -> None:
            if session.index == killed:
                raise KeyboardInterrupt
            fit(self, session)

        monkeypatch.setattr(own, "fit_novel", dying)
        with pytest.raises(KeyboardInterrupt):
            going_on()
    monkeypatch.setattr(own, "fit_novel", fit)
    again = going_on()
    assert bases == [1]
    assert again.matrix.to_lists() == whole.matrix.to_lists()
    assert {label: part.to_lists() for label, part in again.variants.items()} == {
        label: part.to_lists() for label, part in whole.variants.items()
    }
    assert again.kept_images == whole.kept_images


def test_a_hoarder_is_caught() -> None:
    """The walks above find what a method hides, in whatever way it does."""
    for hide in (
        lambda method, session: setattr(method, "kept", {"deep": [(session.images,)]}),
        lambda method, session: setattr(method, "kept", lambda: session),
        lambda method, session: setattr(method, "kept", session.view.final.clone()),
        lambda method, session: setattr(method, "kept", session.view.final[7:8].mT.clone().mT),
        lambda method, session: setattr(method, "kept", session.images[7].flatten().numpy()),
        lambda method, session: setattr(method, "kept", session.images[7].numpy().tobytes()),
    ):
        method = fresh("prototypes")
        session = prepare(tiny_benchmark().session(0), Looker(), tiny_features(), CPU)
        rows = Rows([session.view, session.images])
        assert not rows.within(method)
        hide(method, session)
        del session
        assert rows.within(method)


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded_after_any_session_it_goes_on_to_the_same_matrix(name: str) -> None:
    benchmark = tiny_benchmark()
    whole = fresh(name)
    exams, sessions = examiner(whole, benchmark), prepared(whole, benchmark)
    rows, states, places = [], [], []
    for index, session in enumerate(sessions):
        learn(whole, [session])
        rows.append(exams.row(index, exams.named(index, whole)))
        states.append(copy.deepcopy(whole.state_dict()))
        places.append(_KEPT[id(whole)].places)
    view = exam_view(whole, benchmark)
    for cut in range(1, SESSIONS + 1):
        resumed = made(name, options(name))
        resumed.load_state_dict(states[cut - 1])
        _KEPT[id(resumed)] = kept_for(resumed, benchmark)
        _SHOWN[id(resumed)] = {}
        _KEPT[id(resumed)].put(places[cut - 1])
        for index in range(cut, SESSIONS + 1):
            learn(resumed, [sessions[index]])
            assert exams.row(index, exams.named(index, resumed)) == rows[index]
        assert cut > SESSIONS or torch.equal(whole.scores(view), resumed.scores(view))


@pytest.mark.parametrize("name", NAMES)
def test_a_draw_with_the_base_session_of_another_is_the_draw(name: str, tmp_path: Path) -> None:
    """What was learned of the base session may be kept in a file; nothing but the time it takes is different."""
    data = dataclasses.replace(tiny_benchmark()._config, shot=3)
    benchmark, seen = Benchmark(tiny_benchmark()._dataset, data), []
    fits = BaseFits(tmp_path, "one network")
    for draw, kept in ((1, None), (0, fits), (1, fits)):
        method = made(name, options(name))
        torch.manual_seed(len(seen))  # random numbers are its own
        outcome = run_method(
            method, benchmark.draw(draw), tiny_features(), network=tiny_network(), device=CPU, fits=kept
        )
        seen.append((outcome, method))
    (alone, one), (other, _), (again, two) = seen
    assert again.matrix.to_lists() == alone.matrix.to_lists()
    assert {label: part.to_lists() for label, part in again.variants.items()} == {
        label: part.to_lists() for label, part in alone.variants.items()
    }
    assert _alike(one.state_dict(), two.state_dict())
    assert torch.equal(one.scores(exam_view(one, benchmark)), two.scores(exam_view(two, benchmark)))
    assert again.base_peak_mb == other.base_peak_mb


@pytest.mark.parametrize("name", NAMES)
def test_the_state_is_plain(name: str) -> None:
    """Tensors, numbers, words, and what holds them: it can be written to a file."""
    method = fresh(name)
    learn(method, prepared(method, tiny_benchmark()))
    plain = (torch.Tensor, bool, int, float, str, torch.device, range, type(None))

    def check(value: Any) -> None:
        if isinstance(value, dict):
            for item in value.values():
                check(item)
        elif isinstance(value, list | tuple):
            for item in value:
                check(item)
        else:
            assert isinstance(value, plain), type(value)

    check(method.state_dict())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("way", "sessions", "shot"),
    [(2, 2, 1), (1, 2, 5), (1, 1, 1), (50, 1, 2), (2, 1, 20)],
    ids=["one shot", "one class", "one image", "50 classes", "20 shots"],
)
def test_unusual_sessions_work_or_are_refused_in_a_sentence(name: str, way: int, sessions: int, shot: int) -> None:
    works_or_says_why_not(name, tiny_benchmark(way=way, sessions=sessions, shot=shot))


@pytest.mark.parametrize("name", NAMES)
def test_two_base_classes_are_enough_or_refused(name: str) -> None:
    works_or_says_why_not(name, tiny_benchmark(base=2, way=2, sessions=1))


@pytest.mark.parametrize("name", NAMES)
def test_unequal_shots(name: str) -> None:
    method, benchmark = fresh(name), tiny_benchmark()
    sessions = prepared(method, benchmark)
    first = sessions[1]
    keep = torch.tensor([0, 5, 6, 7, 8, 9])  # one shot of one class, five of the other
    assert first.view is not None
    images = None if first.images is None else first.images[keep]
    sessions[1] = dataclasses.replace(first, labels=first.labels[keep], view=first.view[keep], images=images)
    if said := refusal(lambda: learn(method, sessions)):
        assert is_sentence(said)
        return
    assert torch.isfinite(method.scores(exam_view(method, benchmark, SESSIONS))).all()


OWN_RECIPES = [(name, recipe) for name in NAMES for data in DATASETS if (recipe := own_recipe(data, name))]


@pytest.mark.parametrize(("name", "recipe"), OWN_RECIPES, ids=str)
def test_options_of_its_recipes_work_on_a_network_of_another_base_training(name: str, recipe: str) -> None:
    """What `fscil bench --same-backbone` does."""
    chosen = {**configs.load(recipe).options.get(name, {}), **options(name)}
    run_method(made(name, chosen), tiny_benchmark(), tiny_features(), network=tiny_network())


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_option_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"options.{kind(name).name}.no_such_option"):
        made(name, {"no_such_option": 1})
    for field in dataclasses.fields(kind(name)):
        if field.init:
            with pytest.raises(InputError, match=f"options.{kind(name).name}.{field.name}"):
                made(name, {field.name: None})


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_a_wrong_option_ends_the_program_with_code_two(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    arguments = ["run", "digits", "--methods", name, "--set", f"options.{name}.no_such_option=1"]
    monkeypatch.setattr("sys.argv", ["fscil", *arguments, "--out", str(tmp_path / "x")])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert f"options.{name}.no_such_option" in said[0]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", NAMES)
def test_it_tells_what_it_is(name: str) -> None:
    method = type(made(name, {}))
    assert method.name == kind(name).name
    assert method.title
    assert any(str(year) in method.paper for year in range(1900, 2100))
    assert method.needs <= {"layers", "images", "backbone"} or method.needs == {"tunes"}
    assert "\n" not in method.differences


def test_an_unknown_method_gets_the_nearest_name() -> None:
    with pytest.raises(InputError, match="did you mean 'yourself'"):
        make("yourslef")


class Rows:
    """Images and their features, each by its bytes, to be found wherever they are kept."""

    def __init__(self, holders: list[Any]) -> None:
        self._known: set[bytes] = set()
        for tensor in _tensors(holders):
            self._known |= set(_rows(tensor.flatten(1).numpy()))
        self._widths = {len(row) for row in self._known}

    def within(self, start: object) -> set[bytes]:
        """Those that an object leads to: as rows of a tensor or array, as one of their own, or as plain bytes."""
        found = set()
        for thing in _reachable(start):
            if isinstance(thing, torch.Tensor):
                thing = thing.detach().numpy()
            if isinstance(thing, np.ndarray):
                content = np.ascontiguousarray(thing).tobytes()
            elif isinstance(thing, bytes):
                content = thing
            else:
                continue
            for width in self._widths:
                if len(content) % width == 0:
                    parts = {content[place : place + width] for place in range(0, len(content), width)}
                    found |= parts & self._known
        return found


def _rows(array: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in array]


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other)


def _tensors(item: object) -> list[torch.Tensor]:
    if isinstance(item, torch.Tensor):
        return [item]
    if isinstance(item, PixelView):
        return _tensors(item.images)
    if isinstance(item, View):
        return _tensors([item.final, *item.layers.values(), *item.turned.values(), item.images])
    return [tensor for part in item for tensor in _tensors(part)] if isinstance(item, list | tuple) else []


def _reachable(start: object) -> Iterator[object]:
    """Everything that an object leads to, but for code, modules and the network that every session brings along."""
    network = tiny_network().classifier
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or thing is network or isinstance(thing, type | types.ModuleType | types.CodeType):
            continue
        seen.add(id(thing))
        yield thing
        if isinstance(thing, types.FunctionType):
            waiting += [cell.cell_contents for cell in thing.__closure__ or ()]
        else:
            waiting += gc.get_referents(thing)
