"""The network of an encoder as an ONNX graph, made by a program of its own: python -m fscil.teach.onnx.trace.

While torch's exporter looks at a network it replaces parts of torch for the whole process, so that any other thread
which asks a network something at that moment fails. A project answers from many threads; so the exporter gets its own
process.
"""

import contextlib
import io
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from fscil.core.errors import InputError
from fscil.teach.encoders.loading import load
from fscil.teach.encoders.torch_encoder import TorchEncoder
from fscil.teach.learning.encoder import Reference
from fscil.teach.project.leftovers import workplace

OPSET = 20  # that of `graph.py`
REFUSED = 2  # exit code: standard error holds a sentence for the user


def trace(reference: Reference, state: Path) -> bytes:
    """A model from uint8 squares (n, size, size, 3) to vectors (n, width). Takes seconds; threads may go on."""
    with workplace("trace") as folder:
        target = folder / "encoder.onnx"
        command = [sys.executable, "-m", __name__, reference.to_json(), str(state), str(target)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode == REFUSED:
            raise InputError(done.stderr.strip())
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise InputError(f"torch could not write the encoder '{reference.name}' as an ONNX model: {last}")
        return target.read_bytes()


class Vectors(nn.Module):
    """From squares to vectors in one go."""

    def __init__(self, encoder: TorchEncoder) -> None:
        super().__init__()
        self.backbone, self.embedding, self.blocks = encoder.backbone, encoder.embedding, encoder.reference.blocks

    def forward(self, squares: Tensor) -> Tensor:
        final, layers = self.backbone.forward_layers(squares, self.blocks)
        return self.embedding(torch.stack([final, *[layers[block] for block in self.blocks]], 1))


def main(reference: str, state: str, target: str) -> int:
    try:
        encoder = load(Reference.from_json(reference), Path(state))
    except InputError as error:
        print(error, file=sys.stderr)
        return REFUSED
    assert isinstance(encoder, TorchEncoder)
    size = encoder.reference.image_size
    # The exporter prints its progress and warns of its own deprecations.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()):
        program = torch.onnx.export(
            Vectors(encoder).eval(),
            (torch.zeros(2, size, size, 3, dtype=torch.uint8),),
            dynamo=True,
            input_names=["squares"],
            output_names=["vectors"],
            dynamic_shapes={"squares": {0: torch.export.Dim("batch", min=1)}},
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    Path(target).write_bytes(program.model_proto.SerializeToString())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
