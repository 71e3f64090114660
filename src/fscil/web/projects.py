"""The projects that a server shows: the one it was started with, and those that are made from its page."""

import asyncio
import re
from pathlib import Path
from typing import Annotated

from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from fscil.core.errors import InputError
from fscil.teach import Learner
from fscil.teach.encoders.loading import default, offered
from fscil.teach.project.limits import MAX_NAME, class_name
from fscil.web.guard import Rules
from fscil.web.served_project import ServedProject

MOST = 20  # made from the page of one server: each keeps its network in memory
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # devices, on Windows


class Projects:
    def __init__(self, first: Learner, rules: Rules, *, demo: bool, folder: Path | None) -> None:
        """`folder`: where new projects go; None: none can be made."""
        self.rules, self.folder = rules, folder
        self._first = first.path.name
        self._served = {self._first: ServedProject(first, rules, demo=demo)}
        self._made: list[Learner] = []
        self._making = asyncio.Lock()

    @property
    def names(self) -> list[str]:
        return list(self._served)

    @property
    def encoders(self) -> list[str]:
        """What a new project may see with, the usual one first; nothing where none can be made."""
        if self.folder is None or len(self._made) >= MOST:
            return []
        return sorted(offered(), key=lambda name: name != default())

    def find(self, name: str | None) -> ServedProject:
        found = self._served.get(self._first if name is None else name)
        if found is None:
            raise HTTPException(404, "This server does not show a project of that name; see the list in `state`.")
        return found

    async def make(self, name: str, encoder: str) -> Path:
        """A project in a new folder of that name; nothing that is there already is touched."""
        if self.folder is None:
            raise HTTPException(403, "This server makes no projects; make one with `fscil teach init DIR`.")
        if encoder not in offered():
            raise InputError(f"A new project can see with {', '.join(offered())}; choose one of them.")
        async with self._making:
            if len(self._made) >= MOST:
                raise InputError(f"{MOST} projects were made here already; start the server again for more.")
            path = self.folder / folder_name(name)
            learner = await run_in_threadpool(self._make, path, encoder)
            self._made.append(learner)
            self._served[path.name] = ServedProject(learner, self.rules, demo=False)
            return path

    def _make(self, path: Path, encoder: str) -> Learner:
        if path.name in self._served or path.exists() or path.is_symlink():
            raise InputError(f"There is something called '{path.name}' already; choose another name.")
        learner = Learner.create(path, encoder)
        learner.settle_threads()
        return learner

    def close(self) -> None:
        for served in self._served.values():
            served.close()
        for learner in self._made:
            learner.close()


async def chosen(
    request: Request,
    project: Annotated[
        str | None, Query(min_length=1, max_length=MAX_NAME, description="A project of `state`; else the first.")
    ] = None,
) -> ServedProject:
    projects: Projects = request.app.state.projects
    return projects.find(project)


def folder_name(text: str) -> str:
    """A class name's rules, and a folder's on every system: it names no other place and no device."""
    name = class_name(text)
    if (
        re.search(r'[/\\:*?"<>|]', name)
        or name.startswith((".", "-"))
        or name.endswith(".")
        or _RESERVED.fullmatch(name)
    ):
        raise InputError(
            f"'{name}' cannot be the name of a folder; use letters, digits, blanks and - or _, and begin with a letter."
        )
    return name
