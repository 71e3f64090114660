"""`fscil predict`, `doctor`, `export` and `serve`: a project of one's own classes, used."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fscil.cli.options import JsonOption, print_json, say
from fscil.cli.project import ProjectArgument, columns, open_project
from fscil.core.errors import InputError
from fscil.core.text import spreadsheet_cell, visible

if TYPE_CHECKING:
    from fscil.teach import Prediction


def predict(
    project: ProjectArgument,
    images: Annotated[list[str], typer.Argument(help="Files, folders or patterns.")],
    top: Annotated[int, typer.Option("--top", min=1, help="Answers per image.")] = 5,
    as_json: JsonOption = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a table for spreadsheets on stdout.")] = False,
) -> None:
    """Say what images show: the class, how sure it is, or 'unknown' when nothing fits."""
    from fscil.teach.project import files

    if as_json and as_csv:
        raise InputError("Choose one of --json and --csv.")
    found = files.expand(images)
    with open_project(project, readonly=True, images=len(found)) as learner:
        answers = learner.predict(found, top)
    unreadable = [answer for answer in answers if answer.error]
    if as_json:
        print_json([_as_document(answer) for answer in answers], ascii_only=False)
    elif as_csv:
        _write_csv(answers)
    elif len(unreadable) < len(answers):
        rows = [("image", "answer", "sure", "then")]
        for answer in (answer for answer in answers if not answer.error):
            others = "  ".join(f"{guess.label} {guess.confidence:.0%}" for guess in answer.top[1:3])
            rows.append((answer.file, answer.label, f"{answer.confidence:.0%}", others))
        columns(rows)
    for answer in unreadable:
        say(f"skipped {answer.file}: {answer.error}", err=True)
    if len(unreadable) == len(answers):
        raise InputError("None of the images could be read.")


def doctor(
    project: ProjectArgument,
    test: Annotated[
        Path | None, typer.Option("--test", help="A folder with a folder of test images per class.")
    ] = None,
    base: Annotated[
        int | None, typer.Option("--base", help="With --test: so many classes, those taught first, count as base.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Examine the images: too few, contradictory, doubled, confusable; what accuracy to expect; what to do."""
    from fscil.teach.learning.prose import diagnosis_text

    with open_project(project, readonly=True, images=None if test else 0) as learner:
        diagnosis = learner.doctor(test, base)
    if as_json:
        print_json(diagnosis, ascii_only=False)
    else:
        say(diagnosis_text(diagnosis))


def export(
    project: ProjectArgument,
    model: Annotated[Path, typer.Argument(help="The file to write, such as model.onnx.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write the project as one ONNX model, checked against the project on its own images."""
    if model.exists() and not force:
        raise InputError(f"{model} already exists; add --force to overwrite it.")
    with open_project(project, readonly=True) as learner:
        report = learner.export(model)
    say(f"Wrote {model}: {report.classes} classes, {report.bytes / 1e6:.1f} MB.")
    say(
        f"Checked on {report.checked} images: confidences differ from the project's by at most "
        f"{report.largest_difference:.1e} ({report.difference_any_size:.1e} when the model scales the images itself)."
    )
    say("Next: run it without this package, see examples/onnx_predict.py; or `fscil teach init DIR --from` it.")


def serve(
    project: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="The project's folder.")] = None,
    host: Annotated[str, typer.Option("--host", help="0.0.0.0: other machines can reach the page.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with the token (or FSCIL_TOKEN); else one is made.")
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Let everyone on this machine in.")] = False,
    token: Annotated[str | None, typer.Option("--token", hidden=True)] = None,
    demo: Annotated[bool, typer.Option("--demo", help="A temporary project to play with.")] = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """The page: teach and try in a browser, on this machine."""
    from fscil.web.serve import serve as run

    if token is not None:
        raise InputError(
            "A token on the command line can be read by everyone on the machine; leave --token out (one is made), "
            "or put it into FSCIL_TOKEN or a file for --token-file."
        )
    run(project, host, port, token_file, no_token, demo, open_browser)


def _as_document(answer: Prediction) -> dict[str, Any]:
    guesses = [{"label": guess.label, "confidence": round(guess.confidence, 6)} for guess in answer.top]
    error = {"error": answer.error} if answer.error else {}
    return dict(file=answer.file, label=answer.label, confidence=round(answer.confidence, 6), top=guesses, **error)


def _write_csv(answers: list[Prediction]) -> None:
    def as_text(text: str) -> str:
        return spreadsheet_cell(visible(text))

    writer = csv.writer(sys.stdout, lineterminator="\n")
    ranks = range(1, 1 + max((len(answer.top) for answer in answers), default=0))
    columns = [f"{kind}{at}" for at in ranks for kind in ("label", "confidence")]
    writer.writerow(["file", "label", "confidence", *columns])
    for answer in answers:
        guesses = [cell for guess in answer.top for cell in (as_text(guess.label), f"{guess.confidence:.6f}")]
        writer.writerow([as_text(answer.file), as_text(answer.label), f"{answer.confidence:.6f}", *guesses])
