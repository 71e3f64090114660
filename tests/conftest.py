"""Every test process uses one thread (two of them share two cores) and a cache of its own, not the user's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("FSCIL_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "fscil"))
# Helper modules of the tests (feature_worlds and the like) are imported by their plain names.
# docs_maker, which is not part of the package, stands beside them.
sys.path[:0] = [str(folder) for folder in Path(__file__).parent.iterdir() if folder.is_dir()]
sys.path.append(str(Path(__file__).parents[1]))
