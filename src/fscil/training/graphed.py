"""An update as a CUDA graph: recorded once, then replayed without the host launching each kernel.

A training step here is a thousand small kernels (or, for the rectifier, a hundred tiny ones); launching them one by one
keeps the GPU waiting.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Update = Callable[[], Tensor]  # one update of something; returns the loss

WARM_UP = 3  # updates that run as usual first: compilation and lazy initialisation cannot be recorded


class GraphedUpdate:
    """Calls `update` as it is on a side stream for a few times, then records it and replays the recording.

    Everything that changes from call to call must live in tensors that `update` reads: rows of a batch, a learning
    rate. Random numbers follow the seeds that generators have at the replay.
    """

    def __init__(self, update: Update, generator: torch.Generator) -> None:
        self.update, self.generator = update, generator
        self.stream, self.graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        self.calls, self.loss = 0, torch.empty(0)

    def __call__(self) -> Tensor:
        self.calls += 1
        if self.calls <= WARM_UP:
            return self._on_side_stream()
        if self.calls == WARM_UP + 1:
            self._record()
        self.graph.replay()
        return self.loss

    def _on_side_stream(self) -> Tensor:
        # Gradients remember the stream they were first made on; the default one cannot be recorded.
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self.update()
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _record(self) -> None:
        self.graph.register_generator_state(self.generator)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.loss = self.update()
