"""schemathesis makes requests from the OpenAPI schema: none may fail inside, every answer is as the schema says."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from web_clients import picture, serving

from fscil.teach import Learner
from fscil.web.app import create_app

schemathesis = pytest.importorskip("schemathesis", minversion="4")
hypothesis = pytest.importorskip("hypothesis")

# Not every name that is well formed is that of a class, nor every file an image.
CHECKS = importlib.import_module("schemathesis.specs.openapi.checks")
pictures = hypothesis.strategies.sampled_from([picture(level) for level in range(0, 250, 10)])
schemathesis.openapi.format("binary", pictures | hypothesis.strategies.binary(max_size=40))

READING = ["state", "classes", "images", "image/{image_id}", "map", "doctor", "export", "export-stage", "history"]
POSTING = [
    "learn", "predict", "explain", "rename", "forget", "remove-image", "move-image", "keep", "undo", "threshold",
    "projects", "invite"]  # fmt: skip
ROUTES = [("get", f"/api/{path}") for path in READING] + [("post", f"/api/{path}") for path in POSTING]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, kept_traces: None) -> Iterator[Any]:
    with Learner.create(tmp_path_factory.mktemp("schema") / "project") as learner:
        learner.learn("dark", [picture(10), picture(20)])
        learner.learn("light", [picture(240), picture(250)])
        with serving(create_app(learner)) as address:
            yield schemathesis.openapi.from_url(f"{address}/api/openapi.json")


def test_the_routes_are_those_of_the_schema(api: Any) -> None:
    assert {(method, path) for path in api for method in api[path]} == set(ROUTES)


POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
WITHOUT_INPUT = {"/api/invite"}  # what takes no input cannot be given a wrong one
CASES = [
    (*route, mode)
    for route in ROUTES
    for mode in (POSITIVE, NEGATIVE)
    if not (mode == NEGATIVE and route[1] in WITHOUT_INPUT)
]


@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_no_request_fails_inside(api: Any, method: str, path: str, mode: Any) -> None:
    @hypothesis.given(case=api[path][method].as_strategy(generation_mode=mode), at=hypothesis.strategies.integers(0, 3))
    @hypothesis.settings(
        max_examples=1 if "export" in path else 12,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def ask(case: Any, at: int) -> None:
        if mode == POSITIVE and at and case.query:  # no name that it makes up is a project's
            case.query.pop("project", None)
        case.call_and_validate(excluded_checks=[CHECKS.positive_data_acceptance], timeout=600)

    ask()
