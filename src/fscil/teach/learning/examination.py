"""A test folder, one sub-folder per class: accuracy per class, and base against novel classes as in the benchmark.

The base classes are those taught first: the first half of the classes, or as many as the user says. The others come in
up to ten sessions, in the order they were taught. What a project knows does not depend on the order of teaching, so the
accuracy after each session is that of the project without the classes that came later.
"""

from pathlib import Path

import numpy as np

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import summary
from fscil.teach.learning.encoder import Encoder
from fscil.teach.learning.knowledge import Knowledge
from fscil.teach.learning.snapshot import Snapshot
from fscil.teach.project import files
from fscil.teach.project.limits import class_name
from fscil.teach.project.pictures import read_all
from fscil.teach.project.records import ClassAccuracy, FolderResult, Skipped

SESSIONS = 10  # at most, of novel classes


def examine(snapshot: Snapshot, encoder: Encoder, folder: Path, base: int | None) -> FolderResult:
    names = snapshot.knowledge.names
    vectors, labels, skipped = _read(encoder, folder, names)
    known = labels >= 0
    if not known.any():
        raise InputError(
            f"{folder} has no images of the project's classes; name its folders like them: {', '.join(names[:5])} ..."
        )
    answers = snapshot.probabilities(vectors).argmax(1)
    unknown = len(names)
    matrix, base_classes = _matrix(snapshot, vectors[known], labels[known], base)
    measured = summary(matrix) if matrix is not None else None
    return FolderResult(
        accuracy=100 * float((answers == labels)[known].mean()),
        called_unknown=100 * float((answers[known] == unknown).mean()),
        rejected=100 * float((answers[~known] == unknown).mean()) if (~known).any() else None,
        classes=[
            ClassAccuracy(name, int((answers[labels == label] == label).sum()), int((labels == label).sum()))
            for label, name in enumerate(names)
            if (labels == label).any()
        ],
        base_classes=base_classes,
        base=float(matrix.values[-1, 0]) if matrix is not None else None,
        novel=float(np.average(matrix.values[-1, 1:], weights=matrix.test_counts[1:])) if matrix is not None else None,
        gacc_grid=measured["gacc_grid"] if measured else None,
        gacc_exact=measured["gacc_exact"] if measured else None,
        skipped=skipped,
    )


def _read(encoder: Encoder, folder: Path, names: list[str]) -> tuple[np.ndarray, np.ndarray, list[Skipped]]:
    """Vectors of all images and the column of their class; -1 for a class that was never taught."""
    parts, labels, skipped = [], [], []
    column = {name: label for label, name in enumerate(names)}
    for sub in files.class_folders(folder):
        try:
            label = column.get(class_name(sub.name), -1)
        except InputError:  # such as a folder that is called "unknown"
            label = -1
        for item in read_all(files.images_in(sub), encoder.reference.image_size, keep=False):
            if isinstance(item, Skipped):
                skipped.append(item)
            else:
                parts.append(item.pixels)
                labels.append(label)
    return encoder.embed(parts), np.array(labels, dtype=np.int64), skipped


def _matrix(
    snapshot: Snapshot, vectors: np.ndarray, labels: np.ndarray, base: int | None
) -> tuple[AccuracyMatrix | None, int]:
    """None where there are no two sessions to tell apart."""
    tested = np.unique(labels)
    count = (len(tested) + 1) // 2 if base is None else base
    if base is not None and not 1 <= base < len(tested):
        raise InputError(f"There are test images of {len(tested)} classes; give a number of base classes below that.")
    if len(tested) < 2:
        return None, len(tested)
    novel = tested[count:]
    groups = [tested[:count], *np.array_split(novel, min(SESSIONS, len(novel)))]
    rows, memories = [], snapshot.knowledge.memories
    for at, group in enumerate(groups):
        # Classes without test images are learned in the session of the next one that has some.
        learned = group[-1] + 1 if at < len(groups) - 1 else len(memories)
        part = Knowledge(memories[:learned], snapshot.knowledge.space)
        right = snapshot.head_of(part).probabilities(vectors).argmax(1) == labels
        rows.append([100 * float(right[np.isin(labels, seen)].mean()) for seen in groups[: at + 1]])
    counts = [int(np.isin(labels, group).sum()) for group in groups]
    return AccuracyMatrix.from_lists(rows, [len(group) for group in groups], counts), count
