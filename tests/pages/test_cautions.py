"""Before the numbers: a weak network, one that others trained, chance, and what is wrong with the images."""

from __future__ import annotations

from typing import Any

from report_documents import document

from fscil.pages.report.cautions import cautions, guessing
from fscil.pages.report.page import report_html
from fscil.pages.report.prose import comparison_text
from fscil.results.data_notes import DataNotes
from fscil.results.result import Result, parse_result


def results(**changes: Any) -> list[Result]:
    return [parse_result(document(method, **changes)) for method in ("prototypes", "yourself")]


def test_nothing_is_said_of_a_good_network() -> None:
    assert cautions(results(base=60.0)) == []
    assert "Before you believe" not in report_html(results(base=60.0))


def test_a_weak_network_is_named_in_the_terminal_and_on_the_page() -> None:
    found = results(base=30.0, novel=10.0)
    (sentence,) = cautions(found)
    best = max(result.matrix.values[0, 0] for result in found)
    assert "The network is weak" in sentence
    assert f"{best:.1f}" in sentence
    assert "guessing: 1.7" in sentence
    assert sentence.replace("\xa0", " ") in comparison_text(found)
    assert sentence in report_html(found)


def test_a_network_that_guesses_is_said_to_guess() -> None:
    (sentence,) = cautions(results(base=3.0, novel=2.0, noise=0.1))
    assert "hardly better than guessing" in sentence
    # Of two classes half of the images are named right by chance: half is nothing then.
    (sentence,) = cautions(results(base=60.0, novel=20.0, noise=0.1, classes=(2, 1)))
    assert "hardly better than guessing" in sentence


def test_weights_that_others_trained_are_named() -> None:
    config = {"backbone": {"pretrained": True, "name": "vit_small"}, "data": {"shot": 5}}
    (sentence,) = cautions(results(base=90.0, config=config))
    assert "vit_small" in sentence
    assert "do not compare" in sentence


def test_chance_is_on_every_page() -> None:
    found = results()
    assert guessing(found).replace("\xa0", " ") == (
        "Guessing would name 1.7 % of the test images in the base session and 1.0 % at the end."
    )
    assert guessing(found) in report_html(found)


def test_what_is_wrong_with_the_images_is_on_the_page() -> None:
    notes = DataNotes(("zebra",), 3, 0, "cat")
    page = report_html(results(), data_notes=notes.document())
    for sentence in notes.sentences():
        assert sentence in page
