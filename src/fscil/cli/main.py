"""The command line. Exit codes: 0 done, 1 failed, 2 bad input (one sentence that says what to do), 130 interrupted."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, NoReturn

import typer

import fscil
from fscil.cli import ablate, ask, bench, paper, run, share, show, teach, tune
from fscil.cli.options import say
from fscil.core.errors import FaultError, InputError

app = typer.Typer(
    help="Few-shot class-incremental learning: train, evaluate, measure, report.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fscil {fscil.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


_COMMANDS: dict[str, Callable[..., None]] = {
    "run": run.run,
    "train": run.train,
    "join": run.join,
    "features": run.features,
    "eval": run.evaluate,
    "report": run.report,
    "share": share.share,
    "tune": tune.tune,
    "ablate": ablate.ablate,
    "metrics": show.metrics,
    "methods": show.methods,
    "datasets": show.datasets,
    "predict": ask.predict,
    "doctor": ask.doctor,
    "export": ask.export,
    "serve": ask.serve,
}
for name, command in _COMMANDS.items():
    app.command(name)(command)
app.add_typer(bench.app, name="bench")
app.add_typer(teach.app, name="teach")
app.add_typer(paper.app, name="paper")

_INTERRUPTED = 130
# What an interrupted command leaves, and how to go on; of the others nothing is left.
_GO_ON = {
    **dict.fromkeys(
        ("run", "train", "bench", "ablate"), "nothing is lost: run the same command again with --resume to continue."
    ),
    **dict.fromkeys(("tune", "features", "eval"), "nothing is lost: run the same command again to continue."),
    "teach": "a change is made whole or not at all: see `fscil teach history DIR`.",
    "serve": "the project is as it was last changed.",
}


def main() -> None:
    try:
        # Outside its standalone mode typer hands exit codes back instead of leaving: also that of Ctrl-C.
        code = app(standalone_mode=False)
    except InputError as error:
        _fail(str(error), 2)
    except FaultError as error:
        _fail(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except typer.Exit as error:
        code = error.exit_code
    except OSError as error:  # of a disk or a path, where no better sentence is known
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}; check the path, its permissions and the space on its disk.", 2)
    except Exception as error:
        if hasattr(error, "format_message"):  # a misspelt option or command
            _fail(error.format_message(), 2)
        raise
    if code == _INTERRUPTED:
        _fail(interrupted(sys.argv[1:]), code)
    sys.exit(code if isinstance(code, int) else 0)


def interrupted(words: Sequence[str]) -> str:
    """What to say after Ctrl-C."""
    command = next((word for word in words if not word.startswith("-")), "")
    # A look before a run, or at one, has nothing to continue.
    looked = "--check" in words or "--dry-run" in words or "status" in words[1:2]
    return f"Interrupted; {'nothing was written.' if looked else _GO_ON.get(command, 'nothing was written.')}"


def _fail(sentence: str, code: int) -> NoReturn:
    if sentence:  # without a command there is nothing to say: the help was printed
        say(f"fscil: {' '.join(sentence.split())}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
