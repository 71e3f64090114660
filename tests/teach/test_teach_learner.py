"""A project through its public face: learn, answer, forget, undo."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from teach_samples import NOVEL, characters, encoded, noise

from fscil.core.errors import InputError
from fscil.teach import Learner
from fscil.teach.learning.calibration import FALSE_ALARMS
from fscil.teach.project.pictures import read_all
from fscil.teach.project.store import UNDO_DEPTH

A, B, C, D = NOVEL[:4]


def answers(learner: Learner) -> list[list[float]]:
    """All probabilities for a few pictures, by class name."""
    queries = [image for character in NOVEL[:6] for image in characters(character, 2, seed=9, test=True)]
    return [
        [guess.confidence for guess in sorted(answer.top, key=lambda guess: guess.label)]
        for answer in learner.predict(queries, top=100)
    ]


def test_it_learns_and_recognises(taught: Learner) -> None:
    queries = [image for character in NOVEL[:8] for image in characters(character, 6, seed=1)]
    found = taught.predict(queries)
    right = [p.label == NOVEL[row // 6] for row, p in enumerate(found)]
    assert np.mean(right) > 0.85
    for prediction in found:
        assert prediction.label == prediction.top[0].label
        assert prediction.confidence == prediction.top[0].confidence
        assert len(prediction.top) == 5
    whole = taught.predict(queries[:1], top=100)[0]
    assert {guess.label for guess in whole.top} == {*NOVEL[:8], "unknown"}
    assert sum(guess.confidence for guess in whole.top) == pytest.approx(1)
    json.dumps([dataclasses.asdict(p) for p in found])


def test_what_was_never_taught_is_unknown(taught: Learner) -> None:
    strange = [image for character in "QU?@W" for image in characters(character, 4)] + noise(5)
    labels = [p.label for p in taught.predict(strange)]
    assert labels.count("unknown") > 0.7 * len(labels)


def test_every_kind_of_picture_gives_the_same_answer(taught: Learner, tmp_path: Path) -> None:
    image = characters(A, 1, seed=3)[0]
    path = tmp_path / "a.png"
    path.write_bytes(encoded(image))
    kinds = [path, str(path), encoded(image), Image.fromarray(image), image]
    assert all((item.pixels == image).all() for keep in (True, False) for item in read_all(kinds, 32, keep=keep))
    found = taught.predict(kinds)
    assert len({p.label for p in found}) == 1
    # Equal pixels at different places of a batch: some CPUs' kernels round the last digit differently.
    assert [p.confidence for p in found] == pytest.approx([found[0].confidence] * 5, abs=1e-6)
    assert [p.file for p in found] == [str(path), str(path), "image 3", "image 4", "image 5"]


def test_an_unreadable_picture_does_not_stop_the_others(taught: Learner, tmp_path: Path) -> None:
    found = taught.predict([tmp_path / "absent.png", b"no picture", characters(A)[0]])
    assert found[0].error == "there is no such file"
    assert "not a PNG" in found[1].error
    assert found[2].label == A
    assert not found[2].error


def test_a_project_is_a_folder_that_others_can_read(tmp_path: Path) -> None:
    """Read with sqlite3 alone: tables, features, and images by the hash of their content."""
    images = characters(A, 3)
    with Learner.create(tmp_path / "p") as learner:
        learner.learn(A, images)
    database = sqlite3.connect(tmp_path / "p" / "project.sqlite")
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert not database.execute("PRAGMA foreign_key_check").fetchall()
    rows = database.execute("SELECT sha256, media, length(features) FROM images").fetchall()
    assert {row[0] for row in rows} == {hashlib.sha256(encoded(image)).hexdigest() for image in images}
    assert all(size == 4 * 64 * 4 for _, _, size in rows)
    for sha256, media, _ in rows:
        assert media == "image/png"
        content = (tmp_path / "p" / "images" / f"{sha256}.png").read_bytes()
        assert hashlib.sha256(content).hexdigest() == sha256


def test_reopening_gives_the_same_answers_without_the_encoder(taught: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    before = answers(taught)
    again = Learner.open(taught.path)
    monkeypatch.setattr(type(again.encoder), "features", lambda *_: pytest.fail("the encoder ran"))
    assert len(again.snapshot().knowledge.memories) == 8
    monkeypatch.undo()
    assert np.allclose(answers(again), before, atol=1e-6)
    again.close()


def test_the_order_of_teaching_does_not_matter(tmp_path: Path) -> None:
    first, second = Learner.create(tmp_path / "1"), Learner.create(tmp_path / "2")
    for character in (A, B, C):
        first.learn(character, characters(character))
    for character in (C, A, B):
        second.learn(character, characters(character)[3:])
    for character in (B, C, A):
        second.learn(character, characters(character)[:3])
    assert np.allclose(answers(first), answers(second), atol=1e-6)


def test_forgetting_leaves_no_trace(tmp_path: Path) -> None:
    whole, less = Learner.create(tmp_path / "1"), Learner.create(tmp_path / "2")
    for character in (A, B, C):
        whole.learn(character, characters(character))
    whole.forget(B)
    for character in (A, C):
        less.learn(character, characters(character))
    assert np.allclose(answers(whole), answers(less), atol=1e-6)
    assert [info.name for info in whole.classes()] == [A, C]


CHANGES: dict[str, Callable[[Learner], object]] = {
    "a new class": lambda learner: learner.learn("new", characters(D)),
    "more images": lambda learner: learner.learn(A, characters(A, 9)[5:]),
    "rename": lambda learner: learner.rename(A, "other"),
    "forget": lambda learner: learner.forget(A),
    "remove": lambda learner: learner.remove_image(learner.images(A)[0].id),
    "threshold": lambda learner: learner.set_threshold(0.9),
    "move": lambda learner: learner.move_image(learner.images(A)[0].id, B),
    "move to a new class": lambda learner: learner.move_image(learner.images(A)[0].id, "new"),
    "keep": lambda learner: learner.keep("worst_images", [learner.images(A)[0].id]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_undo_takes_every_change_back(learner: Learner, name: str) -> None:
    for character in (A, B):
        learner.learn(character, characters(character))
    before, classes, images = answers(learner), learner.classes(), learner.images(A)
    generation = learner.generation
    CHANGES[name](learner)
    assert learner.generation > generation
    what = learner.undo()
    assert learner.history()[-1].what == what
    assert learner.history()[-1].undone
    assert learner.classes() == classes
    assert learner.images(A) == images
    assert answers(learner) == before  # to the last bit


def test_a_moved_image_counts_as_if_it_had_been_taught_there(tmp_path: Path) -> None:
    moved, taught = Learner.create(tmp_path / "1"), Learner.create(tmp_path / "2")
    images = characters(A, 6)
    moved.learn(A, images[:5])
    moved.learn(B, [*characters(B), images[5]])
    moved.move_image(moved.images(B)[-1].id, A)
    taught.learn(A, images)
    taught.learn(B, characters(B))
    assert np.allclose(answers(moved), answers(taught), atol=1e-6)
    only = moved.images(A)
    for image in only:
        moved.move_image(image.id, "new")
    assert [info.name for info in moved.classes()] == [B, "new"]  # a class goes with its last image
    assert [moved.undo() for _ in only][-1].endswith(f"from '{A}' to 'new'")
    assert moved.images(A) == only
    generation = moved.generation
    moved.move_image(only[0].id, A)  # where it is
    assert moved.generation == generation
    with pytest.raises(InputError, match="no image"):
        moved.move_image("0" * 64, A)


def test_undo_to_the_very_beginning(learner: Learner) -> None:
    learner.learn(A, characters(A))
    learner.rename(A, "x")
    learner.forget("x")
    assert [learner.undo() for _ in range(3)] == ["forgot 'x'", f"renamed '{A}' to 'x'", f"learned '{A}' from 5 images"]
    assert learner.classes() == []
    with pytest.raises(InputError, match="nothing to undo"):
        learner.undo()
    learner.learn(A, characters(A))
    assert [change.undone for change in learner.history()] == [True, True, True, False]


def test_old_changes_are_final(learner: Learner) -> None:
    learner.learn(A, characters(A, 2))
    learner.learn(B, characters(B, 2))
    learner.forget(A)
    for number in range(UNDO_DEPTH):
        learner.set_threshold(number / 100)
    for _ in range(UNDO_DEPTH):
        learner.undo()
    with pytest.raises(InputError, match=f"last {UNDO_DEPTH}"):
        learner.undo()
    path = learner.path
    learner.close()
    Learner.open(path).close()  # sweeps what nothing names any more
    assert len(list((path / "images").iterdir())) == 2


def test_renaming_learns_nothing_again(taught: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = Learner.create(tmp_path / "p")
    learner.learn(A, characters(A))
    monkeypatch.setattr(type(learner.encoder), "features", lambda *_: pytest.fail("the encoder ran"))
    learner.rename(A, "  new name ")
    assert [info.name for info in learner.classes()] == ["new name"]
    assert learner.images("new name")[0].class_name == "new name"


def test_duplicates_are_named(learner: Learner) -> None:
    one, two, three = characters(A, 3)
    assert learner.learn("a", [one, one, two]).skipped[0].reason == "the same picture was given twice"
    again = learner.learn("a", [one, three])
    assert (again.added, again.skipped[0].reason) == (1, "'a' has this picture already")
    other = learner.learn("b", [two])
    assert (other.added, "one of 'a'" in other.skipped[0].reason) == (0, True)
    assert [info.name for info in learner.classes()] == ["a"]  # no class without images
    assert len(learner.history()) == 2


def test_rivals_are_the_similar_classes(learner: Learner) -> None:
    assert learner.learn("euro", characters("€")).rivals == []
    learner.learn("seven", characters("7"))
    rivals = learner.learn("ukrainian ye", characters("Є")).rivals
    assert [rival.name for rival in rivals] == ["euro", "seven"]
    assert rivals[0].similarity > 0.5 > rivals[1].similarity


def test_one_class_and_one_image_are_enough_to_answer(learner: Learner) -> None:
    with pytest.raises(InputError, match="no class yet"):
        learner.predict([characters(A)[0]])
    learner.learn(A, characters(A, 1))
    assert learner.predict([characters(A, 1)[0]])[0].label == A
    assert learner.predict([noise(1)[0]])[0].label == "unknown"
    assert 0 < learner.predict([characters(A, 2)[1]])[0].confidence < 1
    learner.learn(B, characters(B, 1))
    assert learner.predict([characters(B, 1)[0]])[0].label == B


def test_the_threshold_can_be_set_and_estimated_again(learner: Learner) -> None:
    for character in (A, B, C):
        learner.learn(character, characters(character))
    estimated = learner.threshold()
    query = [characters(A, 1, seed=5)[0]]
    learner.set_threshold(1.0)
    assert learner.predict(query)[0].label == "unknown"
    learner.set_threshold(-1)
    assert learner.predict(noise(1))[0].label != "unknown"
    learner.set_threshold(None)
    assert learner.threshold() == estimated
    for bad in (2, -1.5, float("nan")):
        with pytest.raises(InputError, match="from -1 to 1"):
            learner.set_threshold(bad)


def test_false_alarms_can_be_set_and_taken_back(learner: Learner) -> None:
    for character in (A, B, C):
        learner.learn(character, characters(character, 8))
    usual = learner.threshold()
    assert learner.false_alarms() == FALSE_ALARMS
    learner.set_threshold(false_alarms=0.3)
    assert learner.threshold() > usual
    assert learner.false_alarms() == 0.3
    learner.set_threshold(0.1)
    assert learner.false_alarms() is None
    assert learner.undo() == "threshold set to 0.100"
    assert learner.false_alarms() == 0.3
    assert learner.undo() == "false alarms set to 30 %"
    assert (learner.threshold(), learner.false_alarms()) == (usual, FALSE_ALARMS)
    for bad in (1, -0.1, float("nan")):
        with pytest.raises(InputError, match="share of the pictures"):
            learner.set_threshold(false_alarms=bad)
    with pytest.raises(InputError, match="not both"):
        learner.set_threshold(0.5, 0.1)


def test_explanations_are_the_nearest_training_images(taught: Learner) -> None:
    image = characters(B)[2]
    near = taught.explain(image, count=4)
    assert near[0].image_id == hashlib.sha256(encoded(image)).hexdigest()
    assert near[0].similarity == pytest.approx(1, abs=1e-5)
    assert near[0].class_name == B
    assert [n.similarity for n in near] == sorted((n.similarity for n in near), reverse=True)
    content = taught.image_bytes(near[0].image_id)
    assert content == (encoded(image), "image/png")


def test_the_map_stays_when_classes_come(learner: Learner) -> None:
    assert learner.map() == []
    learner.learn(A, characters(A))
    before = learner.map()
    assert len(before) == 5
    learner.learn(B, characters(B))
    after = learner.map()
    assert [p for p in after if p.class_name == A] == before
    assert len(after) == 10


def test_features_only(tmp_path: Path) -> None:
    with Learner.create(tmp_path / "p", keep_images=False) as learner:
        learner.learn(A, characters(A))
        learner.learn(B, characters(B))
        assert learner.image_bytes(learner.images(A)[0].id) is None
        assert not learner.keeps_images
        assert not (tmp_path / "p" / "images").exists()
    with Learner.open(tmp_path / "p") as learner:
        assert learner.predict([characters(A, 1, seed=2)[0]])[0].label == A


def test_readers_see_what_another_connection_wrote(learner: Learner) -> None:
    learner.learn(A, characters(A))
    reader = Learner.open(learner.path, readonly=True)
    query = [characters(B, 1)[0]]
    assert reader.predict(query)[0].label == "unknown"
    learner.learn(B, characters(B))
    assert reader.predict(query)[0].label == B
    learner.rename(B, "new")
    assert reader.predict(query)[0].label == "new"
    learner.forget("new")
    assert reader.predict(query)[0].label == "unknown"
    learner.undo()
    assert reader.predict(query)[0].label == "new"
    assert reader.generation == learner.generation
    for change in (lambda: reader.learn(C, characters(C)), lambda: reader.forget(A), reader.undo):
        with pytest.raises(InputError, match="reading only"):
            change()


def test_many_threads(learner: Learner) -> None:
    """Eight threads ask while one teaches: no error, and no class is lost."""
    learner.learn(A, characters(A))
    query = [characters(A, 1, seed=4)[0]]

    def ask(_: int) -> str:
        return learner.predict(query)[0].label

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, number) for number in range(60)]
        for character in NOVEL[1:10]:
            learner.learn(character, characters(character, 2))
        assert {future.result() for future in asked} == {A}
    assert len(learner.classes()) == 10
    assert len(learner.snapshot().knowledge.memories) == 10


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda learner: learner.forget("nope"), "no class 'nope'"),
        (lambda learner: learner.images("nope"), "no class 'nope'"),
        (lambda learner: learner.rename("nope", "x"), "no class 'nope'"),
        (lambda learner: learner.rename("a", "b"), "a class 'b' already"),
        (lambda learner: learner.image_bytes("0" * 64), "no image"),
        (lambda learner: learner.image_bytes("../../etc/passwd"), "no image"),
        (lambda learner: learner.remove_image("x"), "no image"),
        (lambda learner: learner.learn("unknown", []), "another name"),
        (lambda learner: learner.learn("c", "a.png"), "a list of pictures"),
        (lambda learner: learner.learn("c", [3]), "got int"),
        (lambda learner: learner.predict(noise(1)[0]), "a list of pictures"),
        (lambda learner: learner.predict([], top=0), "at least one"),
        (lambda learner: learner.explain(b"x"), "not a PNG"),
    ],
)
def test_refusals(tmp_path: Path, call: Callable[[Learner], object], words: str) -> None:
    learner = Learner.create(tmp_path / "p")
    learner.learn("a", characters(A, 1))
    learner.learn("b", characters(B, 1))
    generation = learner.generation
    with pytest.raises(InputError, match=words):
        call(learner)
    assert learner.generation == generation


def test_folders_that_are_no_projects(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="fscil teach init"):
        Learner.open(tmp_path)
    (tmp_path / "file").write_text("x")
    for path, words in ((tmp_path, "not empty"), (tmp_path / "file", "is a file")):
        with pytest.raises(InputError, match=words):
            Learner.create(path)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "project.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(InputError, match="not a readable project"):
        Learner.open(tmp_path / "damaged")
    learner = Learner.create(tmp_path / "p")
    with pytest.raises(InputError, match="a project already"):
        Learner.create(tmp_path / "p")
    learner.close()
    with pytest.raises(InputError, match="was closed"):
        learner.classes()
    with sqlite3.connect(tmp_path / "p" / "project.sqlite") as database:
        database.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(InputError, match="project format 99"):
        Learner.open(tmp_path / "p")


def test_a_waiting_writer_says_so(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fscil.teach.project.connection.WAIT_SECONDS", 0.1)
    other = sqlite3.connect(learner.path / "project.sqlite", isolation_level=None)
    second = Learner.open(learner.path)
    other.execute("BEGIN IMMEDIATE")
    assert second.classes() == []  # readers do not wait
    with pytest.raises(InputError, match="Another process has been writing"):
        second.learn(A, characters(A))
    other.execute("ROLLBACK")
    assert second.learn(A, characters(A)).added == 5


def test_long_lists_go_in_slices(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fscil.teach.learner.SLICE", 4)
    images = characters(A, 11)
    result = learner.learn("a", [*images[:10], b"broken", images[10]])
    assert (result.added, [s.file for s in result.skipped]) == (11, ["image 11"])
    learner.learn("b", characters(B))
    found = learner.predict([*images[:6], b"broken", *images[6:]])
    assert [p.file for p in found] == [f"image {number}" for number in range(1, 13)]
    assert [bool(p.error) for p in found] == [number == 6 for number in range(12)]
    assert learner.predict([]) == []


def test_a_file_that_changes_while_it_is_learned(learner: Learner, tmp_path: Path) -> None:
    """Files are read again when they are stored, and must be what was looked at."""
    path = tmp_path / "a.png"
    path.write_bytes(encoded(characters(A)[0]))
    features = type(learner.encoder).features

    def meanwhile(encoder: object, pixels: list[np.ndarray]) -> np.ndarray:
        if pixels:
            path.write_bytes(encoded(characters(B)[0]))
        return features(encoder, pixels)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(learner.encoder), "features", meanwhile)
        with pytest.raises(InputError, match="changed while it was being learned"):
            learner.learn("a", [path])
    assert learner.classes() == []
    assert learner.learn("b", [path]).added == 1


@pytest.mark.slow
def test_teaching_needs_nothing_that_windows_lacks(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "sys.modules |= dict.fromkeys(['fcntl', 'resource', 'termios', 'pwd', 'grp'])\n"
        "for name in ('sched_getaffinity', 'fchmod', 'fork', 'getuid', 'mkfifo'): delattr(os, name)\n"
        "import numpy as np\n"
        "from fscil.teach import Learner\n"
        "with Learner.create(sys.argv[1]) as learner:\n"
        "    learner.learn('dark', [np.full((32, 32, 3), level, np.uint8) for level in (0, 20)])\n"
        "    learner.learn('light', [np.full((32, 32, 3), level, np.uint8) for level in (240, 250)])\n"
        "    print(learner.predict([np.full((32, 32, 3), 245, np.uint8)])[0].label)"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "p")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "light\n"


@pytest.mark.parametrize(("width", "images", "one"), [(128, None, True), (1280, None, False), (1280, 3, True)])
def test_few_images_are_looked_at_on_one_thread(
    learner: Learner, monkeypatch: pytest.MonkeyPatch, width: int, images: int | None, one: bool
) -> None:
    taken = []
    monkeypatch.setattr("fscil.core.hardware.take_one_thread", lambda: taken.append(True))
    learner.close()
    with Learner.open(learner.path) as again:
        again._reference = dataclasses.replace(again._reference, dim=width)
        again.settle_threads(images)
        assert not taken
        monkeypatch.setattr("fscil.teach.encoders.loading.load", lambda reference, state: object())
        assert again.encoder
    assert bool(taken) is one
