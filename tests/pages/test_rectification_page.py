"""The table of rectification over networks: every number is that of its file, in its own column."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from ablation_documents import document as ablation_document
from report_documents import document

from docs_maker.rectification import TITLE, rectification
from fscil.core.errors import InputError
from fscil.results.grouping import collect

ROOT = Path(__file__).parents[2]
PUBLISHED = {"residual": False, "joint": False, "own_relations": False, "weight_all": 0.0, "whitened": 0.0}
NETWORK = {"weights_sha256": "ab" * 32}
WAYS = ("Class means", "Raw layers averaged", "Whitened layers", "YourSelf as published")
DIAGNOSIS = [
    {"block": 0, "values": {"common": 11.25, "head": 0.953, "entropy": 1.1, "wrong": 2.2, "novel": 3.3}},
    {"block": 9, "values": {"common": 4.4, "cosine": 0.5, "cka": 0.61, "entropy": 71.1, "wrong": 81.2, "novel": 41.3}},
    {"block": 8, "values": {"common": 5.5, "cosine": 0.4, "cka": 0.72, "entropy": 62.4, "wrong": 52.5, "novel": 32.6}},
]


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def table(folder: Path) -> dict[str, dict[str, str]]:
    """Row by row, by the file that it leads to, and by the head of the column."""
    text = "\n\n".join(rectification(collect(folder), "../results"))
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    return {row[-1].split("](")[0].strip("["): dict(zip(header, row, strict=True)) for row in rows}


def store(folder: Path, name: str, level: float, **changes: Any) -> list[dict[str, Any]]:
    """Two draws of one way to predict; the level keeps them apart."""
    found = []
    for draw in range(2):
        config = {
            "data": {"shot": 5},
            "options": {name: {**PUBLISHED, "prototypes": "head", "base_steps": 70, "novel_steps": 11}},
        }
        variants = {"final": {"metrics": document(draw=draw, base=level - 5)["metrics"]}}
        made = {"dataset": "cifar100", "config": config, "network": NETWORK, "variants": variants, **changes}
        found.append(document(name, draw, base=level, **made))
        write(folder / name / f"shots-{draw}" / "result.json", found[-1])
    return found


def ablation(**changes: Any) -> dict[str, Any]:
    given = {"options": PUBLISHED, "diagnosis": DIAGNOSIS, "recipe": "cifar100_paper", "steps": [], **changes}
    return ablation_document(2, **given)


def pair(metrics: list[dict[str, Any]]) -> str:
    return " / ".join(f"{fmean(each[key] for each in metrics):.2f}" for key in ("gacc_grid", "aacc"))


def test_a_row_is_made_of_the_results_beside_the_diagnosis(tmp_path: Path) -> None:
    write(tmp_path / "net" / "ablation.json", ablation())
    raw, whitened, ours = (
        store(tmp_path / "net", name, level) for name, level in (("raw-layers", 80), ("whitened", 70), ("yourself", 60))
    )
    store(tmp_path / "elsewhere", "whitened", 50, recipe="other")  # of no concern
    row = table(tmp_path)["net/ablation.json"]
    final = [each["variants"]["final"]["metrics"] for each in raw]
    expected = [final, *([each["metrics"] for each in found] for found in (raw, whitened, ours))]
    assert [row[way] for way in WAYS] == [pair(metrics) for metrics in expected]
    assert len({row[way] for way in WAYS}) == 4
    gains = [float(text.replace("−", "-")) for text in row["over class means: gAcc, grid / aAcc"].split(" / ")]
    for key, gain in zip(("gacc_grid", "aacc"), gains, strict=True):
        assert gain == pytest.approx(fmean(r["metrics"][key] for r in ours) - fmean(f[key] for f in final), abs=0.006)
    assert row["Updates"] == "158"  # 70 and eight sessions of 11
    assert row["Base prototypes"] == "head"
    assert row["Draws"] == "2"


def test_what_fr_is_given_stands_layer_by_layer(tmp_path: Path) -> None:
    train, backbone = {"teacher": "t", "distill": "zscore"}, {"stem": "patch", "pool": "mean"}
    config = {"data": {"shot": 5}, "train": train, "backbone": backbone}
    write(tmp_path / "ablation.json", ablation(config=config))
    row = table(tmp_path)["ablation.json"]
    assert row["Network"] == "CIFAR-100, `cifar100_paper`: plain patches, mean of the tokens, z-scored logits"
    assert [row[way] for way in WAYS] == ["–"] * 4
    assert row["Common mean, % of the length"] == "11.2"
    assert row["Head and class means: cosine"] == "0.95"
    assert row["Layers"] == "8 / 9"
    assert row["Layer and final: CKA"] == "0.72 / 0.61"
    assert row["CR target: entropy, % of the highest"] == "62.4 / 71.1"
    assert row["CR target wrong, % of base images"] == "52.5 / 81.2"
    assert row["named as new, %"] == "32.6 / 41.3"


def test_the_steps_of_an_ablation_serve_as_well_and_a_whole_run_comes_before_them(tmp_path: Path) -> None:
    keys = ("prototypes", "raw-layers", "whitened-means", "yourself-cos", "yourself")
    scores = ("gacc_grid", "gacc_exact", "aacc", "base", "novel", "lacc")
    steps = [
        {
            "key": key,
            "label": key,
            "scores": {score: [10.0 * i + j, 10.0 * i + j + 1] for j, score in enumerate(scores)},
        }
        for i, key in enumerate(keys, 1)
    ]
    options = {**PUBLISHED, "prototypes": "means", "base_steps": 5, "novel_steps": 2}
    write(tmp_path / "net" / "ablation.json", ablation(steps=steps, options=options))
    store(tmp_path / "net", "whitened", 70, recipe="with other options")
    row = table(tmp_path)["net/ablation.json"]
    assert [row[way] for way in WAYS] == ["10.50 / 12.50", "20.50 / 22.50", "30.50 / 32.50", "50.50 / 52.50"]
    assert (row["Base prototypes"], row["Updates"]) == ("means", "21")
    ours = store(tmp_path / "net", "yourself", 60)
    row = table(tmp_path)["net/ablation.json"]
    assert row["YourSelf as published"] == pair([each["metrics"] for each in ours])
    assert (row["Base prototypes"], row["Updates"]) == ("head", "158")


def test_results_of_another_network_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "net" / "ablation.json", ablation())
    store(tmp_path / "net", "whitened", 70, network={"weights_sha256": "cd" * 32})
    with pytest.raises(InputError, match="net/whitened is of another network"):
        rectification(collect(tmp_path), "")


@pytest.mark.parametrize("changes", [{"diagnosis": []}, {"options": {**PUBLISHED, "residual": True}}])
def test_only_diagnosed_networks_with_the_published_settings_have_a_row(tmp_path: Path, changes: Any) -> None:
    write(tmp_path / "ablation.json", ablation(**changes))
    assert rectification(collect(tmp_path), "") == []


def test_the_stored_networks_have_the_numbers_of_their_files() -> None:
    """The page against the files, read without the code that makes it."""
    results = ROOT / "results" / "cifar100"

    def stored(folder: str) -> str:
        files = sorted((results / folder).glob("shots-*/result.json"))
        assert len(files) == 5
        return pair([json.loads(file.read_text())["metrics"] for file in files])

    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").split(f"## {TITLE}\n")[1]

    def cells(recipe: str) -> list[str]:
        (line,) = [line for line in page.splitlines() if line.startswith("|") and f"`{recipe}`" in line]
        return [cell.strip() for cell in line.strip("|").split("|")]

    plain, conv, zscore = map(cells, ("cifar100_paper", "cifar100_paper_conv", "cifar100_paper_zscore"))
    ways = ("prototypes", "raw-layers", "whitened", "yourself")
    assert plain[2:6] == [stored(f"paper/{way}") for way in ways]
    assert zscore[2:6] == [stored("yourself/prototypes"), *(stored(f"paper_zscore/{way}") for way in ways[1:])]
    assert (conv[2], conv[5]) == (stored("paper_conv/prototypes"), stored("paper_conv/yourself"))
    for folder, row in (("paper", plain), ("paper_conv", conv), ("paper_zscore", zscore)):
        final, *layers = json.loads((results / folder / "ablation.json").read_text())["diagnosis"]
        assert row[9:11] == [f"{final['values']['common']:.1f}", f"{final['values']['head']:.2f}"]
        for column, (key, digits) in enumerate((("cka", 2), ("entropy", 1), ("wrong", 1), ("novel", 1)), 12):
            assert row[column] == " / ".join(f"{each['values'][key]:.{digits}f}" for each in layers), key


def test_the_page_of_yourself_says_what_the_table_says() -> None:
    """Its short table is written by hand, to one decimal."""
    made = table(ROOT / "results")
    text = (
        (ROOT / "docs" / "methods" / "yourself.md")
        .read_text(encoding="utf-8")
        .split(f"## {TITLE}")[1]
        .split("\n## ")[0]
    )
    rows = [
        [cell.strip(" *") for cell in line.strip("|").split("|")] for line in text.splitlines() if "](../../" in line
    ]
    assert {row[0].split("](../../results/")[1].rstrip(")") for row in rows} == made.keys()
    columns = ("Class means", "Raw layers averaged", "YourSelf as published", "CR target wrong, % of base images")
    for row in rows:
        found = made[row[0].split("](../../results/")[1].rstrip(")")]
        for said, column in zip(row[1:], columns, strict=True):
            values = [float(value.strip(" *%")) for value in said.replace(",", "/").split("/")]
            assert values == pytest.approx([float(value) for value in found[column].split(" / ")], abs=0.0551), column
