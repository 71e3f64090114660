"""What `make docs` writes: up to date, right, and taking up new files by itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from ablation_documents import document as ablation_document
from report_documents import document

from docs_maker.__main__ import generated, main
from docs_maker.method_pages import BEGIN, END, method_pages
from docs_maker.results_page import results_page
from docs_maker.seen import choices, marks
from fscil.core.errors import InputError
from fscil.results.grouping import collect

ROOT = Path(__file__).parents[2]
REMEDY = "run `make docs`"


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def measured(draw: int = 0, method: str = "yourself", **changes: Any) -> dict[str, Any]:
    """A result on CIFAR-100 with a config that tells how."""
    config = {
        "recipe": "cifar100_yourself",
        "seed": 0,
        "data": {"name": "cifar100", "session_lists": "", "shot": 5},
        "backbone": {"kind": "vit", "image_size": 32, "patch_size": 4, "embed_dim": 256, "depth": 12, "num_heads": 8},
        "train": {"teacher": "teacher.safetensors", "distill": "zscore", "distill_weight": 0.9},
        "options": {"yourself": {"residual": True, "layers": [8, 9, 10], "weight_all": 0.3}},
    }
    return document(method, draw, dataset="cifar100", recipe="cifar100_yourself", config={**config, **changes})


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    for draw in range(3):
        write(folder / "cifar100" / "yourself" / f"shots-{draw}.json", measured(draw))
    write(folder / "cifar100" / "ablation.json", ablation_document())
    write(folder / "cifar100" / "notes.json", {"something": "else"})
    return folder


def page(results: Path) -> str:
    return results_page(collect(results), "../results")


PUBLISHED = {
    "residual": False,
    "joint": False,
    "own_relations": False,
    "weight_all": 0.0,
    "centring": 0.0,
    "whitened": 0.0,
}


def rows(text: str, name: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith(f"| {name}")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_everything_generated_is_up_to_date() -> None:
    texts = generated(ROOT / "docs", ROOT / "results")
    assert {path.name for path in texts} >= {"results.md", "audit.md", "gacc.md", "measured.json", "yourself.md"}
    for path, text in texts.items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is stale; {REMEDY}"


def test_the_links_of_the_pages_of_the_methods_lead_somewhere() -> None:
    pages = sorted((ROOT / "docs" / "methods").glob("*.md"))
    assert len(pages) >= 12
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert BEGIN in text or path.name == "README.md"  # the list of them
        for link in re.findall(r"\]\((\.[^)]+)\)", text):
            assert (path.parent / link.partition("#")[0]).exists(), link


def test_a_page_of_a_method_takes_up_new_files(results: Path) -> None:
    docs = results.parent / "docs"
    mine = docs / "methods" / "yourself.md"
    mine.parent.mkdir(parents=True)
    mine.write_text(f"# A\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    (docs / "methods" / "other.md").write_text("no place for numbers", encoding="utf-8")
    (docs / "methods" / "cec.md").write_text(f"{BEGIN}\n{END}", encoding="utf-8")
    pages = method_pages(collect(results), "../../results", docs)
    assert [path.name for path in pages] == ["cec.md", "yourself.md"]
    assert "Not measured yet." in pages[docs / "methods" / "cec.md"]
    text = pages[mine]
    (row,) = rows(text, "CIFAR-100")
    gacc = [measured(draw)["metrics"]["gacc_grid"] for draw in range(3)]
    assert row[1:4] == ["ViT", "`cifar100_yourself` †", "3"]  # with other settings than the recipe of that name
    assert row[8] == f"{fmean(gacc):.2f} ± {stdev(gacc):.2f}"
    assert text.startswith("# A\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    mine.write_text(f"{BEGIN}\n", encoding="utf-8")
    with pytest.raises(InputError, match="put it back"):
        method_pages(collect(results), "../../results", docs)


def test_every_link_leads_somewhere() -> None:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    for link in links:
        assert link.startswith("https://") or (ROOT / "docs" / link.partition("#")[0]).exists(), link
    stored = {path.relative_to(ROOT).as_posix() for path in (ROOT / "results").rglob("result.json")}
    assert stored <= {link.removeprefix("../") for link in links}  # no number without its file


def test_our_row_is_mean_and_deviation_of_the_files(results: Path) -> None:
    (row,) = rows(page(results), r"**YourSelf+, cifar100_yourself**")
    metrics = [measured(draw)["metrics"] for draw in range(3)]
    first = [measured(draw)["matrix"][0][0] for draw in range(3)]
    expected = [first, *([m[key] for m in metrics] for key in ("lacc", "novel", "aacc", "gacc_grid", "gacc_exact"))]
    assert row[1] == "3"
    assert row[2:8] == [f"{fmean(values):.2f} ± {stdev(values):.2f}" for values in expected]


def test_published_rows_are_as_printed(results: Path) -> None:
    (row,) = rows(page(results), "YourSelf  ")
    assert row[:8] == ["YourSelf", "–", "82.9", "56.6", "39.25", "67.02", "60.32", "–"]
    (baseline,) = rows(page(results), "ViT baseline")
    assert baseline[5:7] == ["66.35", "54.20"]


def test_differences_from_the_protocol_are_said(results: Path) -> None:
    text = page(results)
    assert "seeded draws (seeds 0 to 2)" in text
    assert "Input: 32 × 32 pixels; the paper has 36 × 36." in text
    assert "Network: patches of 4 pixels (paper: 3)." in text
    assert "Teacher: one of our own, zscore targets with weight 0.9" in text
    assert "residual = true (theirs false), weight_all = 0.3 (theirs 0)" in text
    assert "layers =" not in text


def test_rows_that_differ_alike_are_named_together(tmp_path: Path) -> None:
    plain = {"kind": "vit", "image_size": 36, "patch_size": 4}
    for name, backbone in (("a", plain), ("b", plain), ("c", {**plain, "patch_size": 6})):
        method = {"method": f"method-{name}", "title": f"Method {name.upper()}"}
        write(tmp_path / "results" / f"{name}.json", {**measured(backbone=backbone), **method})
    text = page(tmp_path / "results")
    (together,) = [line for line in text.splitlines() if line.startswith("- Method A")]
    assert "Method B" in together
    assert "Method C" not in together
    assert text.count("patches of 4 pixels") == text.count("patches of 6 pixels") == 1


def test_what_is_as_in_the_paper_is_not_listed(tmp_path: Path) -> None:
    backbone = {"kind": "vit", "image_size": 36, "patch_size": 3, "embed_dim": 256, "depth": 12, "num_heads": 8}
    lists = {"name": "cifar100", "session_lists": "lists"}
    write(tmp_path / "results" / "a.json", measured(backbone=backbone, data=lists, train={}))
    text = page(tmp_path / "results")
    assert "Shots: the published lists" in text
    assert "Input:" not in text
    assert "Network:" not in text
    assert "Teacher: none" in text


def test_an_ablation_is_taken_up(results: Path) -> None:
    text = page(results)
    assert "### Ablation of YourSelf" in text
    assert "[cifar100/ablation.json](../results/cifar100/ablation.json)" in text
    for heading in ("What each part adds", "Raw and rectified", "Sensitivity", "Calibration", "What inference costs"):
        assert f"#### {heading}" in text
    (results / "cifar100" / "ablation.json").unlink()
    assert "Ablation" not in page(results)


def test_settings_apart_are_rows_apart(results: Path) -> None:
    write(results / "cifar100" / "paper" / "shots-0.json", measured(options={"yourself": {"centring": 0.5}}))
    text = page(results)
    assert "**YourSelf+, cifar100_yourself (cifar100/paper)**" in text
    assert "**YourSelf+, cifar100_yourself (cifar100/yourself)**" in text
    assert "- YourSelf+, cifar100_yourself (cifar100/paper):" in text


def test_the_authors_name_is_for_what_the_authors_do(results: Path) -> None:
    write(results / "cifar100" / "paper" / "shots-0.json", measured(options={"yourself": PUBLISHED}))
    for key, value in {**PUBLISHED, "residual": True, "joint": True, "own_relations": True}.items():
        other = {**PUBLISHED, key: value or 0.1}
        write(results / "cifar100" / key / "shots-0.json", measured(options={"yourself": other}))
    text = page(results)
    assert text.count("| **YourSelf, ") == 1
    assert "| **YourSelf, cifar100_yourself**" in text
    for key in PUBLISHED:
        assert f"**YourSelf+, cifar100_yourself (cifar100/{key})**" in text


def test_other_sessions_get_a_table_of_their_own(results: Path) -> None:
    plan = (60, 10, 10)
    write(results / "other.json", document(dataset="cifar100", classes=plan))
    text = page(results)
    assert "## CIFAR-100: 60 base classes, 2 sessions of 10 new classes" in text
    assert text.count("There are no published numbers for these sessions.") == 1


def test_a_draw_stored_twice_or_a_wrong_metric_is_refused(results: Path) -> None:
    write(results / "again.json", measured(0))
    with pytest.raises(InputError, match="give each draw once"):
        page(results)
    wrong = measured(7)
    wrong["metrics"]["aacc"] += 1
    write(results / "again.json", wrong)
    with pytest.raises(InputError, match="its matrix says"):
        page(results)


def test_the_command_writes_the_page(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(results.parent)
    assert main([]) == 0
    assert (results.parent / "docs" / "results.md").read_text(encoding="utf-8") == page(results)
    assert Path("docs", "audit.md").exists()
    assert not Path("src").exists()
    numbers = Path("src", "fscil", "results")
    numbers.mkdir(parents=True)
    assert main(["docs"]) == 0
    assert "yourself" in json.loads((numbers / "measured.json").read_text(encoding="utf-8"))
    assert main(["elsewhere", str(results)]) == 0
    assert Path("elsewhere", "results.md").exists()
    assert main(["docs", "nowhere"]) == 2
    assert "nowhere is not a folder" in capsys.readouterr().err


def test_reimplementations_stand_beside_the_printed_rows_with_both_ranks(results: Path) -> None:
    for draw in range(3):
        ours = {**measured(draw), "recipe": "cifar100_paper_conv"}  # the paper's method; `cifar100_yourself` adds to it
        write(results / "cifar100" / "published" / f"shots-{draw}.json", ours)
        alice = {**measured(draw, "alice"), "recipe": "cifar100_alice"}
        write(results / "cifar100" / "alice" / f"shots-{draw}.json", alice)
        other = {**measured(draw, "teen"), "recipe": "cifar100_teen"}  # not in the paper's table
        write(results / "cifar100" / "teen" / f"shots-{draw}.json", other)
        shared = measured(draw, "savc")  # on the network of another recipe
        write(results / "cifar100" / "savc" / f"shots-{draw}.json", shared)
    section = page(results).split("### Our reimplementations beside the printed rows")[1].split("\n#")[0]
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    cells = {row.split("|")[1].strip(" †"): [cell.strip() for cell in row.strip("|").split("|")] for row in table}
    assert set(cells) == {"YourSelf", "ALICE"}
    documents = [json.loads(path.read_text()) for path in (results / "cifar100" / "alice").glob("*.json")]
    ours = fmean(document["metrics"]["aacc"] for document in documents)
    assert cells["ALICE"][2:5] == ["80.3", f"{ours:.2f}", "63.10"]
    assert float(cells["ALICE"][5].replace("−", "-")) == pytest.approx(ours - 63.10, abs=0.006)
    assert {cells[name][-1] for name in cells} == {cells[name][-2] for name in cells} == {"1", "2"}


def cells_below(text: str, heading: str) -> dict[str, list[str]]:
    """The table that follows a heading: its cells by the name of the row, the last one of a name."""
    first = text.split(f"### {heading}\n")[1].split("\n|", 1)[1].split("\n\n")[0]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in first.splitlines()]
    return {row[0].strip("*"): row[1:] for row in found}


def test_the_papers_table_is_rebuilt_from_our_runs_session_by_session(results: Path) -> None:
    size = {
        "kind": "vit",
        "image_size": 32,
        "stem": "patch",
        "patch_size": 8,
        "embed_dim": 32,
        "depth": 2,
        "num_heads": 2,
    }
    alice = [{**measured(draw, "alice", backbone=size), "recipe": "cifar100_alice"} for draw in range(2)]
    for draw, stored in enumerate(alice):
        write(results / "cifar100" / "alice" / f"shots-{draw}.json", stored)
    rebuilt = cells_below(page(results), "The paper's table, from our own runs")
    (ours,) = [cells for name, cells in rebuilt.items() if name.startswith("ALICE")]
    weights = [60, *[5] * 8]
    for session in range(9):
        pooled = [
            sum(cell * weight for cell, weight in zip(stored["matrix"][session], weights, strict=False))
            / sum(weights[: session + 1])
            for stored in alice
        ]
        assert ours[1 + session] == f"{fmean(pooled):.2f}"
    gacc = [stored["metrics"]["gacc_grid"] for stored in alice]
    assert ours[11] == f"{fmean(gacc):.2f} ± {stdev(gacc):.2f}"
    patches, positions, block, norm = 8 * 8 * 3 * 32 + 32, 17 * 32 + 32, 12 * 32 * 32 + 13 * 32, 2 * 32
    assert ours[13:] == [f"{(patches + positions + 2 * block + norm) / 1e6:.2f}", "3.3", "0.17", "1200"]
    assert rebuilt["as printed"][1:10] == ["80.3", "71.9", "67.0", "63.2", "60.7", "58.3", "57.3", "55.5", "53.7"]
    missing = rebuilt["BiDistFSCIL, as printed; not measured here yet"]
    assert missing[1] == "79.5"
    assert missing[10:12] == ["66.14", "–"]


def test_methods_on_one_network_stand_together_the_best_first(results: Path) -> None:
    heading = "One network for all: that of cifar100_yourself"
    for number, method in enumerate(("alice", "fecam", "cec")):
        write(results / "cifar100" / method / "a.json", {**measured(0, method), "title": method})
        assert heading not in page(results), number
    best = {**document("teen", dataset="cifar100", novel=80.0), "config": measured()["config"]}
    write(results / "cifar100" / "teen" / "a.json", {**best, "recipe": "cifar100_yourself", "title": "teen"})
    other = measured(0, "savc", train={"epochs": 3})  # trained otherwise, whatever its recipe is called
    write(results / "cifar100" / "savc" / "a.json", other)
    rows_there = list(cells_below(page(results), heading))
    assert rows_there[2].startswith("teen")
    assert len(rows_there) == 2 + 5  # heads, and YourSelf+


def test_nothing_is_put_beside_printed_rows_where_no_recipe_of_a_method_was_run(tmp_path: Path) -> None:
    write(tmp_path / "results" / "shots-0.json", measured(0, "savc"))
    assert "beside the printed rows" not in page(tmp_path / "results")


def test_rows_that_rest_on_choices_made_with_test_numbers_in_sight_are_marked(results: Path) -> None:
    fused = {"train": {"objective": "alice", "objective_options": {"fused": 1.0}}}
    four = {"train": {"objective": "alice", "objective_options": {"fused": 4.0}}}
    chosen = {"options": {"yourself": {"whitened": 0.6, "centring": 0.8}}}
    for name, method, changes in (
        ("a", "alice", fused),
        ("b", "fecam", fused),
        ("c", "cec", four),
        ("d", "teen", chosen),
    ):
        write(results / "cifar100" / name / "shots-0.json", measured(0, method, **changes))
    write(results / "cifar100" / "e" / "shots-0.json", {**measured(0, "yourself", **chosen), "recipe": "mine"})
    text = page(results)
    names = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| **")]
    marked = {name.split("**")[1]: name.split("**")[2].replace("†", "").split() for name in names}
    assert {name: found for name, found in marked.items() if found} == {
        "alice, cifar100_yourself": ["¹"],
        "fecam, cifar100_yourself": ["¹"],
        "YourSelf+, mine": ["⁴", "⁵"],  # and not TEEN, which has nothing to do with them
    }
    (note,) = [line for line in text.splitlines() if line.startswith("Seen with test numbers in sight")]
    assert [mark for mark in "¹²³⁴⁵⁶" if mark in note] == ["¹", "⁴", "⁵"]
    docs = results.parent / "docs"
    (docs / "methods").mkdir(parents=True)
    (docs / "methods" / "alice.md").write_text(f"{BEGIN}\n{END}", encoding="utf-8")
    mine = method_pages(collect(results), "../../results", docs)[docs / "methods" / "alice.md"]
    assert "| `cifar100_yourself` ¹ † |" in mine
    assert "¹ a quarter of a fused image" in mine


def test_the_choices_that_must_be_marked_are_in_the_file_and_marked_in_the_docs() -> None:
    known = " ".join(choice.choice for choice in choices())
    for word in ("fused image", "rows of S3C", "episodes of C-FSCIL", "share of whitened", "centring", "stem"):
        assert word in known
    for measured_there in collect(ROOT / "results"):
        for group in measured_there.groups:
            if group.first.dataset == "glyphs":
                assert "⁶" in marks(group)


def test_a_reference_is_called_so_once() -> None:
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    assert "Ridge regression (reference)" in page
    assert not re.search(r"(\((?:reference|reconstruction)\)) \1", page)
