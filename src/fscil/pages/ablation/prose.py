"""What the numbers of an ablation say, in sentences; nothing here is typed by hand for one result."""

from collections.abc import Mapping, Sequence

from fscil.metrics.names import HEADLINE, label
from fscil.pages.ablation.tables import CURVE_SCORES, option_text
from fscil.pages.kit.prose import listed, number, percent, plural
from fscil.pages.kit.templates import note
from fscil.results.ablation import MOMENTS, Ablation, AblationRow
from fscil.results.significance import LEVEL, Difference, spread

_STEP_NAMES = {
    "raw-layers": "averaging layers, untrained",
    "yourself-cos": "FR itself, with cos and novel cross-entropy",
    "yourself-all": "cross-entropy on all replayed classes",
    "yourself-cos-cr": "the class relation (CR)",
    "yourself": "the instance relation (IR)",
    "whitened": "whitened features in the ensemble",
}
_IN_EVERY_ROW = ("prototypes", "residual", "centring")  # with FR: of the recipe, and not added step by step


def headline(ablation: Ablation) -> str:
    if not ablation.steps:
        return f"What is inside YourSelf on {ablation.dataset}"
    before, after = (percent(ablation.steps[place].spread(HEADLINE).mean) for place in (0, -1))
    whole = ablation.whole_gain()
    if whole.judged and not whole.clear:
        return f"YourSelf as a whole changes gAcc from {before} to {after}, which is within the noise"
    gains = {key: gain for key, gain in ablation.gains().items() if key in _STEP_NAMES}
    best = max(gains, key=lambda key: gains[key].mean)
    sentence = f"YourSelf takes gAcc from {before} to {after}"
    return f"{sentence}; the largest step is {_STEP_NAMES[best]}" if gains[best].mean > 0 else sentence


def measured(ablation: Ablation) -> str:
    """The lede."""
    said = (
        f"Recipe {ablation.recipe} on {ablation.dataset}, {plural(ablation.draws, 'draw')} of the shots; in percent, "
    )
    said += "mean ± one standard deviation over draws. " if ablation.draws > 1 else "mean. "
    said += "One trained network, so chance in its training is not in the ±. All of it is measured on test images: "
    return said + "it is there to be read; to choose settings there is fscil tune, which does without them."


def steps_note(ablation: Ablation) -> str:
    said = note("steps", untrained=ablation.step("raw-layers") is not None)
    if clear := _clear(ablation.gains(), ablation.steps):
        said += f" {clear}"
    if (extra := ablation.options.get("weight_all")) and ablation.step("yourself-all") is None:
        said += (
            f" All rows with FR also have cross-entropy on all replayed classes (weight_all = {extra:g}), which the "
            "paper does not have."
        )
    kept = [name for name in _IN_EVERY_ROW if name in ablation.options]
    shared = listed([f"{name} = {option_text(ablation.options[name])}" for name in kept])
    return f"{said} All rows with FR have the recipe's {shared}." if shared else said


def choices_note(ablation: Ablation) -> str:
    clear = [
        f"{label(key)}: {found}" for key in CURVE_SCORES if (found := _clear(ablation.changed(key), ablation.choices))
    ]
    return " ".join([note("choices"), *clear])


def _clear(gains: Mapping[str, Difference], rows: Sequence[AblationRow]) -> str:
    """Which gains are more than chance; nothing where the draws cannot judge any."""
    if not any(gain.judged for gain in gains.values()):
        return ""
    clear = [row.label for row in rows if row.key in gains and gains[row.key].clear]
    rule = f"(p < {LEVEL:g}, Student's t with Holm's correction)"
    return f"Clear differences {rule}: {'; '.join(clear)}." if clear else f"No single difference is clear {rule}."


def sensitivity_notes(ablation: Ablation) -> list[str]:
    """What is varied, exactly."""
    lines = []
    for curve in ablation.curves:
        weights = listed([f"{name} = {value:g}" for name, value in curve.weights.items()])
        lines.append(f"{curve.label} is {curve.about}; the recipe has {weights}.")
    off = [curve.label for curve in ablation.curves if not curve.points]
    if off:
        lines.append(f"{listed(off)} cannot be varied: the recipe has {'it' if len(off) == 1 else 'them'} at 0.")
    return lines


def calibration_summary(ablation: Ablation) -> str:
    ensemble = next(each for each in ablation.predictors if each.key == "ensemble")
    errors = [ensemble.spread(moment, "all", "ece_mass").mean for moment in MOMENTS]
    before, after = map(percent, errors)
    sure, right = (ensemble.spread("before", "all", key).mean for key in ("confidence", "accuracy"))
    manner = "not sure enough" if sure < right else "too sure"
    if before == after:
        outcome = f"leaves its ECE (equal mass) at {before}"
    elif errors[1] < errors[0]:
        outcome = f"improves its ECE (equal mass) from {before} to {after}"
    else:
        outcome = f"makes its ECE (equal mass) worse: {after} instead of {before}"
    fitted = number(spread(ensemble.temperatures["left_out"]).mean)
    return (
        f"The ensemble is {manner} of itself: mean confidence {percent(sure)} at {percent(right)} accuracy. A "
        f"temperature of {fitted} {outcome}."
    )


def calibration_notes(ablation: Ablation) -> list[str]:
    """What the measures are, then how the temperature is fitted."""
    shot = ablation.config.get("data", {}).get("shot", 0)
    folds = min(5, shot)
    part = "one shot" if shot <= 5 else f"a share of 1/{folds} of the shots"
    scale = f"{ablation.options.get('scale', 16.0):g}"
    return [note("quality"), note("temperature", scale=scale), note("left_out_shots", part=part, folds=folds)]


def cost_note(ablation: Ablation) -> str:
    costs = {cost.key: cost for cost in ablation.costs}
    share = 100 * costs["all"].microseconds / costs["layers"].microseconds
    flops = 100 * costs["all"].mflops / costs["backbone"].mflops
    machine = ablation.hardware.get("name", "this machine")
    return note("inference", time=percent(share), arithmetic=percent(flops), batch=ablation.batch, machine=machine)
