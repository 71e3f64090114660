"""npz: a data set in one file of numpy arrays."""

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.data.dataset import Dataset, ImageSet, check

ARRAYS = ("train_images", "train_labels", "test_images", "test_labels", "class_names")

# What numpy and zipfile raise on bytes that are not what they should be.
_DAMAGE = (
    *(ValueError, OSError, EOFError, zlib.error, zipfile.BadZipFile, MemoryError, RuntimeError, SyntaxError),
    *(TypeError, KeyError, NotImplementedError, struct.error, tokenize.TokenError),
)


def load(config: DataConfig, _: Reporter | None = None) -> Dataset:
    path = Path(config.path).expanduser()
    arrays = _read(path)
    class_names = _names(path, arrays["class_names"])
    train, test = (ImageSet(arrays[f"{half}_images"], arrays[f"{half}_labels"]) for half in ("train", "test"))
    check(str(path), train, test, class_names)  # here too, for sentences that name the file
    train, test = (ImageSet(half.images, half.labels.astype(np.int64)) for half in (train, test))
    return Dataset(path.stem, train, test, class_names)


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        stored = np.load(path, allow_pickle=False)  # never a pickle: opening a data file must not run code
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check data.path.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not an .npz file; check data.path, or set data.name=folder.") from None
    except PermissionError:
        raise InputError(f"No permission to read {path}; change its permissions.") from None
    except _DAMAGE:
        stored = None
    if not isinstance(stored, np.lib.npyio.NpzFile):
        raise InputError(f"{path} is not an .npz file; write one with numpy.savez(path, {'=..., '.join(ARRAYS)}=...).")
    with stored:
        missing = [name for name in ARRAYS if name not in stored.files]
        if missing:
            raise InputError(
                f"{path} has no array '{missing[0]}'; an .npz data set holds {', '.join(ARRAYS[:-1])} and {ARRAYS[-1]}."
            )
        return {name: _array(path, stored, name) for name in ARRAYS}


def _array(path: Path, stored: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    try:
        array = stored[name]
    except _DAMAGE as error:
        if "allow_pickle" in str(error):
            wanted = "an array of text" if name == "class_names" else "a plain array of numbers"
            raise InputError(
                f"{path}: array '{name}' holds Python objects, which are not read for safety; save {wanted}."
            ) from None
        raise InputError(f"{path}: array '{name}' is damaged; copy or write the file again.") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: '{name}' is not a numpy array; write the file with numpy.savez.")
    return array


def _names(path: Path, array: np.ndarray) -> tuple[str, ...]:
    """Class names from an array of text, or of UTF-8 bytes."""
    if array.ndim != 1 or array.dtype.kind not in "US":
        raise InputError(
            f"{path}: class_names is {array.dtype} of shape {array.shape}; give a list of text, one name per class."
        )
    try:
        return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in array.tolist())
    except UnicodeDecodeError:
        raise InputError(f"{path}: class_names holds bytes that are not UTF-8; save the names as text.") from None
