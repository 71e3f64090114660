"""That tests which need a browser say so where there is none, and fail where they must run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("ci", [False, True])
def test_a_missing_browser_is_not_overlooked(ci: bool, tmp_path: Path) -> None:
    pytest.importorskip("playwright")
    environment = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
    environment |= {"PATH": str(tmp_path), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)} | ({"CI": "true"} if ci else {})
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/web/test_web_page.py", "-k", "camera"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if ci:
        assert done.returncode == 1
        assert "No browser test can run here: no chromium on the PATH" in done.stdout
    else:
        assert done.returncode == 0
        assert "1 BROWSER TESTS DID NOT RUN: no chromium on the PATH" in done.stdout
