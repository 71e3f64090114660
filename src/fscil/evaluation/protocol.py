"""Runs a method over the sessions of a benchmark and fills the accuracy matrix.

The only place where learning and test images meet. A method is handed one session at a time, with what it
declared to need and nothing more; it is asked for scores of test features, never for or with their labels.
Accuracy is counted correct over counted total, in the joint label space of all classes seen so far.
"""

import copy
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fscil.core.answers import Answers, count_answers
from fscil.core.hardware import clock
from fscil.core.matrix import AccuracyMatrix
from fscil.data.benchmark import Benchmark, Exam
from fscil.data.fantasy import Transform
from fscil.data.session import PixelView, Session, View
from fscil.evaluation.asking import asked, left_alone
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.fits import BaseFits, Course, DrawState, learn_base
from fscil.evaluation.kept_images import KeptImages
from fscil.methods import Method
from fscil.training.checkpoint import Checkpoint, tensors_sha256

CHUNK = 1000  # test images that a method is shown at once


@dataclass(frozen=True)
class Outcome:
    """What a run of one method on one draw of shots leaves behind."""

    matrix: AccuracyMatrix
    seconds: float  # learning and scoring all sessions, without the features
    variants: dict[str, AccuracyMatrix] = field(default_factory=dict)  # parts of the method alone, by label
    base_peak_mb: int = 0  # of memory while the base session was learned, in this draw or in an earlier one
    kept_images: int = 0  # most that the protocol held for the method between two sessions
    answers: Answers | None = None  # after the last session, class by class


class Examiner:
    """Holds the test images and their labels; a method gets neither accuracies nor labels from it.

    After a session a method is shown all test images of the classes seen, shuffled together, in chunks of one size, as
    copies. So neither the place of an image, nor the size of a chunk, nor what came before it says anything about its
    class. The order is a function of those images and of the seed; a method knows the seed, but has no way to hash
    images that it gets shuffled. What it is asked is a copy of it, made for that chunk (`evaluation/asking.py`).
    """

    def __init__(
        self,
        benchmark: Benchmark,
        cache: FeatureCache,
        method: Method,
        device: torch.device,
        network: Checkpoint | None = None,
        seed: int = 0,
    ) -> None:
        exams = [benchmark.exam(index) for index in range(benchmark.novel_sessions + 1)]
        images = torch.cat([exam.images for exam in exams])
        if "tunes" in method.needs:
            view: View = PixelView(images)
        else:
            blocks, transforms = method.blocks(cache.backbone.depth), _transforms(method, network)
            view = View.joined([cache.get(exam.images, blocks, transforms) for exam in exams])
            if "images" in method.needs:
                view = dataclasses.replace(view, images=images)
        self._view, self._labels = view.to(device), torch.cat([exam.labels for exam in exams])
        self.test_counts = tuple(len(exam.labels) for exam in exams)
        self._classes, self._class_names = benchmark.classes, benchmark.class_names
        self._orders = _orders(exams, seed)

    def shown(self, after: int) -> Iterator[tuple[Tensor, View]]:
        """Chunks of the images that are seen after a session: where they stand here, and what a method gets."""
        for rows in self._orders[after].split(CHUNK):
            yield rows, self._view[rows.to(self._view.device)]  # indexing with a tensor copies

    def named(self, after: int, method: Method, variant: str = "") -> Tensor:
        """The class that a method, or a part of it, names for every test image of sessions 0..after, class by class."""
        seen = sum(self._classes[: after + 1])
        named = torch.zeros(sum(self.test_counts[: after + 1]), dtype=torch.int64)
        for rows, view in self.shown(after):
            wanted = (len(view), seen)
            with asked(method, variant) as scorer:
                scores = scorer(view)
            if scores.shape != wanted or not torch.isfinite(scores).all():
                raise ValueError(
                    f"After session {after} a method must give finite scores of shape {wanted}; "
                    f"got {tuple(scores.shape)}."
                )
            named[rows] = scores.argmax(1).cpu()
        return named

    def row(self, after: int, named: Tensor) -> list[float]:
        """Accuracies in percent on sessions 0..after."""
        right = named == self._labels[: len(named)]
        return [100 * int(part.sum()) / len(part) for part in right.split(self.test_counts[: after + 1])]

    def answers(self, named: Tensor) -> Answers:
        """What was named for what, of images of all classes."""
        return count_answers(self._class_names, self._labels.numpy(), named.numpy())


def _orders(exams: Sequence[Exam], seed: int) -> list[Tensor]:
    """For every session another order of the images seen by then; images of later sessions have no say in it."""
    hashed, count, orders = hashlib.sha256(str(seed).encode()), 0, []
    for exam in exams:
        hashed.update(exam.images.numpy().tobytes())
        count += len(exam.labels)
        shuffled = np.random.default_rng(int.from_bytes(hashed.digest())).permutation(count)
        orders.append(torch.from_numpy(shuffled))
    return orders


def _transforms(method: Method, network: Checkpoint | None, *, base: bool = False) -> tuple[Transform, ...]:
    return method.transforms(network.info["classes"], network.extras, base=base) if network else ()


def run_method(
    method: Method,
    benchmark: Benchmark,
    cache: FeatureCache,
    *,
    seed: int = 0,
    device: torch.device | None = None,
    network: Checkpoint | None = None,
    progress: Callable[[int, int], None] | None = None,
    fits: BaseFits | None = None,
    under_way: DrawState | None = None,
) -> Outcome:
    """Learn every session in order; after each, test on all classes seen so far.

    `network` is where the features come from; a method may also use its head and what its training learned besides.
    `fits` keep what was learned of the base session for other draws, or have it from one. `under_way` is where a method
    that tunes leaves its state after every session, and goes on from if it was killed.

    Examples:
        On a network as it starts, so that this takes a second; `train.epochs` of the recipe would train it.

        >>> import fscil, tempfile
        >>> config = fscil.load_config("digits", ["train.epochs=0", "train.compile=off"])
        >>> benchmark = fscil.load_benchmark(config.data)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     network = fscil.train_base(benchmark.session(0), config, folder)
        >>> outcome = run_method(fscil.make_method("prototypes"), benchmark, fscil.FeatureCache(None, network.backbone))
        >>> outcome.matrix.classes, [len(row) for row in outcome.matrix.to_lists()]
        ((6, 2, 2), [1, 2, 3])
        >>> 0 < fscil.summary(outcome.matrix)["gacc_grid"] < 100
        True
    """
    device = device or torch.device("cpu")
    before = _shared_sha256(cache, network)
    examiner = Examiner(benchmark, cache, method, device, network, seed)
    count = benchmark.novel_sessions + 1

    def session(index: int) -> Session:
        return prepare(benchmark.session(index), method, cache, device, network)

    novel = [session(index) for index in range(1, count)]
    method.start(seed=seed, depth=cache.backbone.depth, device=device)
    kept = KeptImages(method, benchmark.session, device)
    course = (under_way and under_way.load(kept, device)) or Course()
    named, now = torch.empty(0), clock(device)
    for index in range(len(course.rows), count):  # the last one is never done before
        started = now()
        if index:
            kept.learn(novel[index - 1])
        else:
            base = fits.learn(kept, lambda: session(0), device) if fits else learn_base(kept, session(0), device)
            course.peak_mb, started = base.peak_memory_mb, now() - base.seconds
        course.seconds += now() - started
        with left_alone(method):
            started = now()
            named = examiner.named(index, method)
            course.rows.append(examiner.row(index, named))
            course.seconds += now() - started
            for label in method.variants():
                course.variants.setdefault(label, []).append(examiner.row(index, examiner.named(index, method, label)))
        if under_way and index + 1 < count:
            under_way.save(kept, course)
        if progress:
            progress(index + 1, count)
    if _shared_sha256(cache, network) != before:
        raise RuntimeError(
            f"{method.title} changed the network that all methods share; its accuracies are not stored. A method that "
            f"tunes changes the copy that it gets as session.network."
        )

    def matrix(lists: Sequence[Sequence[float]]) -> AccuracyMatrix:
        return AccuracyMatrix.from_lists(lists, benchmark.classes, examiner.test_counts)

    parts = {label: matrix(lists) for label, lists in course.variants.items()}
    return Outcome(matrix(course.rows), course.seconds, parts, course.peak_mb, kept.most, examiner.answers(named))


def _shared_sha256(cache: FeatureCache, network: Checkpoint | None) -> str:
    """Of all that methods are handed copies of."""
    cache.check()
    return tensors_sha256({**network.classifier.state_dict(), **network.extras}) if network else ""


def prepare(
    session: Session,
    method: Method,
    cache: FeatureCache,
    device: torch.device,
    network: Checkpoint | None = None,
) -> Session:
    """A session as a method gets it: features attached, pixels and network only where the method needs them.

    The network, its head and what else it learned are copies: whatever a method does to them, features and the next
    method see the network that was trained.
    """
    assert session.images is not None
    base = session.index == 0 and network is not None
    if tunes := "tunes" in method.needs:
        view: View = PixelView(session.images)
    else:
        transforms = _transforms(method, network, base=session.index == 0)
        view = cache.get(session.images, method.blocks(cache.backbone.depth), transforms)
    weights, extras = (network.class_weights, network.extras) if base and network else (None, {})
    wanted = base if tunes else "backbone" in method.needs
    return dataclasses.replace(
        session,
        view=view.to(device),
        labels=session.labels.to(device),
        images=session.images.to(device) if tunes or "images" in method.needs else None,
        head=weights.to(device, copy=True) if weights is not None else None,
        extras={name: value.to(device, copy=True) for name, value in extras.items()},
        network=copy.deepcopy(network.classifier).to(device) if network and wanted else None,
    )
