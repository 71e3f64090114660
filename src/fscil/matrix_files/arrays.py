"""Accuracy matrices from NumPy files: .npy with one array, .npz with one array or named ones."""

import io
import struct
import tokenize
import zipfile
import zlib
from typing import Any

import numpy as np

from fscil.core.errors import InputError
from fscil.matrix_files.table import RawTable

# What numpy and zipfile raise on bytes that are not what they should be.
DAMAGE = (
    *(ValueError, OSError, EOFError, zlib.error, zipfile.BadZipFile, MemoryError, RuntimeError, SyntaxError),
    *(TypeError, KeyError, NotImplementedError, struct.error, tokenize.TokenError),
)


def npy_table(data: bytes) -> RawTable:
    """One square array, one row per session; NaN, 0 or -1 throughout above the diagonal is blank."""
    array = _load(data)
    if not isinstance(array, np.ndarray):
        raise InputError("The file holds several arrays; rename it to .npz.")
    return _table(array)


def npz_table(data: bytes) -> RawTable:
    """The array "matrix", with "classes" and "test_counts" if it has them; or the only array there is."""
    archive = _load(data)
    if isinstance(archive, np.ndarray):
        raise InputError("The file holds a single array without a name; rename it to .npy.")
    try:
        arrays: dict[str, np.ndarray] = {name: archive[name] for name in archive.files}
    except DAMAGE:
        raise InputError("The arrays in the file cannot be read; save plain arrays of numbers.") from None
    name = "matrix" if "matrix" in arrays else next(iter(arrays), "")
    if not name or ("matrix" not in arrays and len(arrays) > 1):
        found = ", ".join(sorted(arrays)) or "none"
        raise InputError(f'The file has the arrays {found}; name the accuracy matrix "matrix".')
    table = _table(arrays[name])
    return RawTable(table.rows, _counts(arrays, "classes"), _counts(arrays, "test_counts"), notes=table.notes)


def _load(data: bytes) -> Any:
    problem = "it is not a NumPy file"
    if data.startswith((b"\x93NUMPY", b"PK")):  # anything else would be taken for a pickle
        try:
            return np.load(io.BytesIO(data), allow_pickle=False)  # a pickle could run any code
        except DAMAGE as error:
            problem = "it holds Python objects" if "allow_pickle" in str(error) else "it is damaged"
    raise InputError(f"The file cannot be read: {problem}; save a plain array of numbers.")


def _table(array: np.ndarray) -> RawTable:
    if array.dtype.kind not in "fiu":
        raise InputError(f"The array holds {array.dtype}, not numbers; save it as floats.")
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise InputError(f"The array has shape {array.shape}; an accuracy matrix is square, one row per session.")
    values = array.astype(float)
    upper, lower = np.triu_indices(len(values), 1), np.tril_indices(len(values), -1)
    filler = _filler(values[upper])
    if filler is None and _filler(values[lower]) is not None:
        raise InputError(
            "The array has its values above the diagonal, so it looks transposed; give one row per session."
        )
    notes: tuple[str, ...] = ()
    if filler is not None:
        values[upper] = np.nan
        if not np.isnan(filler):
            notes = (f"The {filler:g}s above the diagonal were read as blank: those classes are not learned yet.",)
    return RawTable([[None if np.isnan(value) else float(value) for value in row] for row in values], notes=notes)


def _filler(triangle: np.ndarray) -> float | None:
    """The one value that fills a triangle, if it can only be a filler."""
    if not triangle.size:
        return None
    if np.isnan(triangle).all():
        return np.nan
    return next((value for value in (0.0, -1.0) if (triangle == value).all()), None)


def _counts(arrays: dict[str, np.ndarray], name: str) -> list[int] | None:
    if name not in arrays:
        return None
    counts = np.atleast_1d(arrays[name])
    if counts.dtype.kind not in "fiu" or counts.ndim != 1:
        raise InputError(
            f'The array "{name}" holds {counts.dtype} of shape {counts.shape}; give one count per session.'
        )
    return [int(count) if float(count).is_integer() else count for count in counts.tolist()]
