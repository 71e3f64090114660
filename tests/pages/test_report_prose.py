"""The headline: what it says when a method is better, worse, or not to be told from chance."""

from __future__ import annotations

from typing import Any

import pytest
from report_documents import Page, pair, result

from fscil.pages.report.page import report_html
from fscil.pages.report.prose import balance, headline, spread_note
from fscil.results.comparison import compare_methods
from fscil.results.result import Result


def _say(results: list[Result]) -> str:
    return headline(compare_methods(results)).replace("\xa0", " ")


def _mean(results: list[Result], method: str, column: str) -> str:
    cell = compare_methods(results).row(method).cells[column]
    return f"{cell.mean:.1f} %"


def test_better_on_new_equal_on_base() -> None:
    results = pair(gain=5.0)
    base, plain = _mean(results, "yourself", "base_last"), _mean(results, "prototypes", "base_last")
    new, old = _mean(results, "yourself", "novel_last"), _mean(results, "prototypes", "novel_last")
    assert _say(results) == (
        f"YourSelf remembers the 60 base classes about as well as the ViT baseline ({base} and {plain}) and recognises "
        f"the 40 classes learned from five images each more often: {new} instead of {old}."
    )


@pytest.mark.parametrize(
    ("gains", "words"),
    [
        ({"gain": -5.0}, ["about as well as", " but recognises the 40 classes", "less often: "]),
        ({"gain": 5.0, "base_gain": -3.0}, ["base classes less often than", " but recognises", "more often: "]),
        ({"gain": -5.0, "base_gain": -3.0}, ["base classes less often than", " and recognises", "less often: "]),
        ({"gain": 5.0, "base_gain": 3.0}, ["base classes more often than", " and recognises", "more often: "]),
        ({"gain": 0.1}, ["about as well as", "about as often: ", "within the noise."]),
    ],
)
def test_wording_follows_the_outcome(gains: dict[str, Any], words: list[str]) -> None:
    sentence = _say(pair(**gains))
    assert all(word in sentence for word in words), sentence


def test_a_large_but_noisy_difference_is_called_unclear() -> None:
    results = [result("prototypes", draw) for draw in range(3)]
    results += [result("yourself", draw, novel=60 + gain) for draw, gain in enumerate((12.0, -9.0, 8.0))]
    sentence = _say(results)
    assert "shows no clear difference on the 40 classes" in sentence
    assert sentence.endswith("within the noise.")
    found = compare_methods(results)
    p = found.row("yourself").differences["gacc_grid"].adjusted
    assert balance(found).endswith(f"shared draws, within the noise (p = {p:.3f}).")


def test_twice_the_standard_error_is_not_clear_on_three_draws() -> None:
    """The verdict is that of Student's t: gains of 2, 3 and 6.5 points are 2.8 standard errors, and p is above 0.05."""
    results = [result("prototypes", draw, noise=0.0) for draw in range(3)]
    results += [result("yourself", draw, novel=60 + gain, noise=0.0) for draw, gain in enumerate((2.0, 3.0, 6.5))]
    gap = compare_methods(results).row("yourself").differences["novel_last"]
    assert gap.error is not None
    assert gap.mean > 2 * gap.error
    assert "shows no clear difference on the 40 classes" in _say(results)
    assert "≈ within the noise" in Page(report_html(results)).cells["novel_last", "yourself"]


def test_one_draw_claims_nothing() -> None:
    sentence = _say(pair(draws=1))
    assert "YourSelf recognises" in sentence
    assert sentence.endswith("One draw of images cannot tell whether the differences are more than chance.")
    assert "more often" not in sentence
    assert "no error to judge it by" in balance(compare_methods(pair(draws=1)))
    assert spread_note(pair(draws=1)).startswith("One draw")


def test_different_draws_claim_nothing() -> None:
    results = [result("prototypes", 0), result("prototypes", 1), result("yourself", 2), result("yourself", 3)]
    assert _say(results).endswith("different draws of images, so the differences may be chance.")
    assert "no draw is shared" in balance(compare_methods(results))


def test_the_same_difference_in_every_draw_claims_nothing() -> None:
    results = [result("prototypes", draw, classes=(60,), noise=0.0) for draw in range(3)]
    results += [result("yourself", draw, classes=(60,), base=85.0, noise=0.0) for draw in range(3)]
    assert _say(results).endswith("so the draws cannot tell whether it is more than chance.")


def test_gain_and_loss_of_balance() -> None:
    assert "a gain of " in balance(compare_methods(pair(gain=5.0)))
    assert "a loss of " in balance(compare_methods(pair(gain=-5.0)))
    found = compare_methods(pair(gain=5.0))
    p = found.row("yourself").differences["gacc_grid"].adjusted
    assert balance(found).endswith(f"shared draws, more than chance explains (p = {p:.3f}).")


def test_one_method_alone() -> None:
    assert _say([result()]).startswith("YourSelf recognises ")
    assert "of those of the 40 classes learned from five images each." in _say([result()])
    assert _say([result("prototypes", classes=(60,))]).endswith("of the test images of the 60 base classes.")
    assert _say([result("prototypes")]).startswith("The ViT baseline recognises ")
    assert _say([result(config={})]).endswith("the 40 classes learned later.")


def test_many_methods_name_the_leader_first() -> None:
    results = pair(gain=5.0) + [result("third", draw, novel=50.0) for draw in range(3)]
    assert _say(results).startswith(
        "Of 3 methods, YourSelf has the best mean balance of old and new classes, clearly above the ViT baseline. "
        "It remembers "
    )
    losers = pair(gain=-5.0) + [result("third", draw, novel=50.0 + draw) for draw in range(3)]
    assert _say(losers).startswith("None of the 2 others is clearly better balanced than the ViT baseline; closest is")


def test_a_clear_difference_never_prints_as_equal_numbers() -> None:
    results = [result("prototypes", draw, novel=60.0, noise=0.0) for draw in range(3)]
    gains = (0.020, 0.021, 0.022)
    results += [
        result("yourself", draw, novel=60.0 + gain, noise=0.0, base=84 + gain) for draw, gain in enumerate(gains)
    ]
    assert "56.52 % instead of 56.50 %" in _say(results)


def test_the_note_says_what_the_spread_covers() -> None:
    assert "trained once" in spread_note(pair())
    seeds = [result(seed=seed, draw=0) for seed in (0, 1)]
    assert "training seed; the images shown are always the same" in spread_note(seeds)
    both = [result(seed=seed, draw=seed) for seed in (0, 1)]
    assert "training seed and of the images shown" in spread_note(both)
    uneven = [*pair(draws=2), result("yourself", 5)]
    assert "Not all methods have the same draws" in spread_note(uneven)
