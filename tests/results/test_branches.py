"""A branch of an ensemble that died is said, on the page and in the terminal, from result.json alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from feature_worlds import make_layered_world
from report_documents import document, pair

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.methods import YourSelf
from fscil.metrics import summary
from fscil.pages.report.page import report_html
from fscil.pages.report.prose import branch_notes, comparison_text
from fscil.results.branches import dead_branches
from fscil.results.result import Result, parse_result


def with_branches(base: dict[str, list[float]], draw: int = 0) -> Result:
    """A result whose branches have these base accuracies after the sessions; new classes at 40 %."""
    variants = {label: {"matrix": [[b, *[40.0] * i] for i, b in enumerate(rows)]} for label, rows in base.items()}
    return parse_result(document(draw=draw, variants=variants))


ALIVE = [84.0, 80.0, 78.0, 75.0, 70.0, 66.0, 60.0, 55.0, 50.0]


@pytest.mark.parametrize(
    ("sessions", "accuracy", "dead"),
    [
        ((2, 3, 4), 0.0, True),
        ((8,), 8.3, True),  # a tenth of 84 is 8.4
        ((8,), 8.5, False),
        ((), 0.0, False),
    ],
)
def test_a_branch_is_dead_below_a_tenth_of_its_first_accuracy(
    sessions: tuple[int, ...], accuracy: float, dead: bool
) -> None:
    rows = [accuracy if i in sessions else value for i, value in enumerate(ALIVE)]
    found = dead_branches([with_branches({"block 8": rows, "block 9": ALIVE})])
    assert [(one.label, one.sessions, one.lowest) for one in found] == [("block 8", sessions, accuracy)] * dead


@pytest.mark.parametrize(("accuracy", "dead"), [(3.2, True), (3.4, False)])
def test_a_branch_is_dead_below_twice_chance_from_the_start(accuracy: float, dead: bool) -> None:
    """Sixty classes: chance is 1.67 %, twice of it 3.33."""
    found = dead_branches([with_branches({"block 8": [accuracy, *[20.0] * 8]})])
    assert [one.sessions for one in found] == [(0,)] * dead


def test_what_is_no_branch_of_a_layer_is_not_asked() -> None:
    assert not dead_branches([with_branches({"whitened": [80.0, *[0.0] * 8]}), *pair()])


def test_page_and_terminal_say_it_once_for_all_draws() -> None:
    dying = [84.0, 80.0, *[0.0] * 7]
    results = [with_branches({"block 8": dying if draw else ALIVE}, draw) for draw in range(3)]
    (note,) = branch_notes(results)
    assert note.startswith("YourSelf: the branch of block 8 died in 2 of 3 draws, first after session 2.")
    assert "0.0\u00a0% of the test images" in note
    assert "84.0\u00a0% after the base session" in note
    assert note in report_html(results)
    assert note.replace("\u00a0", " ") in comparison_text(results)
    healthy = pair()
    assert "died" not in comparison_text(healthy)
    assert "died" not in report_html(healthy)


def test_a_damaged_variant_is_refused_in_a_sentence() -> None:
    for matrix in (None, "none", [["a"]], [[80.0]]):
        damaged = parse_result(document(variants={"block 8": {"matrix": matrix}}))
        with pytest.raises(InputError, match="no readable matrix for 'block 8'"):
            dead_branches([damaged])


def test_a_rate_that_kills_the_branches_is_noticed() -> None:
    """YourSelf itself, with a rate a hundred times too high, and with the usual one."""
    sessions, exams = make_layered_world()
    classes = tuple(len(session.classes) for session in sessions)

    def run(lr: float) -> dict[str, Any]:
        method = YourSelf(layers=(2, 3), base_steps=30, novel_steps=30)
        method.start(seed=0, depth=4, device=torch.device("cpu"))
        rows: dict[str, list[list[float]]] = {"": []}
        for session in sessions:
            method.lr = lr if session.index else 0.1
            (method.fit_novel if session.index else method.fit_base)(session)
            for label, scorer in {"": method.scores, **method.variants()}.items():
                right = [
                    float((scorer(view).argmax(1) == labels).double().mean())
                    for view, labels in exams[: session.index + 1]
                ]
                rows.setdefault(label, []).append([100 * share for share in right])
        matrices = {label: AccuracyMatrix.from_lists(found, classes) for label, found in rows.items()}
        variants = {label: {"matrix": matrix.to_lists()} for label, matrix in matrices.items() if label}
        own = {"classes": list(classes), "test_counts": [], "matrix": matrices[""].to_lists()}
        return document(**own, metrics=dict(summary(matrices[""])), variants=variants)  # type: ignore[arg-type]

    assert not dead_branches([parse_result(run(0.1))])
    assert {one.label for one in dead_branches([parse_result(run(1000.0))])} == {"block 2", "block 3"}
