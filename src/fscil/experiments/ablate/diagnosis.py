"""Why rectification helps on a network, or does not: what FR is given to work with, in a few numbers per layer.

From the base session's images, which the network was trained on, and the shots of one draw; no test image is looked at.
"""

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.data.session import Session, View
from fscil.methods.base import class_means, features
from fscil.methods.raw_layers import FINAL
from fscil.methods.yourself import YourSelf


def diagnose(sessions: Sequence[Session], method: YourSelf, blocks: Sequence[int]) -> dict[int, dict[str, float]]:
    """Of the final features (FINAL) and of every block, in percent but for `cosine`, `cka` and `head`, which end at 1:

    common    length of the mean of all features, of their mean length, as the network gives them
    cosine    of the layer's class means to the final ones of the same class, as FR gets them: their mean
    cka       linear CKA of the layer's and the final features
    head      cosine of the classifier's weights to the class means, where there is a classifier: its mean
    entropy   of what the layer predicts for base images, which is the target of CR, after all sessions; of the highest
    wrong     images for which that names another class than their own
    novel     images for which it names a new class: a part of `wrong`
    """
    base = sessions[0]
    off = {place: method.centring * _of(features(base), place).mean(0) for place in (FINAL, *blocks)}

    def means(place: int) -> Tensor:
        return torch.cat([class_means(_of(features(each), place) - off[place], each) for each in sessions])

    final, count = means(FINAL), len(base.classes)
    shared = final.clone()  # what the target of CR is predicted by, unless layers have prototypes of their own
    if method.prototypes == "head" and base.head is not None:
        shared[:count] = F.normalize(base.head.float(), dim=-1)
    found = {}
    for place in (FINAL, *blocks):
        raw, own = _of(features(base), place), means(place)
        target = F.normalize(raw - off[place], dim=-1) @ (own if place and method.own_relations else shared).T
        values = {"common": 100 * float(raw.mean(0).norm() / raw.norm(dim=-1).mean())}
        if place:
            values["cosine"] = float((own * final)[:count].sum(-1).mean())
            values["cka"] = linear_cka(raw, features(base).final)
        elif base.head is not None:
            values["head"] = float((F.normalize(base.head.float(), dim=-1) * own[:count]).sum(-1).mean())
        found[place] = {**values, **_judged(method.scale * target, base.labels, count)}
    return found


def linear_cka(x: Tensor, y: Tensor) -> float:
    """Kornblith et al., ICML 2019: 1 where one is the other turned and scaled, 0 where they have nothing in common."""
    x, y = x.double() - x.double().mean(0), y.double() - y.double().mean(0)
    return float((x.T @ y).square().sum() / ((x.T @ x).norm() * (y.T @ y).norm()))


def _judged(logits: Tensor, labels: Tensor, base: int) -> Mapping[str, float]:
    named, p = logits.argmax(-1), logits.log_softmax(-1)
    return {
        "entropy": 100 * float(-(p.exp() * p).sum(-1).mean()) / math.log(logits.shape[-1]),
        "wrong": 100 * float((named != labels).double().mean()),
        "novel": 100 * float((named >= base).double().mean()),
    }


def _of(view: View, place: int) -> Tensor:
    return view.layers[place] if place else view.final
