"""One look per method in every figure: Okabe and Ito colours; markers and dashes distinguish lines in grey."""

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

# Okabe and Ito (2008), safe for colour-blind readers; their yellow is left out, it vanishes on white.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#666666"

SOLID: tuple[float, ...] = ()
DASHED, DOTTED, DASH_DOT, LONG = (5.0, 2.0), (1.0, 1.5), (5.0, 1.5, 1.0, 1.5), (8.0, 3.5)


@dataclass(frozen=True)
class Style:
    """How one method is drawn: no two known methods share colour and marker, nor marker and fill in grey."""

    colour: str
    marker: str
    dashes: tuple[float, ...] = SOLID
    hollow: bool = False  # marker filled with white

    @property
    def face(self) -> str:
        return "white" if self.hollow else self.colour


STYLES: dict[str, Style] = {
    "yourself": Style(VERMILLION, "*"),
    "prototypes": Style(BLUE, "o", DASHED),
    "nc-fscil": Style(GREEN, "s", DASH_DOT),
    "savc": Style(PURPLE, "D", LONG),
    "alice": Style(ORANGE, "v", DASHED),
    "s3c": Style(SKY, "^", SOLID),
    "softnet": Style(BLACK, "P", DASH_DOT),
    "bidist": Style(GREEN, "X", SOLID, hollow=True),
    "c-fscil": Style(ORANGE, "h", SOLID),
    "fact": Style(BLUE, "d", DOTTED, hollow=True),
    "limit": Style(PURPLE, "<", DASHED, hollow=True),
    "cec": Style(BLACK, ">", DASHED, hollow=True),
    "clom": Style(SKY, "s", LONG, hollow=True),
    "sppr": Style(GREY, "p", DASH_DOT),
    "teen": Style(VERMILLION, "p", DASHED, hollow=True),
    "fecam": Style(BLACK, "*", LONG, hollow=True),
    "subspace-reg": Style(VERMILLION, "v", DOTTED, hollow=True),
    "df-replay": Style(BLUE, "^", DASH_DOT, hollow=True),
    "topic": Style(GREY, "X", DOTTED),
    "idlvq": Style(GREEN, "<", DOTTED),
    "metafscil": Style(PURPLE, ">", DOTTED),
    "fcil": Style(ORANGE, "D", DASHED, hollow=True),
    "dsn": Style(SKY, "P", DASHED, hollow=True),
    "lazy": Style(GREY, "o", DOTTED, hollow=True),
    "joint": Style(GREY, "^", SOLID),
    "finetune": Style(GREY, "v", DOTTED, hollow=True),
    "icarl": Style(GREY, "s", DASHED),
    "lda": Style(GREY, "D", LONG, hollow=True),
    "ridge": Style(GREY, "<", DASH_DOT, hollow=True),
    "ranpac": Style(GREY, ">", DASHED),
    "greedy": Style(GREY, "h", DOTTED, hollow=True),
    "greedy-nf": Style(GREY, "d", DASHED),
    "yourself-cos": Style(SKY, "^", DASHED),
    "yourself-cos-cr": Style(GREEN, "s", DASH_DOT),
}
# For methods that are not listed: every colour with markers that the known methods do not use.
_SPARE = [
    Style(colour, marker, dashes)
    for marker, dashes in (("8", SOLID), ("H", DASHED), ("X", DASH_DOT), ("d", LONG))
    for colour in (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
]


def styles(names: Iterable[str]) -> dict[str, Style]:
    """A style per name, the same in every figure: fixed for known methods, else chosen by the name itself."""
    wanted = list(dict.fromkeys(names))
    chosen = {name: STYLES[name] for name in wanted if name in STYLES}
    others: list[Style] = []  # of the unknown methods so far
    for name in sorted(set(wanted) - STYLES.keys()):
        start = crc32(name.encode("utf-8", "replace")) % len(_SPARE)
        wishes = [*_SPARE[start:], *_SPARE[:start]]
        # The first wish of a colour that no other unknown method has; then of a style none has; then anything.
        new_colour = (style for style in wishes if style.colour not in {other.colour for other in others})
        new_style = (style for style in wishes if style not in others)
        chosen[name] = next(new_colour, next(new_style, wishes[0]))
        others.append(chosen[name])
    return chosen
