"""What is done to pages on their way to the site: links, lists, the menu, notebooks."""

from __future__ import annotations

import base64
import json
import logging
import re
from pathlib import Path

import pytest
from markdown import markdown

from docs_maker.methods_index import methods_index
from docs_maker.notebook_page import notebook_page
from docs_maker.site_hooks import expanded
from docs_maker.site_links import Places, with_links
from docs_maker.site_markdown import adapted

ROOT = Path(__file__).parents[2]
SOURCES = {
    "index.md": "README.md",
    "teach.md": "docs/teach.md",
    "methods/README.md": "docs/methods/README.md",
    "methods/alice.md": "docs/methods/alice.md",
    "contributing.md": "CONTRIBUTING.md",
    "images/a.png": "docs/images/a.png",
    "examples/compare.md": "examples/compare.ipynb",
}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    for name in ("results/digits/result.json", "src/one.py", *SOURCES.values()):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return Places(tmp_path, SOURCES)


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("index.md", "[t](docs/teach.md#a-part)", "[t](teach.md#a-part)"),
        ("index.md", "![p](docs/images/a.png)", "![p](images/a.png)"),
        ("index.md", "[all](docs/methods)", "[all](methods/README.md)"),
        ("index.md", "[two\nlines](docs/teach.md)", "[two\nlines](teach.md)"),
        ("methods/alice.md", "[c](../../CONTRIBUTING.md#x)", "[c](../contributing.md#x)"),
        ("methods/alice.md", "[n](../../examples/compare.ipynb)", "[n](../examples/compare.md)"),
        ("examples/compare.md", "[t](../docs/teach.md)", "[t](../teach.md)"),
        ("teach.md", "[here](#part) [there](https://a.org/b) <m@a.org>", None),
        ("teach.md", "```\n[t](../README.md)\n```\n", None),
    ],
)
def test_a_link_leads_to_the_page_of_that_file(places: Places, page: str, text: str, expected: str | None) -> None:
    assert with_links(text, page, places) == (text if expected is None else expected)


def test_a_file_that_is_no_page_is_named_or_linked_to_where_the_repository_is(places: Places) -> None:
    text = "[`ours`](../../results/digits) and [code](../../src/one.py)"
    plain = with_links(text, "methods/alice.md", places)
    assert "](" not in plain
    assert '<span class="repository-file" title="results/digits in the repository">`ours`</span>' in plain
    linked = with_links(text, "methods/alice.md", Places(places.root, SOURCES, "https://host.example/us/fscil"))
    assert "[`ours`](https://host.example/us/fscil/tree/main/results/digits)" in linked
    assert "[code](https://host.example/us/fscil/blob/main/src/one.py)" in linked


def test_a_link_to_nothing_is_a_warning_which_a_strict_build_refuses(
    places: Places, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="mkdocs"):
        with_links("[gone](../nowhere.md)", "teach.md", places)
    assert "docs/teach.md links to ../nowhere.md, which does not exist." in caplog.text


@pytest.mark.parametrize(
    ("text", "lists", "items"),
    [
        ("Three:\n- a\n- b\n  more of b\n- c", 1, 3),
        ("# Head\n- a\n\nText\n- b", 2, 2),
        ("1. one\n2. two", 1, 2),
        ("- a\n  - inside\n  - again\n- b", 2, 4),
        ("1. a\n   - inside\n2. b", 2, 3),
        ("a - b\n-c", 0, 0),
        ("- a\n\n  more of a\n- b", 1, 2),
    ],
)
def test_lists_are_lists(text: str, lists: int, items: int) -> None:
    html = markdown(adapted(text))
    assert html.count("<ul>") + html.count("<ol>") == lists
    assert html.count("<li>") == items


def test_code_is_left_alone() -> None:
    text = "Text\n```\nwords:\n- no list\n| 1 ± 2 |\n```\n"
    assert adapted(text) == text


def test_a_number_and_its_spread_stay_together_in_a_table() -> None:
    assert adapted("| 1.0 ± 0.2 |") == "| 1.0\u00a0±\u00a00.2 |"


def test_a_star_in_the_menu_stands_for_the_pages_that_nothing_else_names() -> None:
    nav = [{"Methods": ["methods/README.md", "methods/*.md"]}, {"More": [{"Design": "design.md"}, "*.md"]}, "gone/*.md"]
    pages = ["methods/b.md", "methods/README.md", "methods/a.md", "design.md", "new.md"]
    assert expanded(nav, pages) == [
        {"Methods": ["methods/README.md", "methods/a.md", "methods/b.md"]},
        {"More": [{"Design": "design.md"}, "new.md"]},
    ]


def test_a_notebook_is_a_page_with_what_it_printed_and_drew(tmp_path: Path) -> None:
    def code(source: str, *outputs: object) -> dict[str, object]:
        return {"cell_type": "code", "source": [source], "outputs": list(outputs)}

    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        code("print(1)", {"output_type": "stream", "text": ["1\n", "2\n"]}),
        code("plot()", {"data": {"image/png": base64.b64encode(b"picture").decode()}}),
        code("table()", {"data": {"text/markdown": "| a |\n| - |\n| 1 |", "text/plain": "<object>"}}),
        code(""),
    ]
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    text, pictures = notebook_page(path)
    assert pictures == {"mine-1.png": b"picture"}
    assert text == (
        "# Title\nwords\n\n```python\nprint(1)\n```\n\n``` { .text .output }\n1\n2\n```\n\n"
        "```python\nplot()\n```\n\n![What the cell drew](mine-1.png)\n\n"
        "```python\ntable()\n```\n\n| a |\n| - |\n| 1 |\n"
    )


def test_the_list_of_methods_has_pages_and_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(data: str, mean: float) -> dict[str, object]:
        return {"dataset": data, "gacc_grid": {"mean": mean, "std": 0.1}}

    def method(name: str, mark: str, verified: list[dict[str, object]]) -> dict[str, object]:
        return {
            "name": name, "title": name.upper(), "paper": "P 2024", "summary": "Does it.", "mark": mark,
            "mark_means": "a bound" if mark else "", "verified": verified,
        }  # fmt: skip

    described = [
        method("alice", "", [measured("cifar100", 60.5), measured("cifar100", 9.25), measured("glyphs", 80.0)]),
        method("joint", "reference", [{"dataset": "glyphs", "gacc_grid": None}]),
    ]
    monkeypatch.setattr("docs_maker.methods_index.describe_methods", lambda results: described)
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "alice.md").touch()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in methods_index(tmp_path, tmp_path).splitlines()
        if line.startswith("|")
    ]
    assert rows[0][3:] == ["gAcc, grid, CIFAR-100", "gAcc, grid, glyphs"]
    assert rows[2] == ["[ALICE](alice.md)", "P 2024", "Does it.", "9.25 to 60.50", "80.00"]
    assert rows[3] == ["JOINT", "P 2024", "Does it.", "", ""]
    assert "*reference*: a bound" in methods_index(tmp_path, tmp_path)


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda page: page.name)
def test_no_note_to_ourselves_stays_on_a_page(page: Path) -> None:
    """A place that something was to be put into, or a thing that was to be done."""
    left = re.findall(r"^@\w+@$|\b(?:TODO|FIXME|TBD)\b", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert left == []
