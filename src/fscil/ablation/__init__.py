"""What each part of YourSelf gives: losses, layers, weights, calibration and cost, from one trained network."""

from __future__ import annotations

from fscil.ablation.assembly import assemble
from fscil.ablation.document import Ablation, is_ablation, load, parse, to_json
from fscil.ablation.markdown import ablation_markdown
from fscil.ablation.page import ablation_html
from fscil.ablation.plan import PARTS
from fscil.ablation.study import Study

__all__ = [
    "PARTS",
    "Ablation",
    "Study",
    "ablation_html",
    "ablation_markdown",
    "assemble",
    "is_ablation",
    "load",
    "parse",
    "to_json",
]
