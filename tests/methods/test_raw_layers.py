"""Raw layers: every variant is what the prototype baseline gives for that layer, the ensemble what loops give."""

from __future__ import annotations

import math

import pytest
import torch
from feature_worlds import BLOCKS, make_world

from fscil.methods import Method, Prototypes
from fscil.methods.raw_layers import RawLayers, block_label


def taught(method: Method) -> Method:
    sessions, _ = make_world()
    method.start(seed=0, depth=4, device=torch.device("cpu"))
    for session in sessions:
        (method.fit_novel if session.index else method.fit_base)(session)
    return method


@pytest.mark.parametrize("block", [*BLOCKS, 0])
def test_a_layer_alone_is_the_prototype_baseline_of_that_layer(block: int) -> None:
    _, exams = make_world()
    variant = taught(RawLayers(layers=BLOCKS)).variants()[block_label(block)]
    for view, _ in exams:
        assert torch.equal(variant(view), taught(Prototypes(block=block)).scores(view))


def test_together_is_the_mean_of_the_softmax_written_out() -> None:
    _, exams = make_world()
    view = exams[1][0]
    method = taught(RawLayers(layers=BLOCKS, scale=9.0))
    alone = {block: taught(Prototypes(block=block)).scores(view) for block in (*BLOCKS, 0)}

    def slow(blocks: tuple[int, ...]) -> list[list[float]]:
        rows = []
        for image in range(len(view)):
            sums = [0.0] * alone[0].shape[1]
            for block in blocks:
                powers = [math.exp(9.0 * float(x)) for x in alone[block][image]]
                sums = [s + p / sum(powers) / len(blocks) for s, p in zip(sums, powers, strict=True)]
            rows.append(sums)
        return rows

    assert torch.allclose(method.scores(view), torch.tensor(slow((*BLOCKS, 0))), atol=1e-5)
    assert torch.allclose(method.variants()[RawLayers.together](view), torch.tensor(slow(BLOCKS)), atol=1e-5)
