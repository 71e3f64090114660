"""`fscil teach ...`: a project of one's own classes, made and changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fscil.cli import upkeep
from fscil.cli.options import JsonOption, print_json, say
from fscil.cli.project import ProjectArgument, columns, open_project
from fscil.core.errors import InputError
from fscil.core.progress import Reporter

if TYPE_CHECKING:
    from fscil.teach import Learned

app = typer.Typer(help="Your own classes from a few images each: init, add, list, undo ...", no_args_is_help=True)

_TASK = "Pictures"  # what is counted while a folder is taken in


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
    with open_project(project, images=len(found)) as learner:
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
    with open_project(project) as learner:
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
    with open_project(project) as learner:
        learner.rename(old, new)
    say(f"'{old}' is now '{new}'.")


@app.command()
def undo(project: ProjectArgument) -> None:
    """Take the last change back."""
    with open_project(project) as learner:
        say(f"Undone: {learner.undo()}.")


@app.command("list")
def list_classes(
    project: ProjectArgument,
    name: Annotated[str | None, typer.Argument(metavar="[CLASS]", help="Show the images of this class.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The classes, or the images of one."""
    with open_project(project, readonly=True) as learner:
        rows: list[Any] = list(learner.classes() if name is None else learner.images(name))
        encoder = learner.encoder_name
    if as_json:
        print_json(rows, ascii_only=False)
    elif name is not None:
        columns([("id", "file", "added"), *[(row.id[:12], row.file, row.added) for row in rows]])
    elif not rows:
        say(f"{project} knows no class yet. Next: fscil teach add {project} NAME IMAGES...")
    else:
        columns([("class", "images", "since"), *[(row.name, str(row.images), row.created) for row in rows]])
        say(f"{len(rows)} classes, {sum(row.images for row in rows)} images, encoder {encoder}.")


@app.command()
def history(project: ProjectArgument, as_json: JsonOption = False) -> None:
    """All changes, oldest first."""
    with open_project(project, readonly=True) as learner:
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
    with open_project(project, readonly=value is None and false_alarms is None) as learner:
        if value is not None or false_alarms is not None:
            try:
                number = None if value in (None, "auto") else float(value)
            except ValueError:
                raise InputError(f"'{value}' is not a number; give a likeness from -1 to 1, or auto.") from None
            learner.set_threshold(number, false_alarms)
        say(f"{learner.threshold():.3f}")


for command in (upkeep.backup, upkeep.restore, upkeep.check):
    app.command()(command)


def _say_learned(result: Learned) -> None:
    if result.added:
        images = f"{result.added} image{'s' if result.added > 1 else ''}"
        say(f"Learned '{result.name}' from {images} in {result.seconds:.2f} s.")
    for skipped in result.skipped:
        say(f"  skipped {skipped.file}: {skipped.reason}", err=True)
    if result.rivals:
        rivals = ", ".join(f"'{rival.name}' ({rival.similarity:.2f})" for rival in result.rivals)
        say(f"  nearest classes: {rivals}")
