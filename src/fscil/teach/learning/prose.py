"""The doctor's words: what each finding says and advises, and the report for people."""

from collections.abc import Sequence
from typing import Any

from fscil.teach.project.records import Diagnosis, Finding, FolderResult, Severity

# kind: severity, message, advice
_FINDINGS: dict[str, tuple[Severity, str, str]] = {
    "empty": ("problem", "The project knows no class yet.", "Teach it two classes or more."),
    "one_class": (
        "warning",
        "There is one class only, so 'unknown' rests on the encoder's expectation.",
        "Teach a second class: something that is easily taken for the first.",
    ),
    "few_images": (
        "warning",
        "{names} {have} fewer than {limit} images.",
        "Add images until there are five, taken from different sides and in different light.",
    ),
    "imbalance": (
        "info",
        "'{name}' has {count} images, a typical class {typical:.0f}.",
        "Answers are corrected for the number of images; more images of the small classes help most.",
    ),
    "same_picture_two_classes": (
        "problem",
        "{pair} look like one picture, but one is in '{one}' and the other in '{other}'.",
        "Remove the one that is wrong.",
    ),
    "near_duplicate": (
        "warning",
        "{pair} in '{one}' look like one picture.",
        "Remove one and add a different picture: a copy teaches nothing and makes the class look easier than it is.",
    ),
    "contradictory_class": (
        "problem",
        "{wrong} of {tested} images of '{name}' look more like other classes than like it.",
        "If it holds different things, make a class of each; else add images until it is consistent.",
    ),
    "looks_like_another": (
        "warning",
        "{file} is in '{name}' but looks like '{other}'.",
        "Look at it: if it shows '{other}', move it there; if it is a bad picture, remove it.",
    ),
    "confusable": (
        "info",
        "'{one}' and '{other}' are taken for each other: {count} of their {of} images.",
        "Add images that show what sets them apart; or make them one class, if the difference does not matter.",
    ),
    "worst_images": (
        "info",
        "Least like the rest of their class: {shown}.",
        "Look at them. Odd but right ones are worth keeping, with more of their kind; bad ones are better removed.",
    ),
    "enough": (
        "info",
        "Going {step} brought {gain:+.1f} points: the images seem enough for these classes.",
        "Rather than more of the same, add pictures of situations that are missing.",
    ),
    "more_helps": (
        "info",
        "Going {step} still brought {gain:+.1f} points of accuracy.",
        "More images will help: bring the classes to {more} or more.",
    ),
}
_SIGNS: dict[Severity, str] = {"problem": "!!", "warning": "! ", "info": "- "}
SHOWN = 12  # findings of one severity; the rest is counted


def finding(
    kind: str,
    *,
    images: Sequence[str] = (),
    classes: Sequence[str] = (),
    severity: Severity | None = None,
    **values: Any,
) -> Finding:
    usual, message, advice = _FINDINGS[kind]
    return Finding(
        kind, severity or usual, message.format(**values), advice.format(**values), list(images), list(classes)
    )


def diagnosis_text(diagnosis: Diagnosis) -> str:
    lines = [f"{diagnosis.classes} classes, {diagnosis.images} images.", ""]
    if diagnosis.expected_accuracy is None:
        lines += ["Too few images to say what accuracy to expect: give at least two per class.", ""]
    else:
        lines += [
            f"Expected accuracy  {diagnosis.expected_accuracy:.0f} %  (95 % interval {diagnosis.expected_low:.0f} to "
            f"{diagnosis.expected_high:.0f}) on pictures like those given,",
            f"                   each left out in turn; {diagnosis.called_unknown:.0f} % of them are called unknown.",
            "",
        ]
    if diagnosis.learning_curve:
        lines += ["Images per class   " + "".join(f"{point.images:>6}" for point in diagnosis.learning_curve)]
        lines += ["Accuracy, percent  " + "".join(f"{point.accuracy:>6.1f}" for point in diagnosis.learning_curve), ""]
    if diagnosis.test is not None:
        lines += _test(diagnosis.test)
    for severity, sign in _SIGNS.items():
        found = [each for each in diagnosis.findings if each.severity == severity]
        for each in found[:SHOWN]:
            lines += [f"{sign} {each.message}", f"   {each.advice}"]
        if len(found) > SHOWN:
            lines += [f"{sign} and {len(found) - SHOWN} more of this kind; --json lists all."]
    if not diagnosis.findings:
        lines += ["Nothing to complain about."]
    return "\n".join(lines).rstrip()


def _test(test: FolderResult) -> list[str]:
    tested = sum(c.tested for c in test.classes)
    lines = [
        f"Test folder        {test.accuracy:.1f} % of {tested} images right, {test.called_unknown:.1f} % called unknown"
    ]
    if test.rejected is not None:
        lines += [f"                   {test.rejected:.1f} % of the images of classes never taught are called unknown"]
    if test.gacc_grid is not None:
        lines += [
            f"                   the {test.base_classes} classes taught first {test.base:.1f} %, later ones "
            f"{test.novel:.1f} %, gAcc (grid) {test.gacc_grid:.1f}, gAcc (exact) {test.gacc_exact:.1f}"
        ]
    worst = sorted(test.classes, key=lambda c: c.right / c.tested)[:5]
    lines += ["                   worst: " + ", ".join(f"'{c.name}' {c.right}/{c.tested}" for c in worst), ""]
    return lines
