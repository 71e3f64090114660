"""Class by class: how often each is named, what it looks like, and which are taken for each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fscil.pages.kit.prose import counted, listed, number, percent, session_name
from fscil.pages.kit.table import Table, TableCell, table
from fscil.results.comparison import Comparison, MethodRow
from fscil.results.confusion import class_accuracies, confused_pairs
from fscil.results.pictures import PAIRS, Pictures

HARDEST = 12
_ALL_SHOWN = 400  # classes with a card of their own; more are in the table alone


@dataclass(frozen=True)
class Card:
    """One class."""

    name: str
    when: str  # base, or its session
    accuracy: float
    strip: str  # base64 of its samples; empty where there are none
    images: int  # in the strip


@dataclass(frozen=True)
class PairCard:
    """Two classes that are taken for each other."""

    first: Card
    second: Card
    text: str
    example: str  # base64 of an image of the first that was taken for the second


def class_section(found: Comparison, leader: MethodRow, pictures: Pictures) -> dict[str, Any] | None:
    """What the template shows; None where the results do not tell."""
    accuracies = class_accuracies(leader.results)
    if accuracies is None or not len(accuracies) or np.isnan(accuracies).any():
        return None
    cards = _cards(leader, accuracies, pictures)
    hardest = sorted(range(len(cards)), key=lambda index: (accuracies[index], index))[:HARDEST]
    all_shown = HARDEST < len(cards) <= _ALL_SHOWN
    return {
        "method": leader.title,
        "summary": _summary(leader, accuracies, cards),
        "hardest": [cards[index] for index in (hardest if len(cards) > HARDEST else range(len(cards)))],
        "groups": _grouped(cards) if all_shown else [],
        "count": len(cards),
        "table": _table(found, cards),
        "pairs": _pairs(leader, cards, pictures),
        "pairs_table": _pairs_table(leader, cards),
        "side": pictures.side,
    }


def _cards(row: MethodRow, accuracies: np.ndarray, pictures: Pictures) -> list[Card]:
    answers, classes = row.results[0].answers, row.results[0].matrix.classes
    assert answers is not None
    session = np.repeat(np.arange(len(classes)), classes)
    shown = len(pictures.samples) == len(accuracies)
    return [
        Card(
            name,
            session_name(int(session[index])),
            float(accuracies[index]),
            pictures.samples[index] if shown else "",
            pictures.counts[index] if shown else 0,
        )
        for index, name in enumerate(answers.class_names)
    ]


def _grouped(cards: Sequence[Card]) -> list[tuple[str, list[Card]]]:
    groups: dict[str, list[Card]] = {}
    for card in cards:
        groups.setdefault(card.when, []).append(card)
    return [("Base classes" if when == session_name(0) else f"Session {when}", each) for when, each in groups.items()]


def _summary(row: MethodRow, accuracies: np.ndarray, cards: Sequence[Card]) -> str:
    best, worst = float(accuracies.max()), float(accuracies.min())
    name = f"the {row.title}" if row.title.lower().endswith("baseline") else row.title
    if best == worst:
        return f"After the last session {name} names {percent(best)} of the test images of every class."
    lowest = [card.name for card in cards if card.accuracy == worst]
    low = listed(lowest[:3]) if len(lowest) <= 3 else counted(len(lowest), "class", "classes")
    return (
        f"After the last session {name} names {percent(float(np.median(accuracies)))} of the test images of the class "
        f"in the middle, {percent(best)} of the best and {percent(worst)} of the worst ({low})."
    )


def _pairs(leader: MethodRow, cards: Sequence[Card], pictures: Pictures) -> list[PairCard]:
    made = []
    for pair in confused_pairs(leader.results, PAIRS):
        first, second = cards[pair.first], cards[pair.second]
        text = f"{percent(pair.first_as_second)} of “{first.name}” taken for “{second.name}”"
        if pair.second_as_first:
            text += f", {percent(pair.second_as_first)} the other way round"
        made.append(PairCard(first, second, f"{text}.", pictures.mistakes.get(pair.example, "")))
    return made


def _table(found: Comparison, cards: Sequence[Card]) -> Table:
    by_row = {row.method: class_accuracies(row.results) for row in found.rows}
    rows = [row for row in found.rows if by_row[row.method] is not None]
    answers = next(result.answers for row in rows for result in row.results)
    assert answers is not None

    def cells(index: int) -> list[str | TableCell]:
        known = [
            TableCell(number(float(values[index]), 1), data={"class": str(index), "method": row.method})
            for row in rows
            if (values := by_row[row.method]) is not None
        ]
        return [cards[index].name, cards[index].when, str(answers.tested[index]), *known]

    header = ["Class", "Session", "Test images", *(row.title for row in rows)]
    return table("Accuracy class by class in percent", header, [cells(index) for index in range(len(cards))])


def _pairs_table(leader: MethodRow, cards: Sequence[Card]) -> Table:
    rows = [
        [
            cards[pair.first].name,
            cards[pair.second].name,
            number(pair.first_as_second, 1),
            number(pair.second_as_first, 1),
        ]
        for pair in confused_pairs(leader.results, 50)
    ]
    header = ["Class", "Taken for", "In percent of its images", "The other way round"]
    return table(f"Most confused pairs of {leader.title}", header, rows)
