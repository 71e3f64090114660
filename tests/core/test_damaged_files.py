"""Whatever is done to a file, its reader gives what the whole file gives, or refuses it in a sentence.

Formats without a checksum (a CSV, a recipe, a data set) may also be read as another valid file: a changed digit is
another number, and nothing in the file says otherwise.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")
sys.path.append(BENCHMARKS)

from fault_parts.damage import damaged  # noqa: E402
from fault_parts.kinds import KINDS, Kind, read_whole  # noqa: E402

from fscil.core.errors import InputError  # noqa: E402

COPIES = 60


@pytest.mark.parametrize("kind", [kind for kind in KINDS if ".onnx" not in kind.file], ids=lambda kind: kind.name)
def test_a_damaged_file_is_read_as_it_was_or_refused_in_a_sentence(kind: Kind, tmp_path: Path) -> None:
    whole, expected = read_whole(kind, tmp_path)
    refused = []
    for how, content in damaged(whole, COPIES, seed=0):
        (tmp_path / kind.file).write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = kind.read(tmp_path / kind.file)
        except InputError as error:
            refused.append(f"{how}: {error}")
        except Exception as error:
            raise AssertionError(f"{how}: {type(error).__name__}: {error}") from error
        else:
            assert found == expected or not kind.exact, how
    if kind.name != "feature file":  # damaged features are computed again
        assert len(refused) > COPIES / 4
    assert all(60 < len(sentence) < 2000 for sentence in refused)
