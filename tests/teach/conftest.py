from __future__ import annotations

from pathlib import Path

import pytest
from teach_samples import NOVEL, characters

from fscil.teach import Learner


@pytest.fixture
def learner(tmp_path: Path) -> Learner:
    """An empty project."""
    return Learner.create(tmp_path / "project")


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Learner:
    """Eight characters, five pictures each. Not to be changed."""
    project = Learner.create(tmp_path_factory.mktemp("taught") / "project")
    for character in NOVEL[:8]:
        project.learn(character, characters(character))
    return project
