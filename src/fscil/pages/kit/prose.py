"""Numbers and names as people read them."""

from collections.abc import Mapping, Sequence
from typing import Any

from fscil.results.significance import Spread

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def number(value: float | None, digits: int = 2) -> str:
    """Rounded for print, with a true minus sign and never a negative zero; a dash where there is none."""
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


def signed(value: float, digits: int = 2) -> str:
    text = number(value, digits)
    return text if text.startswith("−") or float(text) == 0 else f"+{text}"


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{number(value, digits)}\u00a0%"


def plus_minus(value: Spread | None, digits: int = 2) -> str:
    """Mean ± one standard deviation."""
    if value is None:
        return "–"
    return number(value.mean, digits) + ("" if value.std is None else f" ± {number(value.std, digits)}")


def amount(count: float) -> str:
    """A number of parameters, short enough for a column."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{number(count / size, 1 if count < 100 * size else 0)} {unit}"
    return str(round(count))


def probability(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else number(p, 3)


def counted(count: int, noun: str = "", plural: str = "") -> str:
    """'three images', 'one draw', '12 classes'; without a noun the number alone."""
    word = _WORDS[count] if 0 <= count < len(_WORDS) else str(count)
    return f"{word} {noun if count == 1 else plural or f'{noun}s'}" if noun else word


def plural(count: int, noun: str) -> str:
    """'1 draw', '3 draws'."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def ordinal(rank: int) -> str:
    ending = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def capitalised(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def session_name(index: int) -> str:
    return str(index) if index else "base"


def machine(hardware: Mapping[str, Any]) -> str:
    """The hardware of a result in one line."""
    cores = hardware.get("cores")
    parts = [
        hardware.get("name"),
        hardware.get("device"),
        plural(cores, "core") if cores else None,
        plural(hardware["threads"], "thread") if hardware.get("threads") else None,
        "deterministic" if hardware.get("deterministic") else None,
        f"fscil {hardware['fscil']}" if hardware.get("fscil") else None,
        f"Python {hardware['python']}" if hardware.get("python") else None,
        f"torch {hardware['torch']}" if hardware.get("torch") else None,
    ]
    return ", ".join(str(part) for part in parts if part) or "not recorded"
