"""Lists that say which images come in which session, by their names in the original archive.

`data.shots=published` takes those of Tao et al. (CVPR 2020), which come with the package: rows of CIFAR-100's training
array, file names of CUB-200-2011 and miniImageNet. `data.session_lists` names a folder of lists in the same form:
session_2.txt, session_3.txt, ... with a row or a file name per line, and maybe session_1.txt, the base session.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.data.dataset import Dataset
from fscil.data.images import SUFFIXES

PUBLISHED = ("cifar100", "cub200", "miniimagenet")


def stem(name: str) -> str:
    """A file's name without its folders and endings: a copy in another format has the same images."""
    name = name.rpartition("/")[2]
    while name.lower().endswith(SUFFIXES):
        name = name.rpartition(".")[0]
    return name


def read_published(dataset: str) -> dict[str, Any]:
    """What is published of a data set: its few-shot sessions, and whatever else makes its split."""
    file = resources.files("fscil.data") / "published" / f"{dataset}.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def session_lists(config: DataConfig, dataset: Dataset) -> list[np.ndarray] | None:
    """Training rows per novel session, checked against the protocol; None where shots are drawn."""
    if not config.fixed_shots:
        return None
    if config.session_lists and config.shots:
        raise InputError(
            f"data.session_lists and data.shots={config.shots} both choose the shots; leave one of them empty."
        )
    chosen = "data.session_lists" if config.session_lists else "data.shots=published"
    if config.order_seed >= 0:
        raise InputError(f"{chosen} follows the natural class order; set data.order_seed=-1 to use it.")
    if not config.session_lists and dataset.name not in PUBLISHED:
        raise InputError(f"There are no published shots for {dataset.name}, only for {', '.join(PUBLISHED)}.")
    if not dataset.train.names:
        raise InputError(
            f"{dataset.name} does not say which images of the original archive it has, which {chosen} goes by; load "
            f"the original (data.name={', '.join(PUBLISHED[:-1])} or {PUBLISHED[-1]}), or leave the key empty for "
            f"seeded draws."
        )
    lists = _Lists(config, dataset)
    return lists.folder(Path(config.session_lists).expanduser()) if config.session_lists else lists.published()


class _Lists:
    """Names become rows, and every list is held to the protocol."""

    def __init__(self, config: DataConfig, dataset: Dataset) -> None:
        self.config, self.dataset = config, dataset
        self.rows = _rows_by_name(dataset.train.names)
        self.sessions = config.sessions or (len(dataset.class_names) - config.base) // config.way

    def published(self) -> list[np.ndarray]:
        lists = read_published(self.dataset.name)["sessions"]
        if len(lists) < self.sessions:
            raise InputError(
                f"{len(lists)} sessions of {self.dataset.name} are published, fewer than {self.sessions}; set "
                f"data.sessions, data.base and data.way as its recipe does."
            )
        return [
            self._novel(f"The published session {index}", [str(name) for name in names], index)
            for index, names in enumerate(lists[: self.sessions], start=1)
        ]

    def folder(self, folder: Path) -> list[np.ndarray]:
        base_list = folder / "session_1.txt"
        if base_list.exists():
            self._check_base(base_list)
        paths = {index: folder / f"session_{index + 1}.txt" for index in range(1, self.sessions + 1)}
        return [self._novel(str(path), _lines(path), index) for index, path in paths.items()]

    def _check_base(self, path: Path) -> None:
        rows = self._rows(str(path), _lines(path))
        wanted = np.flatnonzero(self.dataset.train.labels < self.config.base)
        if not np.array_equal(np.sort(rows), wanted):
            raise InputError(
                f"{path} does not list exactly the {len(wanted)} training images of the first {self.config.base} "
                f"classes; check data.base and that the list belongs to {self.dataset.name}."
            )

    def _novel(self, where: str, names: Sequence[str], index: int) -> np.ndarray:
        config, class_names = self.config, self.dataset.class_names
        rows = self._rows(where, names)
        if len(rows) != config.way * config.shot:
            raise InputError(
                f"{where} lists {len(rows)} images, not {config.way * config.shot} ({config.way} classes of "
                f"{config.shot}); use the published list, or set data.way and data.shot to fit."
            )
        first = config.base + config.way * (index - 1)
        labels = self.dataset.train.labels[rows]
        for row, label in zip(rows, labels, strict=True):
            if not first <= label < first + config.way:
                raise InputError(
                    f"{where} lists image {self.dataset.train.names[row]} of class '{class_names[label]}' (label "
                    f"{label}), but this session has the classes {first} to {first + config.way - 1}; check "
                    f"data.base, data.way and the list."
                )
        for label in range(first, first + config.way):
            count = int((labels == label).sum())
            if count != config.shot:
                raise InputError(
                    f"{where} lists {count} images of class '{class_names[label]}', not {config.shot}; use the "
                    f"published list."
                )
        return rows

    def _rows(self, where: str, names: Sequence[str]) -> np.ndarray:
        """A list's rows, none of them twice."""
        found: dict[int, str] = {}
        for name in names:
            row = self.rows.get(_with_folder(name), self.rows.get(stem(name)))
            if row is None:
                raise InputError(
                    f"{where} lists '{name:.80}', which is no training image of {self.dataset.name} (they are called "
                    f"{self.dataset.train.names[0]} and so on); check that both are of the same data set and whole."
                )
            if row in found:
                raise InputError(f"{where} lists image {name} twice; remove one and put the missing image.")
            found[row] = name
        return np.array(list(found), dtype=np.int64)


def _rows_by_name(names: Sequence[str]) -> dict[str, int | None]:
    """By stem, and by folder and stem; a name that several images have is nobody's."""
    found: dict[str, int | None] = {}
    for row, name in enumerate(names):
        for key in {stem(name), _with_folder(name)}:
            found[key] = None if key in found else row
    return found


def _with_folder(name: str) -> str:
    return "/".join([*name.split("/")[-2:-1], stem(name)])


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except FileNotFoundError:
        raise InputError(
            f"{path} does not exist; data.session_lists must be a folder with one session_N.txt per session."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text ({error}); check data.session_lists.") from None
