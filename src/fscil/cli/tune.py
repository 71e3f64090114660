"""`fscil tune`: choose options on pseudo-sessions."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fscil.cli.engine import tell_failures, with_engine
from fscil.cli.options import DeterministicOption, JsonOption, RecipeArgument, SetOption, load_config, print_json, say
from fscil.experiments.engines.settings import EngineSettings


@with_engine
def tune(
    *,
    recipe: RecipeArgument = "glyphs",
    tries: Annotated[
        list[str] | None,
        typer.Option("--try", help="Values to try: --try weight_novel=0.5,1,2 or layers=[3,4],[5]; repeat for a grid."),
    ] = None,
    method: Annotated[str, typer.Option("--method", help="Whose options.")] = "yourself",
    out: Annotated[Path | None, typer.Option("--out", help="Output folder (default: runs/RECIPE-tune).")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Draws of the pseudo-shots.")] = 3,
    settings: EngineSettings,
    deterministic: DeterministicOption = False,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose a method's options on pseudo-sessions made of base classes; the test set is not touched."""
    from fscil.core.progress import Reporter
    from fscil.core.storage import claiming
    from fscil.experiments import tune as tuning
    from fscil.experiments.preflight import check_settings
    from fscil.methods import make
    from fscil.metrics.names import label
    from fscil.pages.kit import table as tables
    from fscil.pages.kit.prose import plus_minus

    config = load_config(recipe, overrides, seeds=seeds, deterministic=deterministic)
    make(method, config.options.get(method))
    tuning.settings(tries or [], method)
    folder = out or Path("runs") / f"{config.recipe}-tune"
    folder = folder if settings.here else folder.resolve()  # workers have another working directory
    reporter = Reporter()
    with claiming(folder, force=False, resume=True):
        if settings.here:
            check_settings(config)
            tuning.pseudo_sessions(config, reporter)
    tuned = tuning.tune(config, method, tries or [], folder, reporter, settings)
    trials = tuned.trials
    if not trials:
        raise next(iter(tuned.failures.values())).error()
    if as_json:
        rows = [{"options": dict(t.options), "scores": dict(t.scores)} for t in trials]
        print_json({"method": method, "trials": rows})
        tell_failures(tuned.failures)
        return
    names = [
        ", ".join(f"{key}={json.dumps(value)}" for key, value in trial.options.items()) or "as in the recipe"
        for trial in trials
    ]
    title = f"{method} on pseudo-sessions of {config.recipe}, percent, mean ± deviation over {seeds} draws"
    scores = [[plus_minus(trial.spread(key)) for key in tuning.SCORES] for trial in trials]
    rows_of = [[name, *values] for name, values in zip(names, scores, strict=True)]
    made = tables.table(title, ["setting", *map(label, tuning.SCORES)], rows_of)
    say(f"{title}\n\n{tables.text(made)}\n")
    best = trials[0].options
    if best:
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in best.items())
        say(f"Best by gAcc; for a recipe:\n\n[options.{method}]\n{lines}")
    else:
        say("Nothing tried is better than the recipe as it is.")
    tell_failures(tuned.failures)
