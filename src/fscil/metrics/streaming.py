"""The accuracy matrix filled batch by batch: a torchmetrics Metric that holds counts, so it sums over processes."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.metrics.balance import grid_steps
from fscil.metrics.summary import Summary, summary


class IncrementalAccuracy(Metric):
    """Counts correct and tested images per pair of sessions; `compute` gives every metric of the resulting matrix.

    Class ids follow the class order: with `classes=(60, 5, ...)` ids 0-59 are base, 60-64 session 1, and so on.
    Call `update` with every test image of the classes seen so far, after each session, and never `reset` in between.

    Examples:
        Two base classes, then one new class; two test images of each.

        >>> import torch
        >>> metric = IncrementalAccuracy([2, 1])
        >>> metric.update(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 1, 1]), session=0)
        >>> metric.update(torch.tensor([0, 0, 1, 2, 2, 1]), torch.tensor([0, 0, 1, 1, 2, 2]), session=1)
        >>> metric.matrix().to_lists()
        [[100.0], [75.0, 50.0]]
        >>> round(metric.compute()["aacc"], 2)
        83.33
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = True

    correct: Tensor  # (T, T) [after session, of session]
    total: Tensor

    def __init__(self, classes: Sequence[int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not classes or min(classes) < 1:
            raise InputError(f"Class counts must be positive, one per session, base first; got {list(classes)}.")
        self.classes = tuple(int(count) for count in classes)
        self._ends = tuple(accumulate(self.classes))  # the first class id after each session
        for name in ("correct", "total"):
            # Persistent: a run resumed from a checkpoint must not silently average over fewer sessions.
            state = torch.zeros(len(classes), len(classes), dtype=torch.int64)
            self.add_state(name, state, dist_reduce_fx="sum", persistent=True)

    def update(self, preds: Tensor, targets: Tensor, session: int) -> None:
        """Count one batch of test images after learning `session` (0 is the base session).

        `preds` are class ids (n,) or scores (n, classes); `targets` are class ids (n,) of classes seen so far.
        """
        if not 0 <= session < len(self.classes):
            raise InputError(f"Session {session} does not exist; give 0 (base) to {len(self.classes) - 1}.")
        predicted = _class_ids(preds, targets)
        if not targets.numel():
            return  # a process may run out of images before the others
        if targets.min() < 0 or targets.max() >= self._ends[session]:
            raise InputError(
                f"Targets {int(targets.min())} to {int(targets.max())} after session {session}, when only classes "
                f"0 to {self._ends[session] - 1} are learned; test on the classes seen so far, numbered in class order."
            )
        of_session = torch.bucketize(targets, torch.tensor(self._ends, device=targets.device), right=True)
        self.total[session] += torch.bincount(of_session, minlength=len(self.classes))
        self.correct[session] += torch.bincount(of_session[predicted == targets], minlength=len(self.classes))

    def forward(self, *args: Any, **kwargs: Any) -> None:
        """Same as `update`: one batch alone has no accuracy matrix, hence no batch value to return."""
        self.update(*args, **kwargs)

    def matrix(self) -> AccuracyMatrix:
        """The matrix of the sessions tested so far, summed over all processes (which must all call this)."""
        with self.sync_context(dist_sync_fn=self.dist_sync_fn, should_sync=self.sync_on_compute):
            correct, total = self.correct.clone(), self.total.clone()
        return _matrix(correct, total, self.classes)

    def compute(self) -> Summary:
        """The metrics of `matrix()`, see `fscil.metrics.summary`."""
        try:
            # The grid of the whole class plan: a session's gAcc stays what it was when later sessions arrive.
            return summary(_matrix(self.correct, self.total, self.classes), steps=grid_steps(self.classes))
        except InputError:
            # torchmetrics restores this process's own counts only on success; without them nothing could be added.
            if self._is_synced:
                self.unsync()
            raise


def _class_ids(preds: Tensor, targets: Tensor) -> Tensor:
    """Predicted ids, one per target, from ids or scores."""
    if targets.ndim != 1 or targets.is_floating_point() or targets.dtype == torch.bool:
        raise InputError(f"Targets must be whole class ids of shape (n,); got {targets.dtype} {tuple(targets.shape)}.")
    if preds.ndim not in (1, 2) or len(preds) != len(targets):
        raise InputError(
            f"Predictions of shape {tuple(preds.shape)} for {len(targets)} targets; "
            f"give ids (n,) or scores (n, classes)."
        )
    if preds.ndim == 2:
        if preds.shape[1] == 0 or preds.isnan().any():
            raise InputError("Scores are empty or NaN; argmax would pick a class at random, so check the method.")
        return preds.argmax(dim=1)
    if preds.is_floating_point() or preds.dtype == torch.bool:
        raise InputError(
            f"Predictions of shape (n,) must be whole class ids; got {preds.dtype}: give scores as (n, classes)."
        )
    return preds


def _matrix(correct: Tensor, total: Tensor, classes: tuple[int, ...]) -> AccuracyMatrix:
    """Percentages of the sessions tested so far, which must be gapless and all on the same test images."""
    hits, tested = correct.cpu().numpy(), total.cpu().numpy()
    sessions = int(np.count_nonzero(tested.any(axis=1)))
    if not sessions:
        raise InputError("No test image was counted yet; call update before compute.")
    values = np.full((sessions, sessions), np.nan)
    for i in range(sessions):
        for j in range(i + 1):
            if not tested[i, j]:
                raise InputError(
                    f"After session {i} no image of session {j}'s classes was tested; "
                    f"update with all classes seen so far."
                )
            # Unequal counts mean that images were skipped, repeated or padded: such rows are not comparable.
            if tested[i, j] != tested[j, j]:
                raise InputError(
                    f"{tested[j, j]} images of session {j}'s classes were tested after session {j} but "
                    f"{tested[i, j]} after session {i}; test on the same images each time (a distributed sampler "
                    f"must not pad)."
                )
            values[i, j] = 100.0 * hits[i, j] / tested[i, j]
    return AccuracyMatrix(values, classes[:sessions], tuple(int(n) for n in tested.diagonal()[:sessions]))
