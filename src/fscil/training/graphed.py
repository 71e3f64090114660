"""One training step as a CUDA graph: recorded once, then replayed without the host naming a single kernel.

A ViT of this size has over a thousand small kernels a step; launching them one by one keeps the GPU waiting.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Update = Callable[[Tensor], Tensor]  # rows of the batch -> loss

WARM_UP = 3  # steps that run as usual first: compilation and lazy initialisation cannot be recorded


class GraphedUpdate:
    """Calls `update` as it is on a side stream for a few steps, then records it and replays the recording.

    Everything that changes from step to step must live in tensors that `update` reads: the rows (copied here), the
    learning rate, the averaging weight. Random numbers follow the seeds that generators have at the replay.
    """

    def __init__(self, update: Update, generator: torch.Generator) -> None:
        self.update, self.generator = update, generator
        self.stream = torch.cuda.Stream()
        self.warmed, self.graph = 0, torch.cuda.CUDAGraph()
        self.rows, self.loss = torch.empty(0), torch.empty(0)

    def __call__(self, rows: Tensor) -> Tensor:
        if self.warmed < WARM_UP:
            self.warmed += 1
            return self._on_side_stream(rows)
        if not len(self.rows):
            self._record(rows)
        self.rows.copy_(rows)
        self.graph.replay()
        return self.loss

    def _on_side_stream(self, rows: Tensor) -> Tensor:
        # Gradients remember the stream they were first made on; the default one cannot be recorded.
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self.update(rows)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _record(self, rows: Tensor) -> None:
        self.rows = rows.clone()
        self.graph.register_generator_state(self.generator)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.loss = self.update(self.rows)
