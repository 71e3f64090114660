"""When rectification helps and when it does not, in words, from what was measured of a network."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fscil.metrics.names import HEADLINE, label
from fscil.pages.kit.prose import counted, listed, number, percent, signed
from fscil.pages.kit.table import Table, table
from fscil.pages.kit.templates import note
from fscil.results.ablation import Ablation, AblationRow
from fscil.results.significance import paired


@dataclass(frozen=True)
class Rule:
    """One measured quantity, the limit it is judged by, and what both outcomes mean."""

    key: str
    about: str
    limit: float
    most: bool  # the limit is the highest that is good (else the lowest)
    good: str
    bad: str
    reason: str  # why rectification does not help, where it is bad
    unit: str = ""
    enough: Callable[[Iterable[bool]], bool] = all  # of the layers must be good

    def holds(self, values: Mapping[int, float]) -> bool:
        return self.enough(value <= self.limit if self.most else value >= self.limit for value in values.values())

    def shown(self, value: float) -> str:
        return percent(value) if self.unit else number(value)


RULES = (
    Rule(
        "cka", "similarity of layer and final features (linear CKA)", 0.95, True,
        "The layers hold something that the final features do not.",
        "Every layer says what the final features say: there is nothing to rectify them with.",
        "every layer repeats the final features",
        enough=any,
    ),
    Rule(
        "cosine", "cosine of a class's mean in the layer and in the final features", 0.3, False,
        "Final prototypes can be compared with features of the layers.",
        "A layer is a space of its own, where final prototypes mean little: CR wants the layer's own class means.",
        "a layer is a space of its own",
    ),
    Rule(
        "head", "cosine of the classifier's weights and the class means", 0.9, False,
        "The classifier's weights and class means agree: base and new classes are compared by like with like.",
        "The classifier's weights point elsewhere than class means: base and new classes are compared by unlike.",
        "the classifier's weights and the class means disagree",
    ),
    Rule(
        "common", "length of the mean feature, of the mean length of a feature", 50.0, True,
        "Features differ by more than they share: their cosines tell classes apart.",
        "Most of a feature is the same for all images: cosines are all high and tell little; centring takes it off.",
        "features share more than they differ by",
        "%",
    ),
    Rule(
        "entropy", "entropy of the CR target on base images, of the highest possible", 95.0, True,
        "The target of CR prefers some classes to others.",
        "The target of CR is near even over all classes: following it unlearns.",
        "the target of CR says hardly anything",
        "%",
    ),
    Rule(
        "wrong", "base images for which the CR target names a wrong class", 50.0, True,
        "The target of CR names the right class for most base images.",
        "The target of CR names a wrong class for most base images.",
        "the target of CR is mostly wrong",
        "%",
    ),
    Rule(
        "novel", "base images for which the CR target names a new class", 10.0, True,
        "The target of CR rarely takes a base image for one of a new class.",
        "The target of CR takes many base images for new classes: following it loses the base classes.",
        "the target of CR takes base images for new classes",
        "%",
    ),
)  # fmt: skip


def diagnosis_table(ablation: Ablation) -> Table:
    rows = []
    for rule, values in _judged(ablation):
        limit = f"{'at most' if rule.most else 'at least'} {rule.shown(rule.limit)}"
        places = [f"{_place(block)} {rule.shown(value)}" for block, value in values.items()]
        held = rule.holds(values)
        rows.append([rule.about, ", ".join(places), limit, "yes" if held else "no", rule.good if held else rule.bad])
    header = ["measured", "layer by layer", "good is", "good?", "which means"]
    return table("When rectification helps, and why", header, rows)


def diagnosis_note(ablation: Ablation) -> str:
    """The verdict of the rules, then what was measured."""
    judged = _judged(ablation)
    failed = [rule for rule, values in judged if not rule.holds(values)]
    if failed:
        verdict = f"By these rules rectification should not help here: {listed([rule.reason for rule in failed])}."
    else:
        verdict = f"By these rules rectification should help here: all {counted(len(judged))} quantities are good."
    return " ".join(filter(None, [note("diagnosis"), verdict, _measured(ablation)]))


def _measured(ablation: Ablation) -> str:
    """What FR gives over class means and over untrained layers; empty where that was not measured."""
    ours = [row for row in ablation.steps if row.key.startswith("yourself")]
    references = {"class means": ablation.step("prototypes"), "the untrained layers": ablation.step("raw-layers")}
    said = [_difference(ours[-1], row, name) for name, row in references.items() if ours and row]
    return f"Measured, all of FR changes {label(HEADLINE)} by {listed(said)}." if said else ""


def _difference(row: AblationRow, reference: AblationRow, name: str) -> str:
    gaps = [a - b for a, b in zip(row.scores[HEADLINE], reference.scores[HEADLINE], strict=True)]
    found = paired(gaps)
    chance = "" if not found.judged or found.clear else " (within the noise)"
    return f"{signed(found.mean)} over {name}{chance}"


def _judged(ablation: Ablation) -> list[tuple[Rule, Mapping[int, float]]]:
    """Every rule with what was measured for it, by block; the target of CR is that of the layers alone."""
    found: list[tuple[Rule, Mapping[int, float]]] = []
    for rule in RULES:
        if rule.key == "head" and ablation.options.get("prototypes") != "head":
            continue  # class means stand for all classes
        if rule.key == "cosine" and ablation.options.get("own_relations", True):
            continue  # no final prototype is compared with a layer
        target = rule.key in ("entropy", "wrong", "novel")
        values = {
            each.block: each.values[rule.key]
            for each in ablation.diagnosis
            if rule.key in each.values and (each.block or not target)
        }
        if values:
            found.append((rule, values))
    return found


def _place(block: int) -> str:
    return f"block {block}:" if block else "final:"
