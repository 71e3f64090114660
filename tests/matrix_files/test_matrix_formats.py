"""Matrices from where people have them: NumPy files, logs, spreadsheets; what was decided is said."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import pytest

from fscil.core.errors import InputError
from fscil.matrix_files import ReadingNote, parse_matrix, read_matrix
from fscil.matrix_files.reading import BINARY_FORMATS, FORMATS

CLASSES = (10, 5, 5)
ROWS = [[85.0], [80.5, 50.0], [78.25, 45.0, 40.0]]
FILLED = np.array([[85, np.nan, np.nan], [80.5, 50, np.nan], [78.25, 45, 40]])


def read(path: Path, classes: tuple[int, ...] | None = CLASSES) -> tuple[list[list[float]], list[str]]:
    notes: list[str] = []
    return read_matrix(path, classes, say=notes.append).to_lists(), notes


# --- NumPy


@pytest.mark.parametrize(("filler", "said"), [(np.nan, ""), (0.0, "The 0s above"), (-1.0, "The -1s above")])
def test_npy_with_the_usual_fillers(filler: float, said: str, tmp_path: Path) -> None:
    array = FILLED.copy()
    array[np.triu_indices(3, 1)] = filler
    np.save(tmp_path / "m.npy", array)
    rows, notes = read(tmp_path / "m.npy")
    assert rows == ROWS
    assert [note.startswith(said) for note in notes] == ([True] if said else [])


def test_npy_of_fractions_and_of_small_types(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", (FILLED / 100).astype(np.float64))
    rows, notes = read(tmp_path / "m.npy")
    assert rows == ROWS
    assert "multiplied by 100" in notes[0]
    np.save(tmp_path / "i.npy", np.array([[85, 0], [80, 50]], dtype=np.int8))
    assert read(tmp_path / "i.npy", (10, 5))[0] == [[85.0], [80.0, 50.0]]
    np.save(tmp_path / "one.npy", np.array([[85.0]]))
    assert read(tmp_path / "one.npy", (10,))[0] == [[85.0]]


def test_npz_by_name_or_alone(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", matrix=FILLED, classes=np.array(CLASSES), test_counts=[1000, 500, 500], loss=[1.0])
    matrix = read_matrix(tmp_path / "a.npz")
    assert (matrix.to_lists(), matrix.classes, matrix.test_counts) == (ROWS, CLASSES, (1000, 500, 500))
    np.savez_compressed(tmp_path / "b.npz", anything=FILLED)
    assert read(tmp_path / "b.npz")[0] == ROWS


class Payload:
    """What an array of objects might hide."""


BAD_ARRAYS = {
    "transposed": (FILLED.T, "looks transposed; give one row per session."),
    "row": (np.array([85.0, 80, 78]), "The array has shape (3,); an accuracy matrix is square"),
    "cube": (np.zeros((2, 2, 2)), "The array has shape (2, 2, 2)"),
    "text": (np.array([["85"]]), "The array holds <U2, not numbers; save it as floats."),
    "flags": (np.array([[True]]), "The array holds bool, not numbers"),
    "hole": (np.array([[85, np.nan], [np.nan, 50]]), "hole at row 2, column 1"),
    "full": (np.array([[85.0, 3], [80, 50]]), "value above the diagonal (row 1, column 2)"),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_arrays_that_are_no_matrix(name: str, tmp_path: Path) -> None:
    array, sentence = BAD_ARRAYS[name]
    np.save(tmp_path / "m.npy", array)
    refused(tmp_path / "m.npy", (10, 5) if len(array) == 2 else CLASSES, sentence)


def test_numpy_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "m.npy").write_bytes(b"not an array")
    refused(tmp_path / "m.npy", CLASSES, "it is not a NumPy file; save a plain array of numbers.")
    np.save(tmp_path / "o.npy", np.array([[Payload()]], dtype=object), allow_pickle=True)
    refused(tmp_path / "o.npy", CLASSES, "it holds Python objects; save a plain array of numbers.")
    (tmp_path / "cut.npy").write_bytes((tmp_path / "o.npy").read_bytes()[:40])
    refused(tmp_path / "cut.npy", CLASSES, "it is damaged; save a plain array of numbers.")
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04 and no more")
    refused(tmp_path / "cut.npz", CLASSES, "it is damaged; save a plain array of numbers.")
    np.savez(tmp_path / "objects.npz", matrix=np.array([[Payload()]], dtype=object), allow_pickle=True)
    refused(tmp_path / "objects.npz", CLASSES, "The arrays in the file cannot be read; save plain arrays of numbers.")
    np.savez(tmp_path / "two.npz", first=FILLED, second=FILLED)
    refused(tmp_path / "two.npz", CLASSES, 'The file has the arrays first, second; name the accuracy matrix "matrix".')
    np.savez(tmp_path / "none.npz")
    refused(tmp_path / "none.npz", CLASSES, "The file has the arrays none;")
    np.save(tmp_path / "x.npy", FILLED)
    (tmp_path / "x.npy").rename(tmp_path / "x.npz")
    refused(tmp_path / "x.npz", CLASSES, "a single array without a name; rename it to .npy.")
    (tmp_path / "two.npz").rename(tmp_path / "two.npy")
    refused(tmp_path / "two.npy", CLASSES, "several arrays; rename it to .npz.")
    refused(tmp_path / "missing.npy", CLASSES, "The file does not exist; check the path.")


# --- text from logs and spreadsheets

LOGS = {
    "spaces": "85\n80.5 50\n78.25 45 40\n",
    "columns": "85.00\n80.50   50.00\n78.25   45.00   40.00\n",
    "numbered": "0 85\n1 80.5 50\n2 78.25 45 40",
    "words": "session 1: 85.0\nsession 2: 80.5 50.0\nsession 3: 78.25 45.0 40.0",
    "percent": "after 1 | 85%\nafter 2 | 80.5% 50%\nafter 3 | 78.25 % 45 % 40 %",
    "lists": "acc per task [85.0]\nacc per task [80.5, 50.0]\nacc per task [78.25, 45.0, 40.0]",
    "numpy": "[85.   nan nan]\n[80.5 50. nan]\n[78.25 45. 40. ]",
    "tuples": "(85.0,)\n(80.5, 50.0)\n(78.25, 45.0, 40.0)",
    "a real log": (
        "2024-03-01 10:00:01,123 INFO epoch 100 loss 0.31\n"
        "2024-03-01 10:00:02,456 INFO Task [0] acc: 85.0\n"
        "2024-03-01 10:10:01,007 INFO epoch 10 loss 0.92\n"
        "2024-03-01 10:10:02,100 INFO Task [1] acc: 80.5, 50.0\n"
        "2024-03-01 10:20:02,100 INFO epoch 10 loss 0.88\n"
        "2024-03-01 10:20:09,100 INFO Task [2] acc: 78.25, 45.0, 40.0\n"
        "done\n"
    ),
    "tabs": "\tA1\tA2\tA3\nf1\t85,0%\t\t\nf2\t80,5%\t50%\t\nf3\t78,25%\t45%\t40%\n",
    "tabbed fractions": "0.85\t\t\n0.805\t0.5\t\n0.7825\t0.45\t0.4\n",
    "json": "[[85.0], [80.5, 50.0], [78.25, 45.0, 40.0]]",
}


@pytest.mark.parametrize("style", LOGS)
def test_pasted_text(style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("m.txt", "m.log"):
        (tmp_path / name).write_text(LOGS[style], encoding="utf-8")
        assert read(tmp_path / name)[0] == ROWS
    assert parse_matrix(LOGS[style], CLASSES, say=lambda _: None).to_lists() == ROWS
    monkeypatch.setattr("sys.stdin", io.StringIO(LOGS[style]))
    assert read(Path("-"))[0] == ROWS


def test_what_was_decided_is_said(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(LOGS["a real log"])
    assert read(tmp_path / "m.txt")[1] == ["Read 3 rows of accuracies from text; 4 other lines were ignored."]
    (tmp_path / "m.csv").write_text("0.85\n0.805,0.5\n0.7825,0.45,0.4")
    fractions = ["No value is above 1, so they were read as fractions of 1 and multiplied by 100."]
    assert read(tmp_path / "m.csv") == (ROWS, fractions)
    with pytest.warns(ReadingNote, match="fractions"):
        read_matrix(tmp_path / "m.csv", CLASSES)
    (tmp_path / "m.csv").write_text("85\n80.5,50\n78.25,45,40")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_matrix(tmp_path / "m.csv", CLASSES).to_lists() == ROWS


def test_percent_signs_settle_the_scale(tmp_path: Path) -> None:
    """0.9 % is a bad result, not 90 %; a row of such values among others is then no reason to refuse either."""
    (tmp_path / "m.csv").write_text("0.9%\n0.5%,0.1%")
    assert read(tmp_path / "m.csv", (10, 5)) == ([[0.9], [0.5, 0.1]], [])
    (tmp_path / "m.csv").write_text("85%\n0.5%,0.1%")
    assert read(tmp_path / "m.csv", (10, 5)) == ([[85.0], [0.5, 0.1]], [])


def test_class_ranges_bring_their_counts() -> None:
    text = (
        "CNN: {'total': 85.0, '00-09': 85.0}\n"
        "CNN: {'total': 70.3, '00-09': 80.5, '10-14': 50.0, 'old': 80.5, 'new': 50.0}\n"
        "CNN: {'total': 60.4, '00-09': 78.25, '10-14': 45.0, '15-19': 40.0}\n"
    )
    matrix = parse_matrix(text, say=lambda _: None)
    assert (matrix.to_lists(), matrix.classes) == (ROWS, CLASSES)
    with pytest.raises(InputError, match=r"class counts \[10, 5, 5\] but \[60, 5, 5\] were given"):
        parse_matrix(text, (60, 5, 5))


AMBIGUOUS = {
    "two runs": (LOGS["words"] + "\n" + LOGS["words"].replace("85", "84"), "The text holds 2 triangles of accuracies;"),
    "two metrics": (
        "acc: 85\ntop5: 95\nacc: 80.5 50\ntop5: 93 70\nacc: 78.25 45 40\ntop5: 92 65 60",
        "The text holds 2 triangles of accuracies; give one run at a time.",
    ),
    "no triangle": ("accuracy 85\naccuracy 70\naccuracy 60", "Row 1, column 1 is 'accuracy 85', not a number"),
    "a gap": ("s1: 85\ns2: 80.5 50\ns4: 78 45 40 30", "The matrix has 2 sessions but 3 class counts were given"),
    "mixed signs": ("s1: 85%\ns2: 80.5 50%\ns3: 78 45 40", "2 of 6 values have a percent sign and '80.5' has none"),
    "prose": ("it went rather well", "Row 1, column 1 is 'it went rather well', not a number"),
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_ambiguous_text_is_refused(case: str, tmp_path: Path) -> None:
    text, sentence = AMBIGUOUS[case]
    (tmp_path / "m.txt").write_text(text)
    refused(tmp_path / "m.txt", CLASSES, sentence)


def test_the_same_rows_twice_are_no_contradiction() -> None:
    """A log that prints its final rows again says the same thing twice."""
    assert parse_matrix(f"{LOGS['lists']}\nsummary\n{LOGS['lists']}", CLASSES, say=lambda _: None).to_lists() == ROWS


def test_empty_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    with pytest.raises(InputError, match=r"^stdin: The file is empty; give one row of accuracies per session\.$"):
        read_matrix("-", CLASSES)


def test_every_suffix_is_known() -> None:
    assert {*FORMATS, *BINARY_FORMATS} == {".csv", ".tsv", ".txt", ".log", ".json", ".npy", ".npz"}


def refused(path: Path, classes: tuple[int, ...], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_matrix(path, classes)
    message = str(caught.value)
    assert sentence in message
    assert message.startswith(str(path))
    assert "\n" not in message
    assert message.endswith(".")
