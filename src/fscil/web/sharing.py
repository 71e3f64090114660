"""Routes beside those of a project: making another one, and inviting others to this page."""

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException

from fscil.web import schemas
from fscil.web.addresses import address_of, reachable
from fscil.web.guard import is_loopback, is_loopback_name
from fscil.web.invitations import MINUTES, qr_code
from fscil.web.projects import Projects


def sharing_routes(projects: Projects) -> APIRouter:
    router = APIRouter(responses=schemas.FAILURES)

    @router.post("/projects", responses={403: {"model": schemas.ErrorSentence}})
    async def make_project(question: schemas.NewProject) -> schemas.ProjectMade:
        """Make a project in a new folder beside the one that the server was started with, and show it, too."""
        path = await projects.make(question.name, question.encoder)
        return schemas.ProjectMade(name=path.name, folder=str(path))

    @router.post("/invite")
    async def invite(request: Request) -> schemas.Invitation:
        """An address for another machine of the network, which lets its guests in for some minutes."""
        rules = projects.rules
        if is_loopback(rules.host):
            raise HTTPException(404, "Only this machine can reach the page; start it with `--host 0.0.0.0`.")
        # Who came from elsewhere knows an address that works, which may be a proxy's; 'localhost' is none for others.
        address = str(request.base_url)
        if is_loopback_name(request.headers["host"]):
            port = (request.scope.get("server") or ("", 80))[1]
            address = address_of(reachable(rules.host), port)
        address += f"?invitation={rules.invitations.make()}"
        return schemas.Invitation(address=address, minutes=MINUTES, code=qr_code(address))

    return router
