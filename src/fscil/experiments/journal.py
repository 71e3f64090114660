"""What goes on in a run, number by number, for whoever watches or draws it.

    OUT/log/numbers.csv      part, step, name, value: always
    OUT/log/numbers.jsonl    the same, a line for every step: always
    OUT/log/tensorboard/PART, OUT/log/mlflow.db, OUT/log/wandb     with `--log tensorboard,mlflow,wandb`

A part is what other tools call a run: the base training (`base`), a method on a draw (`yourself/shots-0`). What was
killed and goes on writes some steps again, and the last line of a step counts; MLflow and W&B know the part again.
Nothing leaves the machine unless MLFLOW_TRACKING_URI names a server or WANDB_MODE is `online`.
"""

import csv
import importlib.util
import io
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.core.storage import write_text
from fscil.metrics import aacc_per_session, base_acc_per_session, gacc_grid_per_session, novel_acc_per_session

_TITLES = {"tensorboard": "TensorBoard", "mlflow": "MLflow", "wandb": "Weights & Biases"}


class Service(Protocol):
    """What all of them understand, as Lightning's loggers have it."""

    def log_hyperparams(self, params: dict[str, Any]) -> None: ...
    def log_metrics(self, metrics: Mapping[str, float], step: int) -> None: ...
    def finalize(self, status: str) -> None: ...


def check_services(names: Sequence[str]) -> None:
    """Refuse what is not installed before anything is done."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise InputError(f"{_TITLES[name]} is not installed; get it with: pip install 'fscil[{name}]'.")


@dataclass(frozen=True)
class Journal:
    """Of one output folder."""

    folder: Path
    services: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_services(self.services)

    def clear(self) -> None:
        """For a run that starts over: nothing is a continuation of what was before."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def part(self, name: str, settings: Mapping[str, Any]) -> "Part":
        return Part(name, self.folder, self.services, settings, f"{self._token()}-{re.sub(r'[^a-z0-9-]', '-', name)}")

    def _token(self) -> str:
        """Names this folder elsewhere, wherever it is moved."""
        file = self.folder / "id"
        if not file.exists():
            write_text(file, secrets.token_hex(6))
        return file.read_text(encoding="utf-8")


@dataclass
class Part:
    """Takes numbers of a part; it can be sent to another process, which then opens the services for itself."""

    name: str
    folder: Path
    services: tuple[str, ...]
    settings: Mapping[str, Any]
    key: str
    _opened: list[Service] = field(default_factory=list)

    def __call__(self, step: int, values: Mapping[str, float | None]) -> None:
        found = {name: float(value) for name, value in values.items() if value is not None}
        self._write(step, found)
        if len(self._opened) < len(self.services):
            self._opened = [_OPEN[service](self) for service in self.services]
            for each in self._opened:
                each.log_hyperparams(dict(self.settings))
        for each in self._opened:
            each.log_metrics(found, step=step)

    def close(self) -> None:
        for each in self._opened:
            each.finalize("success")
        self._opened = []

    def __enter__(self) -> "Part":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": []}

    def _write(self, step: int, values: Mapping[str, float]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        rows = io.StringIO()
        csv.writer(rows, lineterminator="\n").writerows([self.name, step, *item] for item in values.items())
        _append(self.folder / "numbers.csv", rows.getvalue(), heading="part,step,name,value\n")
        _append(self.folder / "numbers.jsonl", json.dumps({"part": self.name, "step": step, **values}) + "\n")


def _append(path: Path, text: str, heading: str = "") -> None:
    """In one piece, so that lines of two processes do not mix."""
    with open(path, "ab") as file:
        file.write((("" if file.tell() else heading) + text).encode())


def accuracies(document: Mapping[str, Any]) -> list[dict[str, float | None]]:
    """Of a result.json, session by session, in percent."""
    matrix = AccuracyMatrix.from_lists(document["matrix"], document["classes"], document["test_counts"])
    scores = {
        "acc/all": aacc_per_session(matrix),
        "acc/base": base_acc_per_session(matrix),
        "acc/novel": novel_acc_per_session(matrix),
        "gacc": gacc_grid_per_session(matrix),
    }
    return [dict(zip(scores, row, strict=True)) for row in zip(*scores.values(), strict=True)]


def _tensorboard(part: Part) -> Service:
    from lightning.fabric.loggers import TensorBoardLogger

    folder = part.folder / "tensorboard"
    logger: Service = TensorBoardLogger(folder, name=part.name, version="", default_hp_metric=False)
    return logger


def _mlflow(part: Part) -> Service:
    from lightning.pytorch.loggers import MLFlowLogger
    from mlflow.tracking import MlflowClient

    place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(part.folder / 'mlflow.db').resolve()}"
    client = MlflowClient(place)
    experiment = client.get_experiment_by_name("fscil")
    ours = f"tags.`fscil.key` = '{part.key}'"
    runs = client.search_runs([experiment.experiment_id], ours) if experiment else []
    before = runs[0].info.run_id if runs else None
    logger: Service = MLFlowLogger(
        "fscil", run_name=part.name, tracking_uri=place, tags={"fscil.key": part.key}, run_id=before
    )
    return logger


def _wandb(part: Part) -> Service:
    from lightning.pytorch.loggers import WandbLogger

    offline = os.environ.get("WANDB_MODE") != "online"
    project = os.environ.get("WANDB_PROJECT", "fscil")

    class Finished(WandbLogger):
        def finalize(self, status: str) -> None:
            """Else the next part would be taken for the same run."""
            super().finalize(status)
            self.experiment.finish()

    logger: Service = Finished(name=part.name, id=part.key, save_dir=part.folder, offline=offline, project=project)
    return logger


_OPEN: dict[str, Callable[[Part], Service]] = {"tensorboard": _tensorboard, "mlflow": _mlflow, "wandb": _wandb}
