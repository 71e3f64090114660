"""The API reference: it has every public name, and its examples say what happens."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import fscil

PAGES = Path(__file__).parents[2] / "docs" / "api"
SHOWN = re.findall(r"^::: ([\w.]+)", "\n".join(page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")), re.M)


def resolve(dotted: str) -> object:
    """The module, or the member of one, of that name."""
    try:
        return importlib.import_module(dotted)
    except ModuleNotFoundError:
        module, _, member = dotted.rpartition(".")
        return getattr(importlib.import_module(module), member)


def members(thing: object) -> list[tuple[str, object]]:
    """What belongs to a class or a module and is public: only what has a docstring is shown."""
    found = []
    for name, member in vars(thing).items() if inspect.isclass(thing) or inspect.ismodule(thing) else ():
        plain = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        own = getattr(plain, "__module__", "") == (thing.__name__ if inspect.ismodule(thing) else thing.__module__)
        if own and not name.startswith("_") and (inspect.isfunction(plain) or inspect.isclass(plain)):
            found.append((name, plain))
    return found


def documented(thing: object) -> bool:
    """A dataclass without a docstring has its signature for one."""
    doc = getattr(thing, "__doc__", None) or ""
    return bool(doc) and not (inspect.isclass(thing) and doc.startswith(f"{thing.__name__}("))


def examples() -> list[doctest.DocTest]:
    found = {}
    for dotted in SHOWN:
        thing = resolve(dotted)
        module = thing if inspect.ismodule(thing) else importlib.import_module(dotted.rpartition(".")[0])
        name = module.__name__ if inspect.ismodule(thing) else dotted
        for each in doctest.DocTestFinder(exclude_empty=True).find(thing, name, module):
            if each.examples:
                found[each.name] = each
    return list(found.values())


EXAMPLES = examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.name))
def test_the_example_says_what_happens(example: doctest.DocTest) -> None:
    said: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(example, out=said.append)
    assert tried
    assert not failed, "".join(said)


def test_the_reference_has_every_public_name_and_each_is_documented() -> None:
    shown = {id(resolve(dotted)) for dotted in SHOWN}
    for name in set(fscil.__all__) - {"__version__"}:
        assert id(getattr(fscil, name)) in shown, f"{name} is on no page of docs/api"
    for dotted in SHOWN:
        for name, thing in (("", resolve(dotted)), *members(resolve(dotted))):
            assert documented(thing), f"{dotted} {name} has no docstring"


def test_what_one_calls_first_has_an_example() -> None:
    # Base, InputError and the like need none; what is called with arguments does.
    for name in ("load_config", "load_benchmark", "make_method", "run_method", "summary", "read_matrix"):
        thing = getattr(fscil, name)
        assert any(each.name == f"{thing.__module__}.{thing.__name__}" for each in EXAMPLES), name
    for name in ("AccuracyMatrix", "IncrementalAccuracy", "Learner", "FSCILClassifier"):
        assert ">>>" in (getattr(fscil, name).__doc__ or ""), name
