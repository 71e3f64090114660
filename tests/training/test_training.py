"""Base training: it learns, repeats bit for bit, continues exactly, and shares a batch among processes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import Process, fscil

from fscil.cli import main as cli
from fscil.core import config as configs
from fscil.core.config import Config
from fscil.core.errors import InputError
from fscil.core.hardware import make_fabric
from fscil.data import load_benchmark
from fscil.data.session import Session
from fscil.training.checkpoint import load_classifier, read_info, read_tensors, save_tensors
from fscil.training.ema import WeightAverage
from fscil.training.loop import train_base
from fscil.training.optimizer import learning_rate
from fscil.training.trainer import Trainer


def digits(*overrides: str) -> Config:
    return configs.load("digits", ["train.epochs=3", "train.augment.mixup=0.8", "train.augment.cutmix=1.0", *overrides])


@pytest.fixture(scope="module")
def session() -> Session:
    return load_benchmark(digits().data).session(0)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / "backbone.safetensors")[0]


def test_loss_falls_and_the_network_knows_its_classes(session: Session, tmp_path: Path) -> None:
    checkpoint = train_base(session, configs.load("digits", ["train.epochs=10"]), tmp_path)
    losses = checkpoint.info["losses"]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    assert session.images is not None
    predicted = checkpoint.classifier(session.images).argmax(1)
    assert (predicted == session.labels).float().mean() > 0.9


def test_same_seed_same_weights_other_seed_other_weights(session: Session, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train_base(session, digits(f"seed={seed}"), tmp_path / name)
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert not torch.equal(a["head.weight"], c["head.weight"])


def test_training_cut_at_any_step_continues_to_the_same_weights(session: Session, tmp_path: Path) -> None:
    config = digits("train.checkpoint_seconds=0", "backbone.drop_path=0.2")
    train_base(session, config, tmp_path / "whole")

    class CutError(Exception):
        pass

    for stop in (1, 7, 8):

        def cut(done: int, total: int, stop: int = stop) -> None:
            if done == stop:
                raise CutError

        folder = tmp_path / f"cut{stop}"
        with pytest.raises(CutError):
            train_base(session, config, folder, progress=cut)
        train_base(session, config, folder, resume=True)
        assert not (folder / "state.safetensors").exists()
        whole, again = weights(tmp_path / "whole"), weights(folder)
        assert all(torch.equal(whole[key], again[key]) for key in whole)


def test_moments_come_back_in_the_layout_of_their_parameters(session: Session, tmp_path: Path) -> None:
    """A fused update on a GPU, where convolutions lie channels last, refuses any other."""
    config = digits("backbone.kind=resnet20", "train.optimizer=sgd", "train.batch_size=32")

    def trainer() -> Trainer:
        made = Trainer(make_fabric(config), session, config, tmp_path)
        made.plain.to(memory_format=torch.channels_last)
        return made

    first = trainer()
    first.step(0)
    first.save_state()
    again = trainer()
    again.restore()
    state = again.optimizer.optimizer.state
    assert any(parameter.ndim == 4 and not parameter.is_contiguous() for parameter in state)
    assert all(held["momentum_buffer"].stride() == parameter.stride() for parameter, held in state.items())
    before, after = (each.optimizer.state_dict()["state"] for each in (first, again))
    assert all(torch.equal(before[key]["momentum_buffer"], after[key]["momentum_buffer"]) for key in before | after)


class Dying(Session):
    """A session of a training whose processes end, without a word, once the seventh update is stored."""

    def __reduce__(self) -> Any:
        return _dying, (self.index, self.classes, self.images, self.labels)


def _dying(*parts: Any) -> Session:
    save = Trainer.save_state

    def save_and_die(trainer: Trainer) -> None:
        save(trainer)
        if trainer.done == 7:
            os._exit(1)

    Trainer.save_state = save_and_die  # type: ignore[method-assign]  # in a process that was started for this training
    return Session(*parts)


def much_the_same(one: Path, other: Path) -> bool:
    """Sums of another order are rounded otherwise, and a short training makes little of it."""
    a, b = (torch.cat([value.flatten() for _, value in sorted(weights(each).items())]) for each in (one, other))
    return float((a - b).norm() / a.norm()) < 1e-4


JOB = {"JOB_ID": "1", "JOB_NAME": "fscil", "NTASKS": "1", "PROCID": "0", "LOCALID": "0", "NODEID": "0"}


@pytest.mark.slow
def test_two_processes_train_as_one_and_each_goes_on_from_the_other(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a job of slurm, whose one rank they must not all take for theirs."""
    for name, value in {**JOB, "NODELIST": "localhost"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    one = digits("accelerator=cpu", "train.epochs=1", "train.checkpoint_seconds=0")
    two = dataclasses.replace(one, devices=2)
    places = [tmp_path / name for name in ("one", "two", "one-two", "two-one")]
    curves = [train_base(session, c, place).info["losses"] for c, place in zip((one, two), places, strict=False)]
    assert len(curves[0]) == len(curves[1]) > 10
    assert max(abs(a - b) for a, b in zip(*curves, strict=True)) < 1e-3
    assert len(set(curves[0])) > 10
    assert much_the_same(places[0], places[1])

    class CutError(Exception):
        pass

    def cut(done: int, total: int) -> None:
        if done == 8:  # the state is that of the seventh
            raise CutError

    with pytest.raises(CutError):
        train_base(session, one, places[2], progress=cut)
    with pytest.raises(Exception, match="exit code 1"):
        train_base(Dying(session.index, session.classes, session.images, session.labels), two, places[3])
    for config, place in ((two, places[2]), (one, places[3])):
        assert read_info(place / "state.safetensors")["step"] in (7, 8)
        train_base(session, config, place, resume=True)
        assert much_the_same(places[0], place)


def one_of_two(rank: int, port: int) -> int | None:
    """A process as torchrun starts it, alone on its machine."""
    ranks = {"RANK": rank, "GROUP_RANK": rank, "LOCAL_RANK": 0, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 1}
    more = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "none"}
    os.environ.update({name: str(value) for name, value in {**ranks, **more}.items()})
    return cli.main()


def two_machines(out: Path, *words: object) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["train", "digits", "--device", "cpu", "--out", out, *words]
    started = [
        Process(*command, log=out.with_name(f"{out.name}-{rank}"), program=partial(one_of_two, rank, port))
        for rank in (0, 1)
    ]
    done = [each.wait() for each in started]
    assert [each.returncode for each in done] == [0, 0], done
    assert "Trained in" in done[0].stdout
    assert not done[1].stdout  # who leads says it


@pytest.mark.slow
def test_two_machines_train_as_one(session: Session, tmp_path: Path) -> None:
    short = configs.load("digits", ["train.epochs=1", "accelerator=cpu"])
    train_base(session, short, tmp_path / "one")
    words = ["--set", "train.epochs=1"]
    two_machines(tmp_path / "two", *words)
    assert much_the_same(tmp_path / "one", tmp_path / "two" / "base")
    with open(tmp_path / "two" / "log" / "numbers.csv") as file:
        assert len(file.readlines()) == 1 + 2  # a loss and a rate, once
    trained = (tmp_path / "two" / "base" / "backbone.safetensors").read_bytes()
    two_machines(tmp_path / "two", *words, "--resume")  # there is nothing to do, and nobody waits for the other
    assert (tmp_path / "two" / "base" / "backbone.safetensors").read_bytes() == trained


@pytest.fixture(scope="module")
def teacher(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    train_base(session, configs.load("digits", ["train.epochs=8"]), folder)
    return folder


@pytest.mark.parametrize("kind", ["hard", "soft", "zscore"])
def test_a_teacher_can_be_learned_from(session: Session, teacher: Path, tmp_path: Path, kind: str) -> None:
    config = configs.load(
        "digits",
        ["train.epochs=8", f"train.teacher={teacher}", f"train.distill={kind}", "train.distill_weight=1.0"],
    )
    # Ground truth is wrong on purpose: with weight 1 only the teacher can have taught the right classes.
    shuffled = dataclasses.replace(
        session, labels=session.labels[torch.randperm(len(session), generator=torch.Generator().manual_seed(0))]
    )
    student = train_base(shuffled, config, tmp_path / "student")
    assert session.images is not None
    right = (student.classifier(session.images).argmax(1) == session.labels).float().mean()
    assert right > 0.7


def test_checkpoint_refuses_what_it_did_not_write(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_classifier(tmp_path / "nothing.safetensors")
    (tmp_path / "text.safetensors").write_text("not a checkpoint")
    with pytest.raises(InputError, match="not a readable checkpoint"):
        load_classifier(tmp_path / "text.safetensors")
    from safetensors.torch import save_file

    save_file({"x": torch.ones(1)}, tmp_path / "foreign.safetensors")
    with pytest.raises(InputError, match="not written by fscil"):
        load_classifier(tmp_path / "foreign.safetensors")


def test_tensors_survive_the_file(tmp_path: Path) -> None:
    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5)}
    save_tensors(tmp_path / "x.safetensors", tensors, {"k": [1, "é"]})
    read, info = read_tensors(tmp_path / "x.safetensors")
    assert all(torch.equal(read[key], tensors[key]) for key in tensors)
    assert info == {"k": [1, "é"]}


def test_schedule_warms_up_and_ends_at_the_minimum() -> None:
    rates = [learning_rate(step, 100, 10, 1.0, 0.1) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert all(a >= b for a, b in itertools.pairwise(rates[10:]))
    assert rates[99] == pytest.approx(0.1, abs=1e-3)


@pytest.mark.parametrize("as_tensor", [False, True])
def test_weight_average_against_a_plain_loop(as_tensor: bool) -> None:
    model = torch.nn.Linear(2, 2)
    average = WeightAverage(model, 0.9)
    expected = model.weight.detach().clone()
    for step in range(200):
        with torch.no_grad():
            model.weight.add_(0.1)
        weight = average.weight(step)
        average.update(torch.tensor(weight) if as_tensor else weight)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model.weight.detach()
    assert torch.allclose(average.averages["weight"], expected, atol=1e-5)


@pytest.mark.slow
def test_kill_minus_nine_then_resume_gives_the_same_matrix(tmp_path: Path) -> None:
    """The whole command, killed three times at different moments, against one that ran through."""
    command = [
        "run",
        "digits",
        "--seeds",
        "1",
        "--set",
        "train.checkpoint_seconds=0",
        "--set",
        "train.epochs=6",
        "--json",
    ]
    whole = fscil(*command, "--out", tmp_path / "whole")
    command += ["--out", str(tmp_path / "killed"), "--resume"]
    state = tmp_path / "killed" / "base" / "state.safetensors"
    for kill in range(3):
        process = Process(*command, log=tmp_path / "log")
        before = state.stat().st_mtime_ns if state.exists() else 0
        while not process.over and not (state.exists() and state.stat().st_mtime_ns > before):
            time.sleep(0.02)
        time.sleep(0.15 * kill)
        process.kill()
    resumed = fscil(*command)
    first, second = (json.loads(done.stdout)["results"] for done in (whole, resumed))
    assert [r["matrix"] for r in first] == [r["matrix"] for r in second]
    assert [r["method"] for r in first] == ["prototypes", "yourself"]
