"""Routes that change the project: one change at a time, each can be undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Form

from fscil.core.errors import InputError
from fscil.teach import Learned
from fscil.teach.project.limits import MAX_NAME
from fscil.web import schemas
from fscil.web.reading import FAILURES
from fscil.web.served_project import ServedProject
from fscil.web.uploads import Uploads, read_images


def teaching_routes(served: ServedProject) -> APIRouter:
    router = APIRouter(responses=FAILURES)
    learner = served.learner

    async def done(message: str, change: Callable[..., Any], *arguments: Any) -> schemas.Done:
        await served.write(change, *arguments)
        return schemas.Done(message=message, generation=await served.generation())

    @router.post("/learn")
    async def learn(name: Annotated[str, Form(min_length=1, max_length=MAX_NAME)], images: Uploads) -> Learned:
        """Learn a new class from a few images, or give an old one more."""
        learned = await served.write(learner.learn, name, await read_images(images))
        if not learned.added:
            reason = learned.skipped[0].reason if learned.skipped else "no images came"
            raise InputError(f"Nothing was learned: {reason}.")
        return learned

    @router.post("/rename")
    async def rename(question: schemas.Rename) -> schemas.Done:
        """Give a class another name; nothing is learned anew."""
        return await done(f"Renamed to '{question.new}'.", learner.rename, question.old, question.new)

    @router.post("/forget")
    async def forget(question: schemas.Forget) -> schemas.Done:
        """Remove a class and its images."""
        return await done(f"Forgot '{question.name}'.", learner.forget, question.name)

    @router.post("/remove-image")
    async def remove_image(question: schemas.RemoveImage) -> schemas.Done:
        """Remove one image from its class."""
        return await done("Removed one image.", learner.remove_image, question.id)

    @router.post("/undo")
    async def undo() -> schemas.Done:
        """Take the last change back."""
        what = await served.write(learner.undo)
        return schemas.Done(message=f"Undone: {what}.", generation=await served.generation())

    @router.post("/threshold")
    async def threshold(question: schemas.Threshold) -> schemas.Done:
        """How sure an answer must be before it is given."""
        return await done("Threshold set.", learner.set_threshold, question.value)

    return router
