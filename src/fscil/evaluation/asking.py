"""A method is asked about test images through a copy that is thrown away.

What it remembers of them goes with the copy: it cannot tell, after the next session, which images are new and so of new
classes. Tensors are shared with the copy, for they may be large; who writes into one while being asked is found out.
"""

import copy
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence, MutableSet
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fscil.data.session import View
from fscil.methods import Method
from fscil.training.checkpoint import tensors_sha256

_WRITABLE = (MutableMapping, MutableSequence, MutableSet, np.ndarray, Tensor)
Scorer = Callable[[View], Tensor]


@contextmanager
def asked(method: Method, variant: str = "") -> Iterator[Scorer]:
    """How the method, or a part of it that can score alone, answers; once, for one chunk of images."""
    with _SharedTensors() as shared:
        copied = copy.deepcopy(method)
        for name, value in _of_its_classes(method).items():
            setattr(copied, name, copy.deepcopy(value))
    before = [tensor._version for tensor in shared.tensors]
    yield copied.variants()[variant] if variant else copied.scores
    if [tensor._version for tensor in shared.tensors] != before:
        raise _changed(method)


@contextmanager
def left_alone(method: Method) -> Iterator[None]:
    """Tensors hold what they held, by every bit: `tensor.data` and arrays that share memory are not counted as writes.

    Around all questions of a session, as hashing hundreds of megabytes takes as long as some answers.
    """
    with _SharedTensors() as shared:
        copy.deepcopy([method, _of_its_classes(method)])
    tensors = {str(number): tensor for number, tensor in enumerate(shared.tensors)}
    before = tensors_sha256(tensors)
    yield
    if tensors_sha256(tensors) != before:
        raise _changed(method)


def _of_its_classes(method: Method) -> dict[str, Any]:
    """Containers that stand in its class or one above: all instances write into the same one, copies too."""
    return {
        name: value
        for kind in reversed(type(method).__mro__)
        for name, value in vars(kind).items()
        if isinstance(value, _WRITABLE) and not name.startswith("__") and name not in vars(method)
    }


def _changed(method: Method) -> RuntimeError:
    return RuntimeError(
        f"{method.title} changed what it had learned while it was asked about test images; its accuracies are not "
        f"stored. scores(view) must leave a method as it was."
    )


class _SharedTensors(TorchFunctionMode):
    """While it lasts, a deep copy of anything shares its tensors. (Parameters of modules torch copies itself.)"""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[Tensor] = []

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is not Tensor.__deepcopy__ or args[0].is_inference():  # those do not count what is written to them
            return function(*args, **(kwargs or {}))
        self.tensors.append(args[0])
        return args[0]
