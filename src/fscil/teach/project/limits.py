"""What a project accepts: sizes of files and pictures, and names of classes."""

import unicodedata

from fscil.core.errors import InputError

MAX_FILE_BYTES = 20_000_000
MAX_PIXELS = 40_000_000  # checked before a picture is decoded
MAX_NAME = 80  # characters
MAX_IMAGES_AT_ONCE = 10_000  # one call of `learn`: all its pictures are in memory together

UNKNOWN = "unknown"  # the answer when nothing fits, so no class may be called that


def class_name(text: str) -> str:
    """The name as it is stored: composed (NFC), without blanks around it. Refuses what cannot be shown in a line."""
    if not isinstance(text, str):
        raise InputError(f"A class name must be text; got {type(text).__name__}.")
    name = unicodedata.normalize("NFC", text).strip()
    if not name:
        raise InputError("A class needs a name; give 1 to 80 characters.")
    if len(name) > MAX_NAME:
        raise InputError(f"The class name '{name[:20]}...' has {len(name)} characters; give at most {MAX_NAME}.")
    # Cc, Cs, Zl, Zp: control characters, lone surrogates, line and paragraph separators. Bidirectional overrides
    # (in Cf) could make one name look like another; joiners (also Cf) are part of ordinary words and emoji.
    if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in _BIDI for c in name):
        raise InputError(f"The class name {name!r:.60} has characters that cannot be shown; use letters and signs.")
    if name.casefold() == UNKNOWN:
        raise InputError(f"'{name}' is what the program answers when nothing fits; give the class another name.")
    return name


_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
