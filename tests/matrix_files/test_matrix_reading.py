"""Reading matrices: the files people have, and one sentence for each thing that can be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metric_matrices import matrices

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.matrix_files import parse_matrix, read_matrix
from fscil.matrix_files.reading import csv_table, json_table, table_to_matrix, text_table

CLASSES = (10, 5, 5)
ROWS = [[85.0], [80.5, 50.0], [78.25, 45.0, 40.0]]

GOOD_CSV = {
    "plain": "85,,\n80.5,50,\n78.25,45,40\n",
    "ragged": "85\n80.5,50\n78.25,45,40",
    "spaces and blank lines": "\n 85 , , \n\n80.5, 50,\n78.25 ,45 , 40\n\n",
    "dashes": "85,-,-\n80.5,50,–\n78.25,45,40\n",
    "nan": "85,nan,NaN\n80.5,50,NA\n78.25,45,40\n",
    "percent signs": "85%,,\n80.5 %,50%,\n78.25%,45%,40%\n",
    "named header": "A1,A2,A3\n85,,\n80.5,50,\n78.25,45,40\n",
    "header and labels": "model,A1,A2,A3\nf_1,85,,\nf_2,80.5,50,\nf_3,78.25,45,40\n",
    "labels": "f_1,85,,\nf_2,80.5,50,\nf_3,78.25,45,40\n",
    "header without corner": "A1,A2,A3\nf_1,85,,\nf_2,80.5,50,\nf_3,78.25,45,40\n",
    "pandas": ",0,1,2\n0,85.0,,\n1,80.5,50.0,\n2,78.25,45.0,40.0\n",
    "numbered columns": "1,2,3\n85,,\n80.5,50,\n78.25,45,40\n",
    "session numbers": "session,0,1,2\n0,85,,\n1,80.5,50,\n2,78.25,45,40\n",
    "numbers and labels": "session,1,2,3\nf_1,85,,\nf_2,80.5,50,\nf_3,78.25,45,40\n",
    "numbered rows": "1,85\n2,80.5,50\n3,78.25,45,40\n",
    "named columns, numbered rows": "session,A1,A2,A3\n1,85,,\n2,80.5,50,\n3,78.25,45,40\n",
    "title line": "my run\n85\n80.5,50\n78.25,45,40\n",
    "comment": "# seed 1, 5-shot\n85,,\n80.5,50,\n78.25,45,40\n",
    "decimal commas": "85;;\n80,5;50;\n78,25;45;40\n",
    "tabs": "85\t\t\n80.5\t50\t\n78.25\t45\t40\n",
    "quoted": '"85","",""\n"80,5","50",""\n"78,25","45","40"\n',
    "windows lines and mark": "\ufeff85,,\r\n80.5,50,\r\n78.25,45,40\r\n",
    "rows of commas below": "85,,\n80.5,50,\n78.25,45,40\n,,\n,,\n",
}


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("style", GOOD_CSV)
def test_csv_as_people_write_it(style: str, tmp_path: Path) -> None:
    matrix = read_matrix(write(tmp_path, "matrix.csv", GOOD_CSV[style]), CLASSES)
    assert matrix.to_lists() == ROWS
    assert matrix.classes == CLASSES


@pytest.mark.parametrize("text", ["85", "A1\n85", "session,A1\n1,85", ",0\n0,85", "1,85", "f_1,85"])
def test_one_session(text: str, tmp_path: Path) -> None:
    assert read_matrix(write(tmp_path, "matrix.csv", text), [60]).to_lists() == [[85.0]]


@pytest.mark.parametrize("suffix", [".csv", ".CSV", ".tsv", ".txt"])
def test_text_suffixes(suffix: str, tmp_path: Path) -> None:
    assert read_matrix(write(tmp_path, f"m{suffix}", GOOD_CSV["plain"]), CLASSES).to_lists() == ROWS


def test_json_list_of_rows(tmp_path: Path) -> None:
    full = [[85, None, None], [80.5, 50, None], [78.25, 45, 40]]
    for rows in (ROWS, full):
        assert read_matrix(write(tmp_path, "m.json", json.dumps(rows)), CLASSES).to_lists() == ROWS
    assert read_matrix(write(tmp_path, "m.json", "[[85, NaN], [80, 50]]"), [10, 5]).to_lists() == [[85], [80, 50]]


def test_json_object_brings_its_counts(tmp_path: Path) -> None:
    document = {"matrix": ROWS, "classes": list(CLASSES), "test_counts": [1000, 500, 490], "method": "any"}
    path = write(tmp_path, "result.json", json.dumps(document))
    for matrix in (read_matrix(path), read_matrix(str(path), CLASSES), read_matrix(path, np.array(CLASSES).tolist())):
        assert (matrix.to_lists(), matrix.classes, matrix.test_counts) == (ROWS, CLASSES, (1000, 500, 490))


def test_a_result_near_zero_percent_is_no_fraction(tmp_path: Path) -> None:
    document = {"matrix": [[1.0], [0.9, 0.5]], "classes": [10, 5]}
    assert read_matrix(write(tmp_path, "result.json", json.dumps(document))).values[0, 0] == 1.0
    assert read_matrix(write(tmp_path, "zero.csv", "0\n0,0"), [10, 5]).values[0, 0] == 0.0


BAD_CSV = {
    "": "The file is empty; give one row of accuracies per session.",
    " \n\n": "The file is empty; give one row of accuracies per session.",
    "# only a comment": "There is no matrix in the file; give one row of accuracies per session.",
    ",,\n,,": "There is no matrix in the file; give one row of accuracies per session.",
    "85\n80,\n78,45,40": "hole at row 2, column 2; every cell on and below the diagonal must be filled.",
    "85\n,50\n78,45,40": "hole at row 2, column 1",
    ",,\n80,50,\n78,45,40": "hole at row 1, column 1",
    "85\n80,50\n78,45,": "hole at row 3, column 3",
    "85\n80,150\n78,45,40": "150 at row 2, column 2; accuracies must lie between 0 and 100 percent.",
    "85\n80,-1\n78,45,40": "-1 at row 2, column 2; accuracies must lie",
    "85\n80,1e999\n78,45,40": "inf at row 2, column 2; accuracies must lie",
    "85\n80,abc\n78,45,40": "Row 2, column 2 is 'abc', not a number; give an accuracy in percent.",
    "abc\n80,50\n78,45,40": "Row 1, column 1 is 'abc', not a number",
    "85,abc\n80,50\n78,45,40": "Row 1, column 2 is 'abc', not a number",
    "f_1,abc\nf_2,80,50\nf_3,78,45,40": "Row 1, column 1 is 'abc', not a number",
    "f_1,85,abc\nf_2,80,50\nf_3,78,45,40": "Row 1, column 2 is 'abc', not a number",
    "f_1,85\nf_2,80,50\n78,45,40": "Row 1, column 1 is 'f_1', not a number",
    "85,3,\n80,50,\n78,45,40": "value above the diagonal (row 1, column 2)",
    "85,3\n80,50\n78,45": "value above the diagonal (row 1, column 2)",  # not a header above a square block
    "85\n80,50\n78,45,40,12": "Row 3 has 4 values, more than the 3 rows; a matrix is square.",
    "85\n80,50": "The matrix has 2 sessions but 3 class counts were given; give one count per session, base first.",
    "1\n1,0\n1,1,1": "Every value is 0 or 1, which may mean percent or fractions; add percent signs to settle it.",
    "0.01\n0.01,0\n0.01,0,0": "No value is above 0.01, which may mean percent or fractions; add percent signs",
    "0.85\n80,50\n78,45,40": "Row 1 has no value above 1 while others have, so fractions and percent may be mixed;",
    "85%\n80%,50%\n78%,45,40%": "5 of 6 values have a percent sign and '45' has none; write all one way.",
    "just words": "Row 1, column 1 is 'just words', not a number",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD_CSV)
def test_csv_mistakes_are_named(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, "matrix.csv", text)
    with pytest.raises(InputError) as caught:
        read_matrix(path, CLASSES)
    assert_one_sentence(caught.value, path, BAD_CSV[text])


BAD_JSON = {
    "": "The file is empty",
    "{": "This is not valid JSON",
    "[" * 100_000: "This is not valid JSON",
    "[]": "There is no matrix in the file",
    "5": "The matrix is 5, not a list; give a list with one row per session.",
    "null": "The matrix is null, not a list",
    '{"rows": []}': 'There is no "matrix" in the file; give a list of rows or an object with "matrix".',
    '{"matrix": {"a": 1}, "classes": [10]}': 'The matrix is {"a": 1}, not a list',
    "[85, [80, 50]]": "Row 1 is 85, not a list of accuracies; give one list per session.",
    '[[85], [80, "good"], [78, 45, 40]]': "Row 2, column 2 is 'good', not a number",
    "[[85], [80, [50]], [78, 45, 40]]": "Row 2, column 2 is [50], not a number",
    "[[true], [80, 50], [78, 45, 40]]": "Row 1, column 1 is True, not a number",
    "[[85], [80, null], [78, 45, 40]]": "hole at row 2, column 2",
    "[[85], [80, Infinity], [78, 45, 40]]": "inf at row 2, column 2",
    f"[[85], [80, 1{'0' * 400}], [78, 45, 40]]": "inf at row 2, column 2",
    '{"matrix": [[85], [80, 50], [78, 45, 40]], "classes": [60, 5, 5]}':
        "The file has class counts [60, 5, 5] but [10, 5, 5] were given",
    '{"matrix": [[85], [80, 50], [78, 45, 40]], "classes": "60,5,5"}':
        "The class counts are '60,5,5'; give one positive whole number per session, base first.",
    '{"matrix": [[85], [80, 50], [78, 45, 40]], "test_counts": [1000, 0, 500]}': "The test counts are [1000, 0, 500]",
    '{"matrix": [[85], [80, 50], [78, 45, 40]], "test_counts": [1000, 500]}': "3 sessions but 2 test counts were given",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD_JSON, ids=lambda text: text[:40])
def test_json_mistakes_are_named(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, "matrix.json", text)
    with pytest.raises(InputError) as caught:
        read_matrix(path, CLASSES)
    assert_one_sentence(caught.value, path, BAD_JSON[text])


@pytest.mark.parametrize(
    "classes", [[10, 5, 5.5], [10, 0, 5], [10, -5, 5], [10, True, 5], "10,5,5", 10], ids=lambda classes: str(classes)
)
def test_bad_class_counts(classes: object, tmp_path: Path) -> None:
    path = write(tmp_path, "matrix.csv", GOOD_CSV["plain"])
    with pytest.raises(InputError) as caught:
        read_matrix(path, classes)  # type: ignore[arg-type]
    assert_one_sentence(caught.value, path, f"The class counts are {classes!r}; give one positive whole number")


def test_class_counts_may_not_be_missing_everywhere(tmp_path: Path) -> None:
    path = write(tmp_path, "matrix.csv", GOOD_CSV["plain"])
    with pytest.raises(InputError) as caught:
        read_matrix(path)
    assert_one_sentence(caught.value, path, "The class counts are not in the file; give one per session, base first")


def test_file_problems(tmp_path: Path) -> None:
    missing = tmp_path / "missing.csv"
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    spreadsheet = tmp_path / "matrix.xlsx"
    spreadsheet.write_bytes(b"PK\x03\x04")
    binary = tmp_path / "matrix.csv"
    binary.write_bytes("85;é".encode("latin-1"))
    huge = write(tmp_path, "huge.csv", '"' + "9" * 200_000)
    for path, sentence in {
        missing: "The file does not exist; check the path.",
        folder: "The file cannot be read (Is a directory)",
        spreadsheet: "The file is a spreadsheet; save it as CSV, or paste its cells into a .txt file.",
        write(tmp_path, "m.doc", "85"): "not in a known format; give one of .csv, .json, .log, .npy, .npz, .tsv, .txt.",
        binary: "The file is not UTF-8 text; save it as CSV (UTF-8) or JSON.",
        huge: "The text is not a table (field larger than field limit (131072))",
    }.items():
        with pytest.raises(InputError) as caught:
            read_matrix(path, CLASSES)
        assert_one_sentence(caught.value, path, sentence)


def assert_one_sentence(error: InputError, path: Path, part: str) -> None:
    message = str(error)
    assert part in message
    assert message.startswith(str(path))
    assert "\n" not in message
    assert message.endswith(".")


@given(matrices(), st.booleans(), st.booleans())
def test_written_matrices_come_back(matrix: AccuracyMatrix, header: bool, labels: bool) -> None:
    lines = [[repr(value) for value in row] for row in matrix.to_lists()]
    if labels:
        lines = [[f"session {i}", *line] for i, line in enumerate(lines)]
    if header:
        names = [f"A{j + 1}" for j in range(matrix.sessions)]
        lines = [["after", *names] if labels else names, *lines]
    tables = [csv_table("\n".join(map(",".join, lines))), json_table(json.dumps(matrix.to_lists()))]
    for table in tables:
        try:
            back = table_to_matrix(table, matrix.classes)
        except InputError:
            assert any(0 < max(row) <= 1 for row in matrix.to_lists())  # perhaps fractions: refused
            continue
        factor = 100 if 0 < max(map(max, matrix.to_lists())) <= 1 else 1
        assert back.to_lists() == [[round(v * 100, 10) if factor == 100 else v for v in r] for r in matrix.to_lists()]


@given(st.text(alphabet='0159., ;-%\n"abcé#\t', max_size=60), st.integers(1, 4))
def test_any_text_is_read_or_refused_in_words(text: str, sessions: int) -> None:
    for parse in (csv_table, json_table, text_table):
        try:
            matrix = table_to_matrix(parse(text), [5] * sessions)
        except InputError:
            continue
        assert matrix.sessions == sessions


@pytest.mark.parametrize(
    "text",
    [
        "[[85.0, nan], [80, 50]]",
        "[[85. nan]\n [80. 50.]]\n",
        "tensor([[85., nan],\n        [80., 50.]])",
        "array([[85., nan],\n       [80., 50.]])",
        "session 1 acc: 85.00\nsession 2 acc: 80.00, 50.00\n",
        "base acc=85.0\nbase acc=80.0 50.0\n",
    ],
)
def test_what_programs_print(text: str) -> None:
    matrix = parse_matrix(text, (60, 5), say=lambda sentence: None)
    assert matrix.to_lists() == [[85.0], [80.0, 50.0]]
