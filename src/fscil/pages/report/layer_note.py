"""Why one rectified layer alone can know more than all of them together, said where the numbers show it."""

from __future__ import annotations

from collections.abc import Sequence

from fscil.metrics.names import label
from fscil.pages.kit.prose import percent
from fscil.results.analysis import LayerScore

_OF = {"novel": "new classes", "base": "base classes", "aacc": "all classes"}
_DIGITS = 1  # as compared: what does not differ in print is not remarked on


def layer_note(layers: Sequence[LayerScore]) -> str:
    """Sentences on the averaging of the layers, then on what else the method takes; empty where nothing stands out."""
    alone = [layer for layer in layers if layer.kind == "rectified"]
    together = next((layer for layer in layers if layer.kind == "ensemble"), None)
    whole = next((layer for layer in layers if layer.kind == "whole"), None)
    whitened = next((layer for layer in layers if layer.kind == "whitened"), None)
    notes = [_averaging(alone, together)] if together else []
    if together and whole and whitened:
        notes.append(_moved_balance(together, whitened, whole))
    return " ".join(filter(None, notes))


def _averaging(alone: Sequence[LayerScore], together: LayerScore) -> str:
    winners = {key: best for key in _OF if (best := _best(alone, key)) and _above(best, together, key)}
    if not winners:
        return ""
    said = [
        f"{best.label} on {_OF[key]} ({_value(best, key)} instead of {_value(together, key)})"
        for key, best in winners.items()
    ]
    note = f"Single rectified layers can know more than all of them together, here {'; '.join(said)}. Together means "
    note += "the mean of the layers' answers, each with the same weight, so that weaker layers pull it down"
    key, best = next(iter(winners.items()))
    if (least := _worst(alone, key)) and least is not best:
        note += f" ({least.label}: {_value(least, key)})"
    note += ". Which layer is best is seen only here, on the test images; the mean needs no such choice."
    places = {other.label for key in _OF if (other := _best(alone, key))}
    return note + (" No layer is best on base, new and all classes." if len(places) > 1 else "")


def _moved_balance(together: LayerScore, whitened: LayerScore, whole: LayerScore) -> str:
    """The method answers by rectified layers and whitened features; the two differ in what they know."""
    for gain, loss in (("base", "novel"), ("novel", "base")):
        if _above(whole, together, gain) and _above(together, whole, loss):
            note = f"The method as a whole also takes whitened features, which know {_OF[gain]} better "
            note += f"({_value(whitened, gain)} instead of {_value(together, gain)}) and {_OF[loss]} less well "
            note += f"({_value(whitened, loss)} instead of {_value(together, loss)}): it gives {_OF[loss]} for "
            note += f"{_OF[gain]}"
            if _above(whole, together, "aacc"):
                note += f", and is ahead on all classes ({label('aacc')} {_value(whole, 'aacc')} instead of "
                note += f"{_value(together, 'aacc')})"
            return f"{note}."
    return ""


def _best(layers: Sequence[LayerScore], key: str) -> LayerScore | None:
    known = [layer for layer in layers if getattr(layer, key) is not None]
    return max(known, key=lambda layer: float(getattr(layer, key)), default=None)


def _worst(layers: Sequence[LayerScore], key: str) -> LayerScore | None:
    known = [layer for layer in layers if getattr(layer, key) is not None]
    return min(known, key=lambda layer: float(getattr(layer, key)), default=None)


def _above(one: LayerScore, other: LayerScore, key: str) -> bool:
    values = getattr(one, key), getattr(other, key)
    return None not in values and round(values[0], _DIGITS) > round(values[1], _DIGITS)


def _value(layer: LayerScore, key: str) -> str:
    return percent(getattr(layer, key), _DIGITS)
