"""The lower bounds of pyproject.toml are the versions that a job tests, and those that other files name."""

from __future__ import annotations

import re
import tomllib

import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from packages.release import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOWEST = (ROOT / "constraints" / "lowest.txt").read_text(encoding="utf-8")


def bound(requirement: Requirement) -> str | None:
    (lowest,) = [each.version for each in requirement.specifier if each.operator == ">="] or [None]
    return lowest


def test_the_constraints_are_the_lower_bounds() -> None:
    pinned = dict(line.split("==") for line in LOWEST.splitlines() if line and not line.startswith("#"))
    extras = re.findall(r"--extra (\S+)", LOWEST)
    names = [*PROJECT["dependencies"], *(each for extra in extras for each in PROJECT["optional-dependencies"][extra])]
    required = [Requirement(each) for each in names]
    assert {"torch", "ray", "fastapi"} <= {each.name for each in required}
    for each in required:
        version = pinned[each.name.lower().replace("_", "-")]
        lowest = bound(each)
        assert lowest is None or Version(version) == Version(lowest), f"{each}: make constraints/lowest.txt again"


def test_a_job_installs_them_with_the_same_extras() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))["jobs"]
    (command,) = [step["run"] for step in jobs["lowest"]["steps"] if "lowest.txt" in step.get("run", "")]
    (extras,) = re.findall(r"\.\[(.+?)\]", command)
    assert extras.split(",") == re.findall(r"--extra (\S+)", LOWEST)


def test_what_runs_before_a_commit_formats_as_the_tests_ask() -> None:
    (ruff,) = [each for each in map(Requirement, PROJECT["optional-dependencies"]["dev"]) if each.name == "ruff"]
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    (revision,) = [each["rev"] for each in repositories if each["repo"].endswith("ruff-pre-commit")]
    assert revision == f"v{bound(ruff)}"
