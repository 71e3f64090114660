"""The work of a bench: base trainings and cells. Each leaves a file, and what has left one is not done again."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from fscil import methods
from fscil.core.config import to_dict
from fscil.core.errors import InputError
from fscil.core.hardware import pick_device
from fscil.core.progress import Reporter
from fscil.core.storage import read_json, write_json, write_text
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import run_method
from fscil.evaluation.writer import make_result
from fscil.experiments.bench.memory import forget_peak, peak_mb
from fscil.experiments.bench.plan import Cell, Training
from fscil.experiments.run import Run
from fscil.training.checkpoint import Checkpoint


@dataclass(frozen=True)
class Failure:
    """Why something could not be done, in a sentence."""

    sentence: str
    input: bool  # the user's to fix (or the method's limit), not a fault of the program


class Workplace:
    """One network with its data, opened once for all its cells."""

    def __init__(self, training: Training, reporter: Reporter, fresh: bool = False) -> None:
        self.training, self.reporter = training, reporter
        self.run = Run(training.config, training.folder, reporter)
        self.run.device, self.run.fresh = pick_device(training.config.accelerator), fresh
        self._network: Checkpoint | None = None
        self._cache: FeatureCache | None = None

    def train(self) -> Checkpoint:
        """Base training, or the network that is there already."""
        if self._network is None:
            given = self.training.checkpoint
            write_json(self.training.folder / "config.json", to_dict(self.training.config))
            self._network = self.run.train() if given is None else self.run.use_checkpoint(given)
            self.run.fresh = False
        return self._network

    def learn(self, cell: Cell) -> None:
        """Take a method through all sessions of one draw."""
        method = methods.make(cell.method, cell.config.options.get(cell.method))
        run, network = self.run, self.train()
        if self._cache is None:
            self._cache = run.cache()
        forget_peak(run.device)
        with self.reporter.task(f"{method.title}, draw {cell.draw}") as update:
            outcome = run_method(
                method,
                run.benchmark.draw(cell.draw),
                self._cache,
                seed=cell.config.seed,
                device=run.device,
                network=network,
                progress=update,
            )
        result = make_result(
            cell.config,
            method,
            outcome,
            dataset=run.benchmark.name,
            shots_seed=cell.draw,
            device=run.device,
            base=network.info,
        )
        result["cost"] = {
            "network_parameters": sum(p.numel() for p in network.backbone.parameters()),
            "kept_numbers": count_numbers(method.state_dict()),
            "peak_memory_mb": peak_mb(run.device),
        }
        write_json(cell.path, result)


def is_done(cell: Cell) -> bool:
    """Whether the cell's file is there, whole, and made with the same options."""
    method = methods.make(cell.method, cell.config.options.get(cell.method))
    try:
        stored = read_json(cell.path)
        options = to_dict(replace(cell.config, options={method.name: method.options()}))["options"]
        return stored["config"]["options"] == options and "cost" in stored
    except (InputError, KeyError, TypeError):
        return False


def count_numbers(state: Any) -> int:
    """Numbers in what a method keeps: tensors, modules, and whatever holds them."""
    if isinstance(state, Tensor):
        return state.numel()
    if isinstance(state, nn.Module):
        return count_numbers(dict(state.state_dict()))
    if isinstance(state, Mapping):
        return sum(count_numbers(value) for value in state.values())
    if isinstance(state, list | tuple):
        return sum(count_numbers(value) for value in state)
    return 0


def attempt_training(place: Workplace) -> Failure | None:
    try:
        place.train()
    except InputError as error:
        return Failure(str(error), input=True)
    except Exception as error:  # one method's fault must not cost the others their night
        return _crash(place.training, place.training.key, error)
    return None


def attempt_cell(place: Workplace, cell: Cell) -> Failure | None:
    try:
        place.learn(cell)
    except InputError as error:
        return Failure(str(error), input=True)
    except Exception as error:
        return _crash(cell.training, cell.method, error)
    finally:
        if place.run.device.type == "cuda":
            torch.cuda.empty_cache()  # the next method's peak is its own
    return None


def _crash(training: Training, name: str, error: Exception) -> Failure:
    path = training.folder / f"{name}-error.txt"
    write_text(path, "".join(traceback.format_exception(error)))
    words = " ".join(str(error).split())[:200]
    return Failure(f"{type(error).__name__}: {words} ({path})", input=False)
