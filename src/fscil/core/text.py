"""Text of strangers (names of classes, files, recipes): what cannot be seen in it, and how to show it safely."""

import unicodedata
from collections.abc import Callable, Iterator

_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe0e\ufe0f"  # text or colour picture of the sign before
# Marks and letters that draw nothing, beside the format characters (Cf) that `unicodedata` knows as such.
_BLANK = frozenset(
    [*"\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"]
    + [chr(code) for first, last in ((0xFE00, 0xFE0D), (0xE0100, 0xE01EF)) for code in range(first, last + 1)]
)


def hidden(text: str) -> Iterator[int]:
    """Places of characters that show nothing, reorder what stands around them, or steer a terminal."""
    for at, character in enumerate(text):
        if character.isascii() and character.isprintable():
            continue
        if character in _JOINERS + _SELECTORS:
            if not _belongs(text, at):
                yield at
        elif unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") or character in _BLANK:
            yield at


def _belongs(text: str, at: int) -> bool:
    """Whether a joiner or selector stands where writing needs it: after a virama, between Arabic letters, in emoji."""
    before, after = text[at - 1] if at else " ", text[at + 1 : at + 2] or " "
    if text[at] in _SELECTORS:
        return unicodedata.category(before)[0] not in "LMZC"
    if (
        unicodedata.combining(before) == 9
        or unicodedata.bidirectional(before) == unicodedata.bidirectional(after) == "AL"
    ):
        return True
    picture = unicodedata.category(before) in ("So", "Sk") or before in _SELECTORS
    return text[at] == "\u200d" and picture and unicodedata.category(after) == "So"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def visible(text: str, keep: str = "", escaped: Callable[[str], str] = _escaped) -> str:
    """Hidden characters as escapes such as \\x1b, but for those in `keep`."""
    places = {at for at in hidden(text) if text[at] not in keep}
    return "".join(escaped(c) if at in places else c for at, c in enumerate(text)) if places else text


def character_name(character: str) -> str:
    """Such as U+200B ZERO WIDTH SPACE; control characters have a number alone."""
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


def spreadsheet_cell(text: str) -> str:
    """For CSV: what a spreadsheet would take for a formula gets an apostrophe before it; numbers stay numbers.

    Where Chinese or Japanese is written, spreadsheets read the wide signs as the narrow ones.
    """
    if not text.startswith(tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")) or text == "-":
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
