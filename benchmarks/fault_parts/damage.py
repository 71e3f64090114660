"""Seeded ways to damage a file: what disks, copies, editors and strangers do to bytes and to JSON."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any


def flipped_bit(content: bytearray, rng: random.Random) -> None:
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def random_bytes(content: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(content))
    stop = min(len(content), start + rng.choice((1, 4, 64)))
    content[start:stop] = rng.randbytes(stop - start)


def zeroed_block(content: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(content))
    stop = min(len(content), start + rng.choice((16, 512, 4096)))
    content[start:stop] = bytes(stop - start)


def cut_short(content: bytearray, rng: random.Random) -> None:
    del content[rng.randrange(len(content)) :]


def lost_piece(content: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(content))
    del content[start : start + rng.choice((1, 7, 512))]


def added_piece(content: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(content) + 1)
    content[start:start] = rng.randbytes(rng.choice((1, 8, 512)))


def appended(content: bytearray, rng: random.Random) -> None:
    content += rng.randbytes(rng.choice((1, 100)))


def swapped_halves(content: bytearray, rng: random.Random) -> None:
    middle = rng.randrange(len(content))
    content[:] = content[middle:] + content[:middle]


BYTES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(flipped_bit, flipped_bit, random_bytes, zeroed_block, cut_short, lost_piece, added_piece, appended),
    swapped_halves,
)
WHOLE = (b"", b"\0", b"\0" * 4096, b"\xff\xfe" * 9, b"PK\x03\x04", b"{}", b"[]", b"null", b"[" * 50_000, b"NaN")
# What a value in JSON may be turned into.
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**400, 1e308, -0.5, "", "text", "../..", "\0", [], {}, [[[]]], {"a": {"b": []}}),
    *(float("nan"), float("inf"), [None], "9" * 5000),
)


def damaged(whole: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """`count` copies with what was done to each; JSON is also damaged by its values. None equals the original."""
    rng = random.Random(seed)
    document = _json(whole)
    made = 0
    while made < count:
        if made < len(WHOLE):
            how, content = f"replaced by {WHOLE[made][:8]!r}", WHOLE[made]
        elif document is not None and rng.random() < 0.6:
            how, content = _odd_json(document, rng)
        else:
            change, copy = rng.choice(BYTES), bytearray(whole)
            change(copy, rng)
            how, content = change.__name__.replace("_", " "), bytes(copy)
        if content != whole:
            made += 1
            yield f"{how} (seed {seed}, number {made})", content


def _json(whole: bytes) -> Any:
    try:
        return json.loads(whole)
    except ValueError:
        return None


def _odd_json(document: Any, rng: random.Random) -> tuple[str, bytes]:
    """One value somewhere in the document removed, or turned into something odd."""
    copy = json.loads(json.dumps(document))
    at, path = copy, []
    while isinstance(at, (dict, list)) and at:
        keys: list[Any] = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = rng.choice(keys)
        path.append(key)
        if not isinstance(at[key], (dict, list)) or not at[key] or rng.random() < 0.3:
            if rng.random() < 0.25:
                del at[key]
                return f"without {path}", json.dumps(copy).encode()
            at[key] = rng.choice(ODD)
            return f"{path} is {at[key]!r:.20}", json.dumps(copy).encode()
        at = at[key]
    return "empty", b"{}"
