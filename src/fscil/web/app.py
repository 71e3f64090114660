"""The application: guard, page, API, and errors that are one sentence."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

import fscil
from fscil.core.errors import InputError
from fscil.teach import Learner
from fscil.web.compression import Compression
from fscil.web.guard import Guard, Rules, say
from fscil.web.pages import load_pages, serve_pages
from fscil.web.projects import Projects
from fscil.web.routes import reading_routes, teaching_routes
from fscil.web.schemas import NothingLearned
from fscil.web.sharing import sharing_routes
from fscil.web.uploads import NothingLearnedError


def create_app(
    learner: Learner, rules: Rules | None = None, *, demo: bool = False, folder: Path | None = None
) -> FastAPI:
    """The ASGI application that serves one project, and those that its page makes in `folder` (None: none). The learner
    stays the caller's to close.
    """
    rules = rules or Rules()
    projects = Projects(learner, rules, demo=demo, folder=folder)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        projects.close()

    app = FastAPI(
        title="fscil teach",
        version=fscil.__version__,
        description="Teach a classifier new classes from a few images each.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    pages = load_pages()
    app.add_middleware(Compression)
    app.add_middleware(Guard, rules=rules, token_page=pages["token.html"].content)
    app.state.projects = projects
    for routes in (reading_routes(projects), teaching_routes(), sharing_routes(projects)):
        app.include_router(routes, prefix="/api")
    serve_pages(app, pages)
    _explain_errors(app)
    return app


# What the framework says in two words.
_SENTENCES = {
    "Not Found": "There is nothing at this address; start at '/'.",
    "Method Not Allowed": "This address does not take that method; see /api/openapi.json.",
    "There was an error parsing the body": "The request could not be read; send a form with files, or JSON.",
}


def _explain_errors(app: FastAPI) -> None:
    @app.exception_handler(InputError)
    async def bad_input(_: Request, error: InputError) -> JSONResponse:
        return say(400, " ".join(str(error).split()))

    @app.exception_handler(NothingLearnedError)
    async def nothing_learned(_: Request, error: NothingLearnedError) -> JSONResponse:
        answer = NothingLearned(error=" ".join(str(error).split()), skipped=error.skipped)
        return JSONResponse(answer.model_dump(), 400)

    @app.exception_handler(RequestValidationError)
    async def bad_request(_: Request, error: RequestValidationError) -> JSONResponse:
        first: dict[str, Any] = dict(error.errors()[0])
        # Without the first part, which only says whether it was in the body, the query or the path.
        where = ".".join(str(part) for part in first["loc"][1:]) or "The request"
        return say(422, f"{where}: {first['msg']}.")

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        sentence = _SENTENCES.get(str(error.detail), str(error.detail))
        return say(error.status_code, sentence, dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> JSONResponse:
        # Starlette passes the error on to the server's log after this answer.
        return say(500, "Something went wrong inside the server; its terminal says what.")
