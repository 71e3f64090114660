"""`fscil run` and its stages: train, features, eval, report; and join, which makes one network of several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fscil.cli import options
from fscil.cli.check import tell_check
from fscil.core.errors import InputError

if TYPE_CHECKING:
    from fscil.core.config import Config
    from fscil.experiments.run import Run

# Imports inside the commands: torch takes seconds to load, and `fscil --help` should not wait for it.


def run(
    recipe: options.RecipeArgument = "glyphs",
    out: options.OutOption = None,
    seeds: options.SeedsOption = None,
    device: options.DeviceOption = None,
    deterministic: options.DeterministicOption = False,
    methods: options.MethodsOption = None,
    overrides: options.SetOption = None,
    log: options.LogOption = None,
    resume: options.ResumeOption = False,
    force: options.ForceOption = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check recipe and images, estimate time and memory; write and run nothing."),
    ] = False,
    open_page: options.OpenOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """The whole pipeline: base training, sessions, report. Without arguments: the built-in benchmark on a CPU."""
    from fscil.pages.report.page import write_report
    from fscil.results.result import load_results

    options.refuse_both(resume, force)
    config = options.load_config(
        recipe, overrides, seeds=seeds, device=device, methods=methods, log=log, deterministic=deterministic
    )
    if check:
        tell_check(config, _folder(config, out), resume or force, as_json)
        return
    job = _open(config, out, resume=resume, force=force)
    paths = job.evaluate()
    page = job.out / "report.html"
    write_report(load_results(paths), job.analysis(), page, pictures=job.pictures(), data_notes=job.data_notes())
    _finish(job, page, as_json)
    if open_page:
        options.open_file(page)


def train(
    recipe: options.RecipeArgument = "glyphs",
    out: options.OutOption = None,
    device: options.DeviceOption = None,
    deterministic: options.DeterministicOption = False,
    overrides: options.SetOption = None,
    log: options.LogOption = None,
    resume: options.ResumeOption = False,
    force: options.ForceOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Base training alone: leaves OUT/base/backbone.safetensors. With torchrun on several devices and machines."""
    from fscil.core.hardware import helps
    from fscil.experiments.run import Run

    options.refuse_both(resume, force)
    config = options.load_config(recipe, overrides, device=device, log=log, deterministic=deterministic)
    if helps():
        Run.help_training(config, _folder(config, out), force=force)
        return
    job = _open(config, out, resume=resume, force=force)
    info, path = job.train().info, job.on.checkpoint
    if as_json:
        options.print_json({"checkpoint": str(path), "seconds": info["seconds"], "steps": info["steps"]})
    else:
        options.say(f"Trained in {info['seconds']:.0f} s: {path}")


def join(
    networks: Annotated[list[Path], typer.Argument(help="Trained networks, files or folders; at least two.")],
    out: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("joined.safetensors"),
    force: options.ForceOption = False,
) -> None:
    """Make one network of several that were trained on the same base session: their features side by side."""
    from fscil.training.joining import join_networks

    options.refuse_existing([out], force)
    joined = join_networks(networks, out)
    options.say(f"{len(networks)} networks in {out}, {joined.backbone.dim} features")


def features(
    recipe: options.RecipeArgument = "glyphs",
    out: options.OutOption = None,
    checkpoint: options.CheckpointOption = None,
    seeds: options.SeedsOption = None,
    device: options.DeviceOption = None,
    deterministic: options.DeterministicOption = False,
    methods: options.MethodsOption = None,
    overrides: options.SetOption = None,
) -> None:
    """Extract the features that the methods need, from a trained network."""
    config = options.load_config(
        recipe, overrides, checkpoint, seeds=seeds, device=device, methods=methods, deterministic=deterministic
    )
    job = _open_trained(config, out, checkpoint)
    job.features()
    options.say(f"Features are in {job.out / 'features'}")


def evaluate(
    recipe: options.RecipeArgument = "glyphs",
    out: options.OutOption = None,
    checkpoint: options.CheckpointOption = None,
    seeds: options.SeedsOption = None,
    device: options.DeviceOption = None,
    deterministic: options.DeterministicOption = False,
    methods: options.MethodsOption = None,
    overrides: options.SetOption = None,
    log: options.LogOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Run the methods over all sessions, from a trained network: one result.json per method and draw."""
    config = options.load_config(
        recipe, overrides, checkpoint, seeds=seeds, device=device, methods=methods, log=log, deterministic=deterministic
    )
    job = _open_trained(config, out, checkpoint)
    job.evaluate()
    _finish(job, None, as_json)


def report(
    results: Annotated[list[Path], typer.Argument(help="result.json files, or folders that hold them.")],
    out: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path("report.html"),
    force: options.ForceOption = False,
    open_page: options.OpenOption = False,
) -> None:
    """One self-contained HTML page from results."""
    from fscil.core.storage import read_json
    from fscil.pages.report.page import write_report
    from fscil.results.result import find_results, load_results

    options.refuse_existing([out], force)
    found = load_results(find_results(results))

    def beside(name: str) -> Any:
        """What `fscil run` left beside the results."""
        return next((read_json(folder / name) for folder in results if (folder / name).is_file()), None)

    write_report(
        found, beside("analysis.json"), out, pictures=beside("pictures.json"), data_notes=beside("data_notes.json")
    )
    options.say(f"Report: {out}")
    if open_page:
        options.open_file(out)


def _open(
    config: Config, out: Path | None, *, resume: bool, force: bool = False, checkpoint: Path | None = None
) -> Run:
    from fscil.core.progress import Reporter
    from fscil.experiments.run import Run

    folder = _folder(config, out)
    return Run.open(config, folder, resume=resume, force=force, checkpoint=checkpoint, reporter=Reporter())


def _folder(config: Config, out: Path | None) -> Path:
    return out or Path("runs") / config.recipe


def _open_trained(config: Config, out: Path | None, checkpoint: Path | None) -> Run:
    base = _folder(config, out) / "base"
    if checkpoint is None and not (base / "backbone.safetensors").exists():
        raise InputError(
            f"There is no trained network in {base}; run `fscil train {config.recipe}` first, or give --checkpoint."
        )
    return _open(config, out, resume=True, checkpoint=checkpoint)


def _finish(job: Run, page: Path | None, as_json: bool) -> None:
    if as_json:
        from fscil.core.storage import read_json

        results = [read_json(path) for path in job.result_paths()]
        options.print_json({"results": results, "report": str(page) if page else None})
        return
    from fscil.pages.report.prose import comparison_text
    from fscil.results.result import load_results

    options.say(comparison_text(load_results(job.result_paths())) + "\n")
    options.say(f"Report: {page.resolve()}" if page else f"Results: {job.out.resolve()}")
