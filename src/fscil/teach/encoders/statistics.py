"""Statistics of an encoder's base classes: what its checkpoint's own training images say about the spread in classes.

`python -m fscil.teach.encoders.statistics glyphs` makes checkpoints/glyphs.embedding.safetensors again;
`python -m fscil.teach.encoders.statistics cifar100 PATH` takes the data set's folder or archive.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from fscil.backbones.extract import extract
from fscil.core.config import DataConfig, build
from fscil.core.errors import InputError
from fscil.data import load_benchmark
from fscil.teach.encoders import embedding as embeddings
from fscil.teach.encoders import package
from fscil.teach.encoders.embedding import Embedding
from fscil.teach.encoders.torch_encoder import middle_blocks
from fscil.training.checkpoint import Checkpoint, load_classifier

# Of the networks that come with the package: glyphs by pseudo-projects of base characters, cifar100 by training images
# of its novel classes (docs/teach.md).
SHRINKAGE_OF = {"glyphs": 0.1, "cifar100": 10.0}
MAX_IMAGES = 20_000  # of the base classes; more do not sharpen a covariance of this size


def embedding_of(path: Path, blocks: tuple[int, ...]) -> Embedding:
    """From the base classes the checkpoint was trained on; plain where their images are no longer at hand."""
    checkpoint = load_classifier(path)
    try:
        images, labels = base_images(checkpoint)
    except InputError:
        return Embedding(len(blocks), checkpoint.backbone.dim, whitened=False)
    return from_base(checkpoint, images, labels, blocks)


def base_images(checkpoint: Checkpoint, path: str = "") -> tuple[Tensor, Tensor]:
    """The base session again, from the config in the checkpoint; refused if it is not what was trained on."""
    config = build(DataConfig, checkpoint.info["config"]["data"])
    benchmark = load_benchmark(replace(config, path=path or config.path))
    trained_on = checkpoint.info.get("data")  # empty where training was started from Python without saying
    if trained_on and benchmark.fingerprint() != trained_on:
        raise InputError("The data set has changed since the network was trained.")
    session = benchmark.session(0)
    assert session.images is not None
    order = torch.randperm(len(session), generator=torch.Generator().manual_seed(0))[:MAX_IMAGES]
    return session.images[order], session.labels[order]


def from_base(
    checkpoint: Checkpoint,
    images: Tensor,
    labels: Tensor,
    blocks: tuple[int, ...],
    shrinkage: float = embeddings.SHRINKAGE,
) -> Embedding:
    view = extract(checkpoint.backbone, images, blocks)
    stacked = torch.stack([view.final, *[view.layers[block] for block in blocks]], 1)
    embedding = embeddings.fit(stacked, labels, blocks, checkpoint.backbone.depth, shrinkage)
    embedding.similarity = _similarity(embedding, stacked, labels)
    return embedding


def _similarity(embedding: Embedding, stacked: Tensor, labels: Tensor) -> float:
    """Of two images of one base class, on average over twenty classes with five images each."""
    vectors, found = embedding(stacked), []
    for label in labels.unique()[:20].tolist():
        some = vectors[torch.nonzero(labels == label).flatten()[:5]]
        pairs = len(some) * (len(some) - 1)
        found.append(float(some.sum(0).square().sum() - len(some)) / max(1, pairs))
    return sum(found) / len(found)


def main(name: str, path: str = "") -> None:
    checkpoint = load_classifier(package.network_file(name))
    images, labels = base_images(checkpoint, path)
    shrinkage = SHRINKAGE_OF.get(name, embeddings.SHRINKAGE)
    embedding = from_base(checkpoint, images, labels, middle_blocks(checkpoint.backbone), shrinkage)
    target = package.embedding_file(name)
    embeddings.save(target, embedding, shrinkage=shrinkage)
    print(f"{target}: similarity {embedding.similarity:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
