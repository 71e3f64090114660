"""The command line. Exit codes: 0 done, 1 failed, 2 bad input (one sentence that says what to do), 130 interrupted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from fscil.cli import ablate as cli_ablate
from fscil.cli import bench as cli_bench
from fscil.cli import paper as cli_paper
from fscil.cli import show as cli_show
from fscil.cli import teach as cli_teach
from fscil.cli import tune as cli_tune
from fscil.core.errors import InputError

app = typer.Typer(
    help="Few-shot class-incremental learning: train, evaluate, measure, report.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_teach.app, name="teach")
app.command("predict")(cli_teach.predict)
app.command("doctor")(cli_teach.doctor)
app.command("export")(cli_teach.export)
app.command("serve")(cli_teach.serve)
app.add_typer(cli_paper.app, name="paper")
app.command("tune")(cli_tune.tune)
app.command("ablate")(cli_ablate.ablate)
app.command("bench")(cli_bench.bench)
app.command("metrics")(cli_show.metrics)
app.command("methods")(cli_show.methods)
app.command("datasets")(cli_show.datasets)

RecipeArgument = Annotated[str, typer.Argument(help="Name of a recipe, or a .toml file.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Output folder [default: runs/RECIPE].")]
SeedsOption = Annotated[int | None, typer.Option("--seeds", min=1, help="Number of shot draws.")]
DeviceOption = Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda or mps.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override a key: --set train.epochs=10.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue what is in the output folder.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Start over in an existing output folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
CheckpointOption = Annotated[
    Path | None, typer.Option("--checkpoint", help="A trained network (file or folder) [default: OUT/base].")
]
MethodsOption = Annotated[str | None, typer.Option("--methods", help="Comma-separated names; see `fscil methods`.")]


@app.command()
def run(
    recipe: RecipeArgument = "glyphs",
    out: OutOption = None,
    seeds: SeedsOption = None,
    device: DeviceOption = None,
    methods: MethodsOption = None,
    overrides: SetOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """The whole pipeline: base training, sessions, report. Without arguments: the built-in benchmark on a CPU."""
    job = _open(recipe, out, seeds, device, methods, overrides, resume, force)
    report = job.all()
    _finish(job, report, as_json)


@app.command()
def train(
    recipe: RecipeArgument = "glyphs",
    out: OutOption = None,
    device: DeviceOption = None,
    overrides: SetOption = None,
    resume: ResumeOption = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Base training alone: leaves OUT/base/backbone.safetensors."""
    job = _open(recipe, out, None, device, None, overrides, resume, force)
    info = job.train().info
    path = job.out / "base" / "backbone.safetensors"
    if as_json:
        _print_json({"checkpoint": str(path), "seconds": info["seconds"], "steps": info["steps"]})
    else:
        typer.echo(f"Trained in {info['seconds']:.0f} s: {path}")


@app.command()
def features(
    recipe: RecipeArgument = "glyphs",
    out: OutOption = None,
    checkpoint: CheckpointOption = None,
    seeds: SeedsOption = None,
    device: DeviceOption = None,
    methods: MethodsOption = None,
    overrides: SetOption = None,
) -> None:
    """Extract the features that the methods need, from a trained network."""
    job = _open(recipe, out, seeds, device, methods, overrides, True, False)
    _need_checkpoint(job, checkpoint)
    job.features()
    typer.echo(f"Features are in {job.out / 'features'}")


@app.command("eval")
def evaluate(
    recipe: RecipeArgument = "glyphs",
    out: OutOption = None,
    checkpoint: CheckpointOption = None,
    seeds: SeedsOption = None,
    device: DeviceOption = None,
    methods: MethodsOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the methods over all sessions, from a trained network: one result.json per method and draw."""
    job = _open(recipe, out, seeds, device, methods, overrides, True, False)
    _need_checkpoint(job, checkpoint)
    job.evaluate()
    _finish(job, None, as_json)


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="result.json files, or folders that hold them.")],
    out: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path("report.html"),
    force: ForceOption = False,
) -> None:
    """One self-contained HTML page from results."""
    from fscil.core.storage import read_json
    from fscil.pages.report.page import write_report
    from fscil.results.result import find_results, load_results

    if out.exists() and not force:
        raise InputError(f"{out} already exists; add --force to overwrite it, or choose another --out.")
    paths = find_results(results)
    analysis = next((folder / "analysis.json" for folder in results if (folder / "analysis.json").is_file()), None)
    write_report(load_results(paths), read_json(analysis) if analysis else None, out)
    typer.echo(f"Report: {out}")


def _open(
    recipe: str,
    out: Path | None,
    seeds: int | None,
    device: str | None,
    methods: str | None,
    overrides: list[str] | None,
    resume: bool,
    force: bool,
) -> Any:
    # Imported here: torch takes seconds to load, and `fscil --help` should not wait for it.
    from fscil.core import config as configs
    from fscil.core.progress import Reporter
    from fscil.experiments.run import Run

    extra = list(overrides or [])
    if seeds is not None:
        extra.append(f"draws={seeds}")
    if device is not None:
        extra.append(f"accelerator={device}")
    if methods is not None:
        extra.append(f"methods={methods}")
    config = configs.load(recipe, extra)
    return Run.open(config, out or Path("runs") / config.recipe, resume=resume, force=force, reporter=Reporter())


def _need_checkpoint(job: Any, checkpoint: Path | None) -> None:
    if checkpoint is not None:
        job.use_checkpoint(checkpoint)
    elif not (job.out / "base" / "backbone.safetensors").exists():
        raise InputError(
            f"There is no trained network in {job.out / 'base'}; "
            f"run `fscil train {job.config.recipe}` first, or give --checkpoint."
        )


def _finish(job: Any, report: Path | None, as_json: bool) -> None:
    paths = [job.result_path(name, draw) for name in job.config.methods for draw in range(job.config.draws)]
    if as_json:
        from fscil.core.storage import read_json

        _print_json({"results": [read_json(path) for path in paths], "report": str(report) if report else None})
        return
    from fscil.pages.report.text import comparison_text
    from fscil.results.result import load_results

    typer.echo(comparison_text(load_results(paths)) + "\n")
    typer.echo(f"Report: {report.resolve()}" if report else f"Results: {job.out.resolve()}")


def _print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


_INTERRUPTED = 130


def main() -> None:
    try:
        # Outside its standalone mode typer hands exit codes back instead of leaving: also that of Ctrl-C.
        code = app(standalone_mode=False)
    except InputError as error:
        _fail(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except typer.Exit as error:
        code = error.exit_code
    except Exception as error:
        if hasattr(error, "format_message"):  # a misspelt option or command
            _fail(error.format_message(), 2)
        raise
    if code == _INTERRUPTED:
        _fail("Interrupted; nothing is lost: run the same command again with --resume to continue.", code)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(sentence: str, code: int) -> NoReturn:
    print(f"fscil: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
