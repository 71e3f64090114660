"""Where rendered and downloaded data is kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$FSCIL_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("FSCIL_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fscil"
