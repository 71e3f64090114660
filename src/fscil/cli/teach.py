"""`fscil teach ...`, `predict`, `doctor`, `export` and `serve`: a project of one's own classes."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fscil.cli.options import JsonOption, print_json, say
from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.core.text import spreadsheet_cell, visible

if TYPE_CHECKING:
    from fscil.teach import Learned, Learner, Prediction

app = typer.Typer(help="Your own classes from a few images each: init, add, list, undo ...", no_args_is_help=True)

_TASK = "Pictures"  # what is counted while a folder is taken in
ProjectArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder.")]


@app.command()
def init(
    project: ProjectArgument,
    encoder: Annotated[
        str,
        typer.Option(
            "--encoder",
            help="photos (the default where fscil[photos] is installed), glyphs (else), cifar100, a checkpoint of "
            "`fscil train`, or timm:NAME[@FILE.safetensors].",
        ),
    ] = "",
    features_only: Annotated[
        bool, typer.Option("--features-only", help="Keep no images, only what the encoder saw in them.")
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A model of `fscil export`, or a folder with a folder of images per class."),
    ] = None,
) -> None:
    """Make a project in a new folder; with --from it knows classes from the beginning."""
    from fscil.teach import Learner, import_onnx
    from fscil.teach.encoders import loading, photographs
    from fscil.teach.project import files

    note = loading.advice(encoder)
    if source is not None and source.expanduser().is_dir():
        with Reporter().task(_TASK) as tell:
            learned = Learner.create_from(project, source, encoder, keep_images=not features_only, tell=tell)
        for result in learned:
            _say_learned(result)
        with Learner.open(project, readonly=True) as learner:
            name = learner.encoder_name
        classes = len({result.name for result in learned if result.added})
        say(f"Made {project} from {source}: {classes} classes (encoder {name}).")
        shown = photographs.warning(name, files.images_in(source.expanduser(), deep=True))
        note = shown or note
    elif source is not None:
        with import_onnx(source, project) as learner:
            say(f"Made {project} from {source}: {len(learner.classes())} classes (encoder {learner.encoder_name}).")
    else:
        with Learner.create(project, encoder, keep_images=not features_only) as learner:
            kept = "images and features" if learner.keeps_images else "features only"
            say(f"Made {project} (encoder {learner.encoder_name}, keeps {kept}).")
            note = note or learner.note
    if note and (source is None or source.expanduser().is_dir()):
        say(f"Note: {note}")
    say(f"Next: fscil teach add {project} NAME IMAGES...")


@app.command()
def add(
    project: ProjectArgument,
    name: Annotated[str | None, typer.Argument(metavar="CLASS", help="Name of the class, new or known.")] = None,
    images: Annotated[list[str] | None, typer.Argument(help="Files, folders or patterns such as 'cats/*.jpg'.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--from", help="Instead: a folder with a folder of images per class.")
    ] = None,
) -> None:
    """Learn a class from a few images; new ones join a class that is known."""
    from fscil.teach.encoders import photographs
    from fscil.teach.folders import learn_folders
    from fscil.teach.project import files

    if folder is not None:
        if name is not None:
            raise InputError("Give a class and its images, or --from a folder of class folders; not both.")
        found = files.images_in(folder.expanduser(), deep=True)
    elif name is None or not images:
        raise InputError("Give the class and its images: fscil teach add DIR CLASS IMAGES...")
    else:
        found = files.expand(images)
    with _open(project) as learner:
        if folder is None:
            assert name is not None
            results = [learner.learn(name, found)]
        else:
            with Reporter().task(_TASK) as tell:
                results = learn_folders(learner.learn, folder.expanduser(), tell)
        note = photographs.warning(learner.encoder_name, found)
    for result in results:
        _say_learned(result)
    if note:
        say(f"Note: {note}", err=True)
    if not any(result.added for result in results):
        raise InputError("Nothing was learned: no usable new image was given.")
    say(f"Next: fscil predict {project} IMAGES...   (to take it back: fscil teach undo {project})")


@app.command()
def remove(
    project: ProjectArgument,
    name: Annotated[str, typer.Argument(metavar="CLASS")],
    image: Annotated[
        str | None, typer.Option("--image", help="Only this image: its file name or the start of its id.")
    ] = None,
) -> None:
    """Forget a class, or one image of it."""
    with _open(project) as learner:
        if image is None:
            learner.forget(name)
            say(f"Forgot '{name}'.")
        else:
            found = [i for i in learner.images(name) if i.id.startswith(image) or image in (i.file, Path(i.file).name)]
            if len(found) != 1:
                raise InputError(
                    f"'{image}' names {len(found)} images of '{name}'; see `fscil teach list {project} '{name}'`."
                )
            learner.remove_image(found[0].id)
            say(f"Removed {found[0].file} from '{name}'.")
    say(f"To take it back: fscil teach undo {project}")


@app.command()
def rename(project: ProjectArgument, old: str, new: str) -> None:
    """Give a class another name. Nothing is learned again."""
    with _open(project) as learner:
        learner.rename(old, new)
    say(f"'{old}' is now '{new}'.")


@app.command()
def undo(project: ProjectArgument) -> None:
    """Take the last change back."""
    with _open(project) as learner:
        say(f"Undone: {learner.undo()}.")


@app.command("list")
def list_classes(
    project: ProjectArgument,
    name: Annotated[str | None, typer.Argument(metavar="[CLASS]", help="Show the images of this class.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The classes, or the images of one."""
    with _open(project, readonly=True) as learner:
        rows: list[Any] = list(learner.classes() if name is None else learner.images(name))
        encoder = learner.encoder_name
    if as_json:
        print_json(rows, ascii_only=False)
    elif name is not None:
        _columns([("id", "file", "added"), *[(row.id[:12], row.file, row.added) for row in rows]])
    elif not rows:
        say(f"{project} knows no class yet. Next: fscil teach add {project} NAME IMAGES...")
    else:
        _columns([("class", "images", "since"), *[(row.name, str(row.images), row.created) for row in rows]])
        say(f"{len(rows)} classes, {sum(row.images for row in rows)} images, encoder {encoder}.")


@app.command()
def history(project: ProjectArgument, as_json: JsonOption = False) -> None:
    """All changes, oldest first."""
    with _open(project, readonly=True) as learner:
        changes = learner.history()
    if as_json:
        print_json(changes, ascii_only=False)
        return
    for change in changes:
        say(f"{change.number:>4}  {change.when}  {change.what}{'  (undone)' if change.undone else ''}")


@app.command()
def threshold(
    project: ProjectArgument,
    value: Annotated[str | None, typer.Argument(help="A likeness from -1 to 1, or auto.")] = None,
    false_alarms: Annotated[
        float | None,
        typer.Option("--false-alarms", help="Instead: the share of pictures of known classes that it may cost."),
    ] = None,
) -> None:
    """Show or set the likeness below which the answer is 'unknown'."""
    with _open(project, readonly=value is None and false_alarms is None) as learner:
        if value is not None or false_alarms is not None:
            try:
                number = None if value in (None, "auto") else float(value)
            except ValueError:
                raise InputError(f"'{value}' is not a number; give a likeness from -1 to 1, or auto.") from None
            learner.set_threshold(number, false_alarms)
        say(f"{learner.threshold():.3f}")


@app.command()
def backup(
    project: ProjectArgument,
    file: Annotated[Path, typer.Argument(help="The file to write, such as project.zip.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write the whole project into one file, also while it is served; checked after writing."""
    if file.exists() and not force:
        raise InputError(f"{file} already exists; add --force to overwrite it.")
    with _open(project, readonly=True) as learner:
        made = learner.backup(file)
    say(f"Wrote {file}: {made.classes} classes, {made.images} images, {made.bytes / 1e6:.1f} MB.")
    say(f"To bring it back: fscil teach restore {file} DIR")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A file of `fscil teach backup`.")], project: ProjectArgument
) -> None:
    """Make a project from a backup, in a new folder; checked before."""
    from fscil.teach.upkeep import restore as bring_back

    made = bring_back(file, project)
    say(f"Restored {project} from {file}: {made.classes} classes, {made.images} images.")


@app.command()
def check(
    project: ProjectArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="Save what can be saved, from the pictures where it must; delete nothing.")
    ] = False,
) -> None:
    """Is the project whole: every row of its database, the encoder, every picture."""
    from fscil.teach.upkeep import check as examine

    found = examine(project, repair)
    for sentence in found.right:
        say(sentence)
    for sentence in found.wrong:
        say(sentence, err=True)
    if found.wrong:
        advice = "bring them back from a backup, or remove the images" if repair else "see above, or add --repair"
        raise InputError(f"{project} is not whole; {advice}.")


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
    with _open(project, readonly=True) as learner:
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
        _columns(rows)
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

    with _open(project, readonly=True) as learner:
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
    with _open(project, readonly=True) as learner:
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


def _open(project: Path, readonly: bool = False) -> Learner:
    from fscil.teach import Learner

    learner = Learner.open(project, readonly=readonly)
    learner.settle_threads()
    return learner


def _say_learned(result: Learned) -> None:
    if result.added:
        images = f"{result.added} image{'s' if result.added > 1 else ''}"
        say(f"Learned '{result.name}' from {images} in {result.seconds:.2f} s.")
    for skipped in result.skipped:
        say(f"  skipped {skipped.file}: {skipped.reason}", err=True)
    if result.rivals:
        rivals = ", ".join(f"'{rival.name}' ({rival.similarity:.2f})" for rival in result.rivals)
        say(f"  nearest classes: {rivals}")


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


def _columns(rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their longest cell; wide characters count for two."""
    from rich.cells import cell_len

    rows = [tuple(map(visible, row)) for row in rows]
    widths = [max(cell_len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        padded = [cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        say("  ".join(padded).rstrip())
