"""The doctor's words: what each finding says and advises, and the report for people."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fscil.teach.project.records import Diagnosis, Finding, FolderResult, Severity

_FINDINGS = tomllib.loads(Path(__file__).with_name("findings.toml").read_text(encoding="utf-8"))
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
    usual = _FINDINGS[kind]
    message, advice = usual["message"].format(**values), usual["advice"].format(**values)
    return Finding(kind, severity or usual["severity"], message, advice, list(images), list(classes))


def finding_key(kind: str, images: Sequence[str]) -> str:
    """Names a finding for as long as it is about the same images."""
    return " ".join([kind, *sorted(images)])


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
