"""What a project accepts: sizes of files and pictures, and names of classes."""

import unicodedata

from fscil.core.errors import InputError
from fscil.core.text import character_name, hidden, visible

MAX_FILE_BYTES = 20_000_000
MAX_PIXELS = 50_000_000  # what telephones take at most by themselves; checked before a picture is decoded
MAX_NAME = 80  # characters
MAX_IMAGES_AT_ONCE = 10_000  # one call of `learn`: all its pictures are in memory together

UNKNOWN = "unknown"  # the answer when nothing fits, so no class may be called that


def class_name(text: str) -> str:
    """The name as it is stored: composed (NFC), one plain blank between words, none around. Two names that look alike
    to everybody are one name, so what cannot be seen is refused.
    """
    if not isinstance(text, str):
        raise InputError(f"A class name must be text; got {type(text).__name__}.")
    name = unicodedata.normalize("NFC", text).strip()
    unseen = next((name[at] for at in hidden(name)), None)
    if unseen is not None:
        raise InputError(
            f"The class name '{visible(name):.60}' holds {character_name(unseen)}, "
            f"which cannot be seen; write the name without it."
        )
    name = " ".join(name.split())
    if not name:
        raise InputError("A class needs a name; give 1 to 80 characters.")
    if len(name) > MAX_NAME:
        raise InputError(f"The class name '{name[:20]}...' has {len(name)} characters; give at most {MAX_NAME}.")
    if unicodedata.normalize("NFKC", name).casefold() == UNKNOWN:
        raise InputError(f"'{name}' is what the program answers when nothing fits; give the class another name.")
    return name
