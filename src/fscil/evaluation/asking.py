"""A method is asked about test images through a copy that is thrown away.

What it remembers of them goes with the copy: it cannot tell, after the next session, which images are new and so of new
classes. Tensors are shared with the copy, for they may be large; who writes into one while being asked is found out.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from fscil.data.session import View
from fscil.methods import Method

Scorer = Callable[[View], Tensor]


@contextmanager
def asked(method: Method, variant: str = "") -> Iterator[Scorer]:
    """How the method, or a part of it that can score alone, answers; once, for one chunk of images."""
    with _SharedTensors() as shared:
        copied = copy.deepcopy(method)
    before = [tensor._version for tensor in shared.tensors]
    yield copied.variants()[variant] if variant else copied.scores
    if [tensor._version for tensor in shared.tensors] != before:
        raise RuntimeError(
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
