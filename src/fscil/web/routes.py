"""The API: routes that leave the project as it is, and routes that change it, one change at a time."""

import asyncio
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query, Response, UploadFile
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from fscil.core.errors import InputError
from fscil.teach import Change, Diagnosis, ImageInfo, Learned, MapPoint, Prediction
from fscil.teach.project.limits import MAX_NAME, UNKNOWN
from fscil.web import schemas
from fscil.web.guard import MEGABYTE, busy, is_loopback
from fscil.web.projects import Projects, chosen
from fscil.web.served_project import TOP, ServedProject
from fscil.web.uploads import (
    MAX_IMAGES,
    NothingLearnedError,
    Uploads,
    called,
    given_names,
    read_images,
    read_lesson,
    thumbnail,
)

EXPORTS = 4  # at once: each is a file on the temporary disk until it has been downloaded
SHOWN = 5  # images of a class that the page shows beside its name
Chosen = Annotated[ServedProject, Depends(chosen)]


def reading_routes(projects: Projects) -> APIRouter:
    router = APIRouter(responses=schemas.FAILURES)

    @router.get("/state")
    def state(served: Chosen) -> schemas.State:
        """The project at a glance; a page asks for it again and again and compares the generation."""
        learner = served.learner
        generation = learner.generation
        classes = learner.classes()
        pending = [change.what for change in learner.history() if not change.undone]
        return schemas.State(
            generation=generation,
            project=learner.path.name,
            encoder=learner.encoder_name,
            note=learner.note,
            keeps_images=learner.keeps_images,
            demo=served.demo,
            classes=len(classes),
            images=sum(each.images for each in classes),
            threshold=learner.threshold(),
            false_alarms=learner.false_alarms(),
            undo=pending[-1] if pending else None,
            projects=projects.names,
            encoders=projects.encoders,
            shared=not is_loopback(served.rules.host),
            limits=schemas.Limits(images=MAX_IMAGES, megabytes=served.rules.max_body // MEGABYTE, name=MAX_NAME),
        )

    @router.get("/classes")
    def classes(served: Chosen) -> list[schemas.ClassSummary]:
        """All classes in the order they were learned."""
        return [schemas.ClassSummary(**asdict(each), shown=shown) for each, shown in served.learner.overview(SHOWN)]

    @router.get("/images", response_model=list[schemas.ImageEntry])
    def images(served: Chosen, name: Annotated[str, Query(min_length=1, max_length=MAX_NAME)]) -> list[ImageInfo]:
        """The images of one class."""
        return served.learner.images(name)

    @router.post("/predict")
    async def predict(served: Chosen, images: Uploads, top: Annotated[int, Form(ge=1, le=TOP)] = 5) -> list[Prediction]:
        """Name what is in each image, or say 'unknown'."""
        answers = await served.batcher.predict(await served.decoder.read(await read_images(images), keep=False))
        return [
            replace(answer, file=file.filename or "", top=answer.top[:top])
            for answer, file in zip(answers, images, strict=True)
        ]

    @router.post("/explain")
    async def explain(
        served: Chosen, image: UploadFile, count: Annotated[int, Form(ge=1, le=12)] = 4
    ) -> schemas.Explanation:
        """What an image is taken for, the training images of that class most like it, and the most alike of others."""
        [picture] = await served.decoder.read(await read_images([image]), keep=False)

        def look() -> schemas.Explanation:
            [answer] = served.learner.predict([picture], 1)
            if answer.error:
                raise InputError(f"{answer.error[:1].upper()}{answer.error[1:]}.")
            known = answer.label != UNKNOWN
            own = served.learner.explain(picture, count, answer.label) if known else []
            near = served.learner.explain(picture, 3 * count)
            others = [each for each in near if each.class_name != answer.label][:count]
            return schemas.Explanation(label=answer.label, examples=own, others=others)

        return await run_in_threadpool(look)

    @router.get("/map")
    async def feature_map(served: Chosen) -> list[MapPoint]:
        """All training images as points of the plane."""
        return await served.once("map", served.learner.map)

    @router.get("/doctor", response_model=schemas.Checkup)
    async def doctor(served: Chosen) -> Diagnosis:
        """What may be wrong with the images, and what to do about it."""
        return await served.once("doctor", served.learner.doctor)

    @router.get("/history")
    def history(served: Chosen) -> list[Change]:
        """Every change, oldest first."""
        return served.learner.history()

    @router.get(
        "/image/{image_id}",
        response_class=Response,
        responses={200: {"content": {"image/png": {}}}},
    )
    async def image(served: Chosen, image_id: Annotated[str, PathParameter(pattern=r"^[0-9a-f]{64}$")]) -> Response:
        """A thumbnail of one training image."""

        def draw() -> bytes | None:
            found = served.learner.image_bytes(image_id)
            return thumbnail(found[0]) if found else None

        try:
            small = await asyncio.get_running_loop().run_in_executor(served.drawing, draw)
        except InputError as error:
            raise HTTPException(404, str(error)) from None
        if small is None:
            raise HTTPException(404, "The project has no such image.")
        # An id is the hash of the content: what it shows never changes.
        headers = {"cache-control": "private, max-age=31536000, immutable"}
        return Response(small, media_type="image/png", headers=headers)

    @router.get("/export", response_class=FileResponse, responses={200: {"content": {"application/octet-stream": {}}}})
    async def export(served: Chosen) -> FileResponse:
        """The classifier as one ONNX file, checked against the project."""
        if served.exports >= EXPORTS:
            raise busy("Several exports are being made or downloaded; try again in a moment.")
        served.exports += 1
        folder = tempfile.TemporaryDirectory(prefix="fscil-export-")

        def done() -> None:
            served.exports -= 1
            folder.cleanup()

        target = Path(folder.name) / "model.onnx"
        try:
            async with served.exporting:
                await run_in_threadpool(served.export, target)
        except BaseException:
            done()
            raise
        name = re.sub(r"[^\w.-]+", "-", served.learner.path.name) or "model"
        return FileResponse(
            target,
            media_type="application/octet-stream",
            filename=f"{name}.onnx",
            background=BackgroundTask(done),
        )

    @router.get("/export-stage")
    async def export_stage(served: Chosen) -> schemas.Stage:
        """What the export that is being made does now; empty while none is."""
        return schemas.Stage(stage=served.export_stage)

    return router


def teaching_routes() -> APIRouter:
    router = APIRouter(responses=schemas.FAILURES)

    async def done(served: ServedProject, message: str, change: Callable[..., Any], *arguments: Any) -> schemas.Done:
        await served.write(change, *arguments)
        return schemas.Done(message=message, generation=await served.generation())

    @router.post("/learn", responses={400: {"model": schemas.NothingLearned | schemas.ErrorSentence}})
    async def learn(
        served: Chosen, name: Annotated[str, Form(min_length=1, max_length=MAX_NAME)], images: Uploads
    ) -> Learned:
        """Learn a new class from a few images, or give an old one more."""
        pictures = called(await served.decoder.read(await read_lesson(images), keep=True), given_names(images))
        learned = await served.write(served.learner.learn, name, pictures)
        if not learned.added:
            raise NothingLearnedError(learned)
        return learned

    @router.post("/rename")
    async def rename(served: Chosen, question: schemas.Rename) -> schemas.Done:
        """Give a class another name; nothing is learned anew."""
        return await done(served, f"Renamed to '{question.new}'.", served.learner.rename, question.old, question.new)

    @router.post("/forget")
    async def forget(served: Chosen, question: schemas.Forget) -> schemas.Done:
        """Remove a class and its images."""
        return await done(served, f"Forgot '{question.name}'.", served.learner.forget, question.name)

    @router.post("/remove-image")
    async def remove_image(served: Chosen, question: schemas.RemoveImage) -> schemas.Done:
        """Remove one image from its class."""
        return await done(served, "Removed one image.", served.learner.remove_image, question.id)

    @router.post("/move-image")
    async def move_image(served: Chosen, question: schemas.MoveImage) -> schemas.Done:
        """Put one image into another class, which is new or known."""
        return await done(
            served, f"Moved one image to '{question.to}'.", served.learner.move_image, question.id, question.to
        )

    @router.post("/keep")
    async def keep(served: Chosen, question: schemas.Keep) -> schemas.Done:
        """Show a finding of the check-up about these images no more."""
        return await done(served, "Kept as it is.", served.learner.keep, question.kind, question.images)

    @router.post("/undo")
    async def undo(served: Chosen) -> schemas.Done:
        """Take the last change back."""
        what = await served.write(served.learner.undo)
        return schemas.Done(message=f"Undone: {what}.", generation=await served.generation())

    @router.post("/threshold")
    async def threshold(served: Chosen, question: schemas.Threshold) -> schemas.Done:
        """How sure an answer must be before it is given."""
        return await done(served, "Threshold set.", served.learner.set_threshold, question.value, question.false_alarms)

    return router
