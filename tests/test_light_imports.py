"""What needs no network loads none: `import fscil`, its settings, matrices and metrics do without torch.

By what is loaded in a fresh process, and not by a clock; commands are looked at in tests/cli/test_imports.py.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SLOW = (
    "torch",
    "torchvision",
    "timm",
    "lightning",
    "torchmetrics",
    "scipy",
    "sklearn",
    "matplotlib",
    "huggingface_hub",
)
USES = {
    "nothing": "",
    "settings": "fscil.load_config('digits')",
    "errors": "fscil.InputError",
    "matrices": "fscil.summary(fscil.AccuracyMatrix.from_lists([[90], [80, 50]], [6, 2]))",
    "reading": "fscil.read_matrix",
    "stored networks": "__import__('fscil.core.stored_networks').core.stored_networks.networks()",
}


@pytest.mark.parametrize("code", USES.values(), ids=USES)
def test_it_loads_nothing_slow(code: str) -> None:
    script = f"import json, sys, fscil\n{code}\nprint(json.dumps([name for name in {SLOW} if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
