"""Class by class: what is stored, what is read again, and what several draws come to."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from report_documents import document
from sklearn.metrics import confusion_matrix

from fscil.core.answers import count_answers, parse_answers
from fscil.core.errors import InputError
from fscil.results.confusion import class_accuracies, confused_pairs
from fscil.results.result import parse_result

NAMES = [f"class {index}" for index in range(6)]


def _asked(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """True classes in the order of the exams, and answers of which two in three are right."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(6), [7, 5, 9, 6, 4, 8])
    return truth, np.where(rng.random(len(truth)) < 0.66, truth, rng.integers(0, 6, len(truth)))


def test_counts_are_those_of_scikit_learn_and_survive_the_file() -> None:
    truth, named = _asked(0)
    found = count_answers(NAMES, truth, named)
    expected = confusion_matrix(truth, named, labels=range(6))
    counted = np.diag(np.diag(expected))
    for each in found.mistakes:
        counted[each.truth, each.named] += each.count
        assert truth[each.example] == each.truth
        assert named[each.example] == each.named
    assert (counted == expected).all()
    assert found.tested == tuple(expected.sum(1))
    assert found.accuracies() == pytest.approx(100 * np.diag(expected) / expected.sum(1))
    assert parse_answers(found.document(), 6, "file") == found


def _results(draws: int) -> list[Any]:
    made = []
    for draw in range(draws):
        answers = count_answers(NAMES, *_asked(draw)).document()
        made.append(parse_result(document("yourself", draw, classes=(4, 2), answers=answers)))
    return made


def test_pairs_are_pooled_over_draws_and_ranked_by_their_share() -> None:
    results = _results(3)
    counts: Counter[tuple[int, int]] = Counter()
    for draw in range(3):
        counts.update((int(t), int(n)) for t, n in zip(*_asked(draw), strict=True) if t != n)
    tested = 3 * np.bincount(_asked(0)[0])
    shares = {
        (a, b): (counts[a, b] + counts[b, a]) / (tested[a] + tested[b])
        for a in range(6)
        for b in range(a + 1, 6)
        if counts[a, b] + counts[b, a]
    }
    found = confused_pairs(results, 5)
    assert [shares[min(p.first, p.second), max(p.first, p.second)] for p in found] == sorted(shares.values())[:-6:-1]
    for pair in found:
        assert pair.first_as_second == pytest.approx(100 * counts[pair.first, pair.second] / tested[pair.first])
        assert pair.second_as_first == pytest.approx(100 * counts[pair.second, pair.first] / tested[pair.second])
        assert pair.first_as_second >= pair.second_as_first
        assert _asked(0)[0][pair.example] == pair.first
    means = np.mean([result.answers.accuracies() for result in results], axis=0)
    assert class_accuracies(results) == pytest.approx(means)


def test_results_of_before_have_no_answers() -> None:
    old = parse_result(document("yourself", 9, classes=(4, 2)))
    assert class_accuracies([*_results(1), old]) is None
    assert confused_pairs([old], 5) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"class_names": NAMES[:5]}, "5 names and 6 counts for 6 classes"),
        ({"mistakes": ["0 9 1 0"]}, "class 0 taken for class 9"),
        ({"mistakes": ["2 2 1 0"]}, "class 2 taken for class 2"),
        ({"mistakes": ["0 1 -1 0"]}, "-1 mistakes"),
        ({"mistakes": ["0 1 1 999"]}, "image 999 of 39"),
        ({"mistakes": ["0 1 8 0"]}, "more mistakes than images"),
        ({"mistakes": ["0 1"]}, "cannot be read"),
        ({"mistakes": 3}, "cannot be read"),
        ({"tested": None}, "cannot be read"),
    ],
)
def test_damaged_answers_are_refused_in_a_sentence(change: dict[str, Any], words: str) -> None:
    answers = count_answers(NAMES, *_asked(0)).document() | change
    with pytest.raises(InputError, match=r"^the result has 'answers' .*" + words):
        parse_result(document("yourself", 0, classes=(4, 2), answers=answers))
