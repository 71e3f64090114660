"""`fscil bench`: every method on every draw, and one page that compares them; `fscil bench status`: how far it is."""

from pathlib import Path
from typing import Annotated

import typer

from fscil.cli.engine import tell_failures, with_engine
from fscil.cli.options import DeterministicOption, DeviceOption, JsonOption, changes, print_json, refuse_both, say
from fscil.cli.progress import tell_foreseen, tell_record
from fscil.core.errors import InputError
from fscil.core.stored_networks import find_checkpoint
from fscil.experiments.engines.settings import EngineSettings

app = typer.Typer(invoke_without_command=True)


@app.callback()
@with_engine
def bench(
    *,
    context: typer.Context,
    methods: Annotated[str, typer.Option("--methods", help="all, or comma-separated names; see `fscil methods`.")] = (
        "all"
    ),
    data: Annotated[
        str, typer.Option("--data", help="The data set; see `fscil datasets` (default: the recipe's, or glyphs).")
    ] = "",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of shot draws.")] = 3,
    settings: EngineSettings,
    out: Annotated[Path | None, typer.Option("--out", help="Output folder (default: runs/bench-RECIPE).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue or extend what is in the output folder.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Train and measure everything again.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be done and how long it may take; do nothing.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Of all methods those that fit into 20 minutes where they were measured last."),
    ] = False,
    device: DeviceOption = None,
    deterministic: DeterministicOption = False,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key in every recipe: --set train.epochs=10.")
    ] = None,
    same_backbone: Annotated[
        bool,
        typer.Option(
            "--same-backbone/--own-training",
            help="All methods on the default recipe's network, or each on that of its own recipe.",
        ),
    ] = False,
    recipe: Annotated[
        str, typer.Option("--recipe", help="Recipe of methods without one of their own (default: the data set's).")
    ] = "",
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option("--checkpoint", help="A trained network to take where a recipe asks for its training; repeat."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The grid of methods and draws: OUT/bench.html, bench.md and bench.json."""
    if context.invoked_subcommand:
        return
    # Imported here: torch takes seconds to load, and `fscil --help` should not wait for it.
    from fscil.core.hardware import pick_device
    from fscil.core.progress import Reporter
    from fscil.core.storage import claiming, write_sealed, write_text
    from fscil.experiments.bench.collect import collect_bench
    from fscil.experiments.bench.foresee import foresee, known
    from fscil.experiments.bench.grid import Grid, fill_grid
    from fscil.experiments.bench.plan import BenchRequest, make_plan
    from fscil.experiments.bench.quick import quick as quickly
    from fscil.experiments.runner import load_data
    from fscil.pages.bench.page import bench_html, bench_markdown, bench_text

    refuse_both(resume, force)
    name = Path(recipe).stem or data or "glyphs"
    folder = out or Path("runs") / f"bench-{name}{'-same-backbone' if same_backbone else ''}"
    request = BenchRequest(
        data=data,
        methods=methods,
        draws=seeds,
        recipe=recipe,
        same_backbone=same_backbone,
        checkpoints=tuple(map(find_checkpoint, checkpoint or ())),
        overrides=tuple(changes(overrides, device=device, deterministic=deterministic)),
        out=folder if settings.here else folder.resolve(),  # workers have another working directory
    )
    plan = make_plan(request)
    if quick:
        if not request.everything:
            raise InputError("--quick chooses among all methods; leave --methods out, or --quick.")
        plan = quickly(plan, known(plan))
        say(f"Quick: {len(plan.methods)} methods; left out: {', '.join(plan.left_out) or 'none'}.", err=True)
    if settings.here:
        pick_device(plan.default.accelerator)
    grid = Grid(plan, Reporter(), fresh=force, settings=settings)
    if dry_run:
        tell_foreseen(foresee(grid), as_json)
        return
    with claiming(folder, force=force, resume=resume or settings.retry_failed):
        if settings.here:
            load_data(plan.default.data, grid.reporter)
    failures = fill_grid(grid)
    found = collect_bench(grid, failures)
    write_sealed(folder / "bench.json", found.to_json())
    write_text(folder / "bench.md", bench_markdown(found))
    write_text(folder / "bench.html", bench_html(found))
    if as_json:
        print_json(found.to_json())
    else:
        say(bench_text(found) + "\n")
        say(f"Comparison: {(folder / 'bench.html').resolve()}")
    tell_failures({method: failure for (_, method), failure in failures.items() if not failure.input})
    if not request.everything and found.left_out:
        raise InputError(" ".join(found.left_out.values()))


@app.command()
def status(
    folder: Annotated[Path, typer.Argument(help="The output folder of fscil bench, tune or ablate.")],
    as_json: JsonOption = False,
) -> None:
    """How far a grid is: what is done, failed and why, under way, and how long the rest may take."""
    from fscil.experiments.engines.record import read_record

    tell_record(read_record(folder), folder, as_json)
