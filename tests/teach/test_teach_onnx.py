"""Export and re-import, judged by onnxruntime alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image
from teach_samples import NOVEL, characters, encoded

from fscil.core.errors import InputError
from fscil.teach import ExportReport, Learner, import_onnx
from fscil.teach.encoders.exported_model import pack, sealed, unpack
from fscil.teach.learning.head import Head
from fscil.teach.onnx import export as exporting
from fscil.teach.onnx import graph

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_predict.py"
DOCS = EXAMPLE.parents[1] / "docs" / "teach.md"
QUERIES = [image for character in NOVEL[:10] for image in characters(character, 3, seed=2, test=True)]


Exported = tuple[Path, ExportReport]


@pytest.fixture(scope="module")
def exported_and_answers(taught: Learner, tmp_path_factory: pytest.TempPathFactory) -> tuple[Exported, list[list[str]]]:
    """A model, and what the project answered while it was made."""
    path, answers = tmp_path_factory.mktemp("export") / "model.onnx", []
    taught.predict(QUERIES)
    with ThreadPoolExecutor(1) as other:
        export = other.submit(taught.export, path)
        while not wait([export], timeout=0.2).done:
            answers.append([p.label for p in taught.predict(QUERIES)])
        return (path, export.result()), answers


@pytest.fixture(scope="module")
def exported(exported_and_answers: tuple[Exported, list[list[str]]]) -> Exported:
    return exported_and_answers[0]


def confidences(learner: Learner) -> np.ndarray:
    """(n, classes + 1), classes in the order of teaching and 'unknown' last."""
    names = [*[info.name for info in learner.classes()], "unknown"]
    rows = [{guess.label: guess.confidence for guess in p.top} for p in learner.predict(QUERIES, top=1000)]
    return np.array([[row[name] for name in names] for row in rows])


def test_the_model_answers_as_the_project(taught: Learner, exported: Exported) -> None:
    path, report = exported
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = session.run(["confidences"], {"images": np.stack(QUERIES)})[0]
    assert np.abs(found - confidences(taught)).max() < 1e-4
    assert report.checked == 40
    assert report.largest_difference < 1e-4
    assert report.classes == 8
    assert report.bytes == path.stat().st_size


def test_the_project_answers_while_it_is_exported(
    taught: Learner, exported_and_answers: tuple[Exported, list[list[str]]]
) -> None:
    """torch's exporter replaces parts of torch while it works, for all threads of its process."""
    answers, expected = exported_and_answers[1], [p.label for p in taught.predict(QUERIES)]
    assert len(answers) > 3
    assert all(answer == expected for answer in answers)


def test_what_the_model_says_of_itself(taught: Learner, exported: Exported) -> None:
    session = onnxruntime.InferenceSession(exported[0], providers=["CPUExecutionProvider"])
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["classes"]) == [*NOVEL[:8], "unknown"]
    assert float(said["threshold"]) == taught.threshold()
    assert float(said["temperature"]) == taught.snapshot().head.calibration.temperature
    (images,) = session.get_inputs()
    assert (images.name, images.type, images.shape[3]) == ("images", "tensor(uint8)", 3)


@pytest.mark.parametrize("size", [(32, 32), (64, 64), (200, 150), (75, 133), (20, 20), (31, 90), (480, 641)])
def test_pictures_of_any_size_are_scaled_inside(taught: Learner, exported: Exported, size: tuple[int, int]) -> None:
    session = onnxruntime.InferenceSession(exported[0], providers=["CPUExecutionProvider"])
    for image in QUERIES[:3]:
        picture = Image.fromarray(image).resize(size, Image.Resampling.BILINEAR)
        expected = {g.label: g.confidence for g in taught.predict([picture], top=1000)[0].top}
        found = session.run(["confidences"], {"images": np.asarray(picture)[None]})[0][0]
        assert np.abs(found - [expected[name] for name in [*NOVEL[:8], "unknown"]]).max() < 0.03


def test_a_project_made_from_the_model(taught: Learner, exported: Exported, tmp_path: Path) -> None:
    with import_onnx(exported[0], tmp_path / "again") as again:
        assert [(c.name, c.images) for c in again.classes()] == [(c.name, c.images) for c in taught.classes()]
        assert np.abs(confidences(again) - confidences(taught)).max() < 1e-4
        assert again.threshold() == pytest.approx(taught.threshold(), abs=1e-6)
        assert len(again.map()) == 40
        with pytest.raises(InputError, match="came with the imported model"):
            again.undo()
    with Learner.open(tmp_path / "again") as again:  # and it goes on learning
        again.learn("new", characters(NOVEL[9]))
        assert again.predict([characters(NOVEL[9], 1, seed=3)[0]])[0].label == "new"
        assert again.explain(characters(NOVEL[0])[0])[0].class_name == NOVEL[0]
        report = again.export(tmp_path / "second.onnx")
        assert report.classes == 9
        assert report.largest_difference < 1e-4
        before = confidences(again)
        assert again.doctor().classes == 9
    with import_onnx(tmp_path / "second.onnx", tmp_path / "third") as third:
        assert np.abs(confidences(third) - before).max() < 1e-4


def test_a_threshold_that_was_set_travels(exported: Exported, tmp_path: Path) -> None:
    with import_onnx(exported[0], tmp_path / "p") as learner:
        learner.set_threshold(0.123)
        report = learner.export(tmp_path / "m.onnx")  # no pictures of its own: compared on made-up ones
        assert report.checked > 10
    with import_onnx(tmp_path / "m.onnx", tmp_path / "q") as again:
        assert again.threshold() == 0.123
        again.set_threshold(None)
        assert again.threshold() != 0.123


def former_answer() -> onnx.ModelProto:
    """What version 2 of the format answered with: similarity to class means."""
    nodes = [
        onnx.helper.make_node("MatMul", ["fscil_after_embedded", "fscil_prototypes"], ["fscil_after_near"]),
        onnx.helper.make_node("Softmax", ["fscil_after_near"], ["confidences"], axis=1),
        onnx.helper.make_node("Identity", ["fscil_after_embedded"], ["embedding"]),
    ]
    width = ["batch", None]
    ends = [onnx.helper.make_tensor_value_info(name, 1, width) for name in ("confidences", "embedding")]
    start = [
        onnx.helper.make_tensor_value_info(name, 1, width) for name in ("fscil_after_embedded", "fscil_prototypes")
    ]
    return onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "former", start, ends),
        opset_imports=[onnx.helper.make_opsetid("", 20)],
        ir_version=graph.IR_VERSION,
    )


def test_a_model_of_the_version_before_goes_on(taught: Learner, exported: Exported, tmp_path: Path) -> None:
    whole = onnx.load(exported[0])
    kept = {entry.key: entry.value for entry in whole.metadata_props if entry.key != "fscil_sha256"}
    body = graph.embedding_of(whole)
    model = onnx.compose.merge_models(body, former_answer(), [(body.graph.output[0].name, "fscil_after_embedded")])
    del model.graph.input[1:]
    means = taught.snapshot().knowledge.prototypes.T
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(means), "fscil_prototypes"))
    prior = {"temperature": 0.1, "level": 0.6, "similarity": taught.encoder.space.similarity, "trust": 1.0}
    space = {**json.loads(kept["space"]), "prior": prior}
    del kept["softness"], kept["false_alarms"]
    former = {**kept, "fscil_format": "2", "set_threshold": "0.2", "space": json.dumps(space)}
    onnx.helper.set_model_props(model, former)
    (tmp_path / "former.onnx").write_bytes(sealed(model.SerializeToString()))
    with import_onnx(tmp_path / "former.onnx", tmp_path / "p") as learner:
        assert [p.label for p in learner.predict(taught_pictures())] == [
            p.label for p in taught.predict(taught_pictures())
        ]
        assert learner.false_alarms() == 0.0  # a mean is nearer than 0.2 to every image
        assert learner.export(tmp_path / "new.onnx").largest_difference < 1e-4
    session = onnxruntime.InferenceSession(tmp_path / "new.onnx", providers=["CPUExecutionProvider"])
    assert session.get_modelmeta().custom_metadata_map["false_alarms"] == "0.0"
    assert "fscil_prototypes" not in [tensor.name for tensor in onnx.load(tmp_path / "new.onnx").graph.initializer]


def taught_pictures() -> list[np.ndarray]:
    return [image for character in NOVEL[:8] for image in characters(character, 2)]


def test_the_script_without_this_package(exported: Exported, taught: Learner, tmp_path: Path) -> None:
    code = [line for line in EXAMPLE.read_text().splitlines() if line.strip() and not line.startswith('"""')]
    assert len(code) <= 15
    assert "fscil" not in "".join(code)
    assert EXAMPLE.read_text().split('"""\n\n')[1] in DOCS.read_text(encoding="utf-8")
    paths = []
    for number, character in enumerate(NOVEL[:3]):
        paths.append(tmp_path / f"{number}.png")
        paths[-1].write_bytes(encoded(characters(character, 1, seed=7)[0]))
    done = subprocess.run(
        [sys.executable, EXAMPLE, exported[0], *paths], capture_output=True, text=True, check=True, timeout=600
    )
    expected = [f"{p.file}: {p.label} ({p.confidence:.0%})" for p in taught.predict(paths)]
    assert done.stdout.splitlines() == expected


def test_a_model_that_disagrees_is_not_left_behind(
    taught: Learner, exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = graph.set_knowledge
    width = taught.encoder.space.width
    without_classes = graph.answered(graph.embedding_of(onnx.load(exported[0])), width)

    def wrong(model: onnx.ModelProto, head: Head, metadata: dict[str, str]) -> None:
        other = Head(head.knowledge)
        object.__setattr__(other, "_place", head._place[::-1])
        right(model, other, metadata)

    monkeypatch.setattr(exporting, "_without_classes", lambda *_: without_classes)
    monkeypatch.setattr(graph, "set_knowledge", wrong)
    with pytest.raises(InputError, match="disagrees with the project"):
        taught.export(tmp_path / "wrong.onnx")
    assert not (tmp_path / "wrong.onnx").exists()


def test_files_that_are_no_such_models(exported: Exported, tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("x")
    with pytest.raises(InputError, match="not a readable ONNX model"):
        import_onnx(tmp_path / "text.onnx", tmp_path / "p")
    with pytest.raises(InputError, match="cannot be read"):
        import_onnx(tmp_path / "absent.onnx", tmp_path / "p")
    for key, value in (
        ("fscil_format", "0"),
        ("classes", "{"),
        ("training_vectors", "AAAA"),
        ("training_images", "[[9, 1]]"),
    ):
        (tmp_path / "changed.onnx").write_bytes(sealed(changed(exported[0], **{key: value})))
        with pytest.raises(InputError, match="was not written by `fscil export`"):
            import_onnx(tmp_path / "changed.onnx", tmp_path / "p")
    assert not (tmp_path / "p").exists()
    with pytest.raises(InputError, match="no class yet"):
        Learner.create(tmp_path / "empty").export(tmp_path / "e.onnx")


def changed(path: Path, **metadata: str) -> bytes:
    """A model with other metadata, without its checksum."""
    model = onnx.load(path)
    kept = {entry.key: entry.value for entry in model.metadata_props if entry.key != "fscil_sha256"}
    onnx.helper.set_model_props(model, {**kept, **metadata})
    return bytes(model.SerializeToString())


def test_a_flipped_bit_anywhere_is_noticed(exported: Exported, tmp_path: Path) -> None:
    whole, rng = exported[0].read_bytes(), np.random.default_rng(0)
    places = [*rng.integers(len(whole), size=40), *range(len(whole) - 80, len(whole), 9)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "damaged.onnx").write_bytes(damaged)
        with pytest.raises(InputError):
            import_onnx(tmp_path / "damaged.onnx", tmp_path / "p")
    assert not (tmp_path / "p").exists()
    # What an earlier version wrote has no checksum, and is read.
    (tmp_path / "older.onnx").write_bytes(changed(exported[0], fscil_format="1"))
    assert import_onnx(tmp_path / "older.onnx", tmp_path / "p").classes()


def outside(model: onnx.ModelProto, at: str) -> onnx.TensorProto:
    """A tensor somewhere in the model that is said to be in another file."""
    tensor = onnx.TensorProto(name="stolen", data_type=onnx.TensorProto.FLOAT, dims=[4], data_location=1)
    for key, value in {"location": "secret.bin", "offset": "0", "length": "16"}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    if at == "initializer":
        model.graph.initializer.append(tensor)
    elif at == "constant":
        model.graph.node.append(onnx.helper.make_node("Constant", [], ["stolen"], value=tensor))
    else:
        branch = onnx.helper.make_graph([], "branch", [], [], [tensor])
        model.graph.node.append(onnx.helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch))
    return tensor


@pytest.mark.parametrize("at", ["initializer", "constant", "branch"])
def test_a_model_cannot_make_other_files_be_read(
    at: str, exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    monkeypatch.chdir(tmp_path)
    model = onnx.load(exported[0])
    outside(model, at)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match="refers to other files"):
        import_onnx(tmp_path / "model.onnx", tmp_path / "p")
    assert not (tmp_path / "p" / "project.sqlite").exists()


def with_space(change: dict[str, object]) -> Callable[[str], str]:
    return lambda text: json.dumps({**json.loads(text), **change})


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("set_threshold", lambda text: "nan"),
        ("set_threshold", lambda text: "inf"),
        ("set_threshold", lambda text: "7"),
        ("training_vectors", lambda text: pack(np.where(np.arange(unpack(text, (-1,)).size) == 5, np.nan, 0))),
        ("false_alarms", lambda text: "1"),
        ("false_alarms", lambda text: "nan"),
        ("space", with_space({"prior": {"similarity": float("nan")}})),
        ("space", with_space({"prior": {}})),
        ("space", with_space({"groups": [[1, float("inf")]]})),
        ("space", with_space({"axes": pack(np.full((2, 4), np.inf))})),
        ("space", lambda text: "[" * 50_000),
        ("classes", lambda text: "{}"),
        ("reference", lambda text: "[]"),
        ("training_images", lambda text: "[[0, 1, 2]]"),
    ],
)
def test_numbers_that_are_none_are_refused(
    key: str, change: Callable[[str], str], exported: Exported, tmp_path: Path
) -> None:
    (entry,) = [entry for entry in onnx.load(exported[0]).metadata_props if entry.key == key]
    (tmp_path / "model.onnx").write_bytes(sealed(changed(exported[0], **{key: change(entry.value)})))
    with pytest.raises(InputError, match="not written by `fscil export`"):
        import_onnx(tmp_path / "model.onnx", tmp_path / "p")
    assert not (tmp_path / "p" / "project.sqlite").exists()


def test_a_graph_that_gives_no_numbers_is_named(exported: Exported, tmp_path: Path) -> None:
    model = onnx.load(exported[0])
    largest = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    largest.raw_data = np.full(len(largest.raw_data) // 4, np.nan, dtype=np.float32).tobytes()
    seal = model.metadata_props.pop()  # of what was before
    assert seal.key == "fscil_sha256"
    (tmp_path / "model.onnx").write_bytes(sealed(model.SerializeToString()))
    with import_onnx(tmp_path / "model.onnx", tmp_path / "p") as learner:
        with pytest.raises(InputError, match="not finite numbers"):
            learner.predict(QUERIES[:2])
        with pytest.raises(InputError, match="not finite numbers"):
            learner.learn("more", characters(NOVEL[9], 2))
