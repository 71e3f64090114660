"""Names that are true: a method goes by its authors' name as long as it does what they do.

YourSelf is the paper's method. What this toolkit adds to it (a residual start, one Gaussian over all layers, relations
of a layer's own, cross-entropy on old classes, centring, a whitened share) makes it YourSelf+, in every table.
"""

from collections.abc import Mapping
from typing import Any

# Options that must have these values for the authors' name, and the name that is taken otherwise.
_PUBLISHED: dict[str, tuple[Mapping[str, Any], str]] = {
    "yourself": (
        {
            "residual": False,
            "joint": False,
            "own_relations": False,
            "weight_all": 0,
            "centring": 0,
            "whitened": 0,
        },
        "YourSelf+",
    )
}


def true_title(method: str, title: str, options: Any) -> str:
    """The title in tables; options that a file does not name count as the authors'."""
    published, other = _PUBLISHED.get(method, ({}, title))
    if not isinstance(options, Mapping):
        return title
    return title if all(options.get(key, value) == value for key, value in published.items()) else other
