"""A project: learn a class from a few images, say what an image shows, forget, undo. Safe for use from many threads."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fscil.core.errors import InputError
from fscil.core.progress import Update
from fscil.teach.encoders import loading
from fscil.teach.folders import learn_folders
from fscil.teach.learning.encoder import Encoder, Reference
from fscil.teach.learning.prose import finding_key
from fscil.teach.learning.snapshot import Snapshot, load_snapshot
from fscil.teach.project import changes, contents, files, pictures, records
from fscil.teach.project.backup import backup
from fscil.teach.project.leftovers import beside, clear
from fscil.teach.project.limits import MAX_IMAGES_AT_ONCE, class_name
from fscil.teach.project.making import assembled, refuse_own
from fscil.teach.project.note import NOTE
from fscil.teach.project.pictures import Picture, Source
from fscil.teach.project.store import Store

RIVALS = 3
SLICE = 256  # images that are decoded together
_NO_PIXELS = np.empty(0, dtype=np.uint8)  # in place of pixels that are not needed any more
SMALL = 128  # width of features, up to which a network is fastest on one thread
FEW = 32  # images, up to which any is: eight photographs take 0.24 s of CPU on one and 0.91 on two, beside other work


class Learner:
    """A project in a folder, made by `Learner.create` or `Learner.open`; closed by `close` or at the end of a `with`.

    Images are given as paths, as the bytes of a file, as Pillow images or as arrays.

    Examples:
        >>> import tempfile
        >>> from PIL import Image, ImageDraw
        >>> def drawn(shape, size):
        ...     sheet = Image.new("L", (64, 64), "white")
        ...     getattr(ImageDraw.Draw(sheet), shape)((32 - size, 32 - size, 32 + size, 32 + size), outline=0, width=6)
        ...     return sheet
        >>> with tempfile.TemporaryDirectory() as folder, Learner.create(f"{folder}/a", encoder="glyphs") as learner:
        ...     rings = learner.learn("ring", [drawn("ellipse", size) for size in (18, 20, 22, 24, 26)])
        ...     boxes = learner.learn("box", [drawn("rectangle", size) for size in (18, 20, 22, 24, 26)])
        ...     print(rings.added, boxes.added, [each.name for each in learner.classes()])
        ...     print([answer.label for answer in learner.predict([drawn("ellipse", 23), drawn("rectangle", 23)])])
        5 5 ['ring', 'box']
        ['ring', 'box']
    """

    def __init__(self, path: Path, store: Store, encoder: Encoder | None = None) -> None:
        self.path, self._store = path, store
        self._reference = Reference.from_json(store.meta("encoder") or "{}")
        self.keeps_images = store.meta("keep_images") == "1"
        self._encoder = encoder
        self._encoder_lock = threading.Lock()
        self._one_thread = False
        self._snapshot_lock = threading.RLock()
        self._snapshot: Snapshot | None = None

    @classmethod
    def create(cls, path: str | Path, encoder: str = "", keep_images: bool = True) -> Learner:
        """A new project in an empty or absent folder. `encoder`: where it is empty, see `loading.default`."""
        path = Path(path).expanduser()
        with assembled(path) as work:
            learner = cls._make(work, encoder, keep_images)
            learner.close()
        return cls(path, Store(path, readonly=False), learner._encoder)

    @classmethod
    def create_from(
        cls,
        path: str | Path,
        folder: str | Path,
        encoder: str = "",
        keep_images: bool = True,
        tell: Update = lambda done, total: None,
    ) -> list[records.Learned]:
        """A new project that knows the classes of a folder of class folders; interrupted, there is no project."""
        source = Path(folder).expanduser()
        files.class_folders(source)  # that there are some, before a network is loaded
        with assembled(Path(path).expanduser()) as work, cls._make(work, encoder, keep_images) as learner:
            learned = learn_folders(learner.learn, source, tell)
            if not any(result.added for result in learned):
                raise InputError(f"Nothing was learned: {folder} has no usable image.")
        return learned

    @classmethod
    def _make(cls, folder: Path, encoder: str, keep_images: bool) -> Learner:
        loaded = loading.find(encoder or loading.default(), folder / "state")
        meta = {"encoder": loaded.reference.to_json(), "keep_images": str(int(keep_images)), "note": loaded.note}
        return cls(folder, Store.create(folder, meta), loaded)

    @classmethod
    def open(cls, path: str | Path, readonly: bool = False) -> Learner:
        """A project that is there."""
        path = Path(path).expanduser()
        store = Store(path, readonly=readonly)
        try:
            learner = cls(path, store)
            loading.check(learner._reference, path / "state")
        except BaseException:
            store.close()
            raise
        return learner

    def close(self) -> None:
        """Let go of the project; everything that was learned is stored already."""
        self._store.close()

    def __enter__(self) -> Learner:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def encoder_name(self) -> str:
        """The network that looks at images."""
        return self._reference.name

    @property
    def note(self) -> str:
        """What a user should know about the encoder; empty where there is nothing to say."""
        return self._store.meta("note") or ""

    @property
    def noted(self) -> bool:
        """Is there a note of what the database must hold, or is the project older than notes?"""
        return (self.path / NOTE).exists() or self._store.meta("schema") == "1"

    def settle_threads(self, images: int | None = None) -> None:
        """For programs that own their process: a small network is fastest on one thread, as two would spend more time
        waiting for each other than computing, most of all on a busy machine; and so is any that is shown few `images`
        (None: it is not known how many). Takes effect when the network is loaded.
        """
        few = images is not None and images <= FEW
        self._one_thread = (few or self._reference.dim <= SMALL) and self._reference.kind != "onnx"

    @property
    def generation(self) -> int:
        """Grows with every visible change, also one made by another process."""
        return self._store.generation

    # What is in the project

    def classes(self) -> list[records.ClassInfo]:
        """In the order in which they were taught, with how many images each has."""
        return contents.classes(self._store)

    def overview(self, shown: int) -> list[tuple[records.ClassInfo, list[str]]]:
        """The classes, each with the ids of its first images, all as of one moment."""
        return contents.overview(self._store, shown)

    def images(self, name: str) -> list[records.ImageInfo]:
        """The images of a class, in the order in which they came."""
        return contents.images(self._store, self._stored(name))

    def image_bytes(self, image_id: str) -> tuple[bytes, str] | None:
        """Content as it was given and its media type; None when the project keeps only features."""
        return contents.image_bytes(self._store, image_id, kept=self.keeps_images)

    def picture_names(self) -> list[str]:
        """The files in images/ that the project needs, also for undoing; none where it keeps only features."""
        return contents.picture_names(self._store) if self.keeps_images else []

    def history(self) -> list[records.Change]:
        """Every change, the undone ones included."""
        return contents.history(self._store)

    # Changes

    def read(self, images: Iterable[Source], *, keep: bool) -> list[Picture | records.Skipped]:
        """Decode now what `learn` (with `keep`), `predict` and `explain` take later in place of images. One at a time:
        no more than one large picture is in memory.
        """
        size = self._reference.image_size
        return [
            pictures.read_all([each], size, keep=keep, first=at)[0] for at, each in enumerate(pictures.listed(images))
        ]

    def learn(self, name: str, images: Iterable[Source | Picture | records.Skipped]) -> records.Learned:
        """Add images to a class, which is new or known. Unreadable images and duplicates are skipped and named."""
        name = self._stored(name)
        if self._store.readonly:
            raise InputError(f"The project {self.path} is open for reading only; open it with readonly=False.")
        encoder = self.encoder  # loaded before the clock starts
        started = time.perf_counter()
        given = pictures.listed(images)
        if len(given) > MAX_IMAGES_AT_ONCE:
            raise InputError(f"{len(given)} images at once are too many; give at most {MAX_IMAGES_AT_ONCE}.")
        usable: list[Picture] = []
        skipped: list[records.Skipped] = []
        parts = [encoder.features([])]
        for read in self._read(given, keep=True):
            good = [item for item in read if isinstance(item, Picture)]
            parts.append(encoder.features([picture.pixels for picture in good]))
            usable += [dataclasses.replace(picture, pixels=_NO_PIXELS) for picture in good]
            skipped += [item for item in read if isinstance(item, records.Skipped)]
        features = np.concatenate(parts)
        added, known = changes.add_images(self._store, name, usable, features, keep=self.keeps_images)
        rivals = self.snapshot().rivals(name, RIVALS) if added else []
        return records.Learned(name, added, skipped + known, time.perf_counter() - started, rivals)

    def forget(self, name: str) -> None:
        """Remove a class and its images."""
        changes.forget(self._store, self._stored(name))

    def remove_image(self, image_id: str) -> None:
        """Remove one image; its class goes with the last one."""
        changes.remove_image(self._store, image_id)

    def move_image(self, image_id: str, name: str) -> None:
        """Put one image into another class, which is new or known; nothing is learned again."""
        changes.move_image(self._store, image_id, self._stored(name))

    def keep(self, kind: str, image_ids: Sequence[str]) -> None:
        """The doctor shall not mention this finding about these images again; any change of them brings it back."""
        images = "an image" if len(image_ids) == 1 else f"{len(image_ids)} images"
        changes.keep(self._store, finding_key(kind, image_ids), f"kept {images} as they are")

    def rename(self, old: str, new: str) -> None:
        """Nothing is learned again."""
        changes.rename(self._store, self._stored(old), class_name(new))

    def undo(self) -> str:
        """Take back the last change that stands; returns what it was."""
        return changes.undo(self._store)

    # Answers

    def predict(self, images: Iterable[Source | Picture | records.Skipped], top: int = 5) -> list[records.Prediction]:
        """One answer per image, in order. An unreadable image gives an answer with `error` set."""
        if top < 1:
            raise InputError(f"top is {top}; ask for at least one answer.")
        snapshot = self.snapshot()
        if not snapshot.knowledge.memories:
            raise InputError("The project knows no class yet; teach it one with `learn` or `fscil teach add`.")
        out = []
        for read in self._read(pictures.listed(images), keep=False):
            usable = [item.pixels for item in read if isinstance(item, Picture)]
            answers = iter(snapshot.answers(self.encoder.embed(usable), top))
            for item in read:
                if isinstance(item, records.Skipped):
                    out.append(records.Prediction(item.file, "", 0.0, [], item.reason))
                else:
                    guesses = next(answers)
                    out.append(records.Prediction(item.file, guesses[0].label, guesses[0].confidence, guesses, ""))
        return out

    def explain(
        self, image: Source | Picture | records.Skipped, count: int = 4, name: str | None = None
    ) -> list[records.Neighbour]:
        """The project's images that are most like this one: of all classes, or of the one that is named."""
        (item,) = pictures.read_all([image], self._reference.image_size, keep=False)
        if isinstance(item, records.Skipped):
            raise InputError(f"{item.file}: {item.reason}.")
        return self.snapshot().neighbours(self.encoder.embed([item.pixels])[0], count, name)

    def threshold(self) -> float:
        """Likeness (about 0..1) to the nearest class below which the answer is 'unknown'."""
        return self.snapshot().head.calibration.level

    def false_alarms(self) -> float | None:
        """The share of pictures of known classes that may be called unknown; None where the threshold is set."""
        head = self.snapshot().head
        return head.false_alarms if head.set_level is None else None

    def set_threshold(self, value: float | None = None, false_alarms: float | None = None) -> None:
        """A likeness, or the share of pictures of known classes that may be called unknown: the threshold is then
        estimated from the project's own images. Neither: estimated, with the usual share.
        """
        changes.set_threshold(self._store, value, false_alarms)

    def map(self) -> list[records.MapPoint]:
        """Two coordinates per image. With an encoder that knows its base classes the axes are theirs and stay."""
        return self.snapshot().map(self.encoder.axes)

    def doctor(self, test_folder: str | Path | None = None, base: int | None = None) -> records.Diagnosis:
        """What is good and bad about the project's images, and what to do.

        `test_folder` holds a folder of images per class; `base`: how many classes, of those taught first, count as base
        classes there (None: half of them).
        """
        from fscil.teach.learning.doctor import diagnose
        from fscil.teach.learning.examination import examine

        snapshot = self.snapshot()
        test = None
        if test_folder is not None:
            test = examine(snapshot, self.encoder, Path(test_folder).expanduser(), base)
        # An image that another process removes meanwhile has its id for a name.
        files = {image_id: image_id[:12] for memory in snapshot.knowledge.memories for image_id in memory.ids}
        files |= contents.files(self._store)
        kept = frozenset(json.loads(self._store.meta(changes.KEPT) or "[]"))
        return diagnose(snapshot, files, test, kept)

    def export(self, path: str | Path, tell: Callable[[str], None] = lambda stage: None) -> records.ExportReport:
        """An ONNX model that answers as the project does. `tell` hears what is being done."""
        from fscil.teach.onnx.export import CHECKED, export

        refuse_own(Path(path))
        clear(Path(path).parent, beside(Path(path)))  # of exports that were killed
        snapshot = self.snapshot()
        own = [self.image_bytes(image_id) for image_id in snapshot.head.left_out(CHECKED).ids]
        return export(snapshot, self.encoder, self.path / "state", [item[0] for item in own if item], Path(path), tell)

    def backup(self, path: str | Path) -> records.Backup:
        """The whole project in one file, for `restore`; others may go on teaching meanwhile."""
        refuse_own(Path(path).expanduser())
        note = backup(self.path, Path(path).expanduser())
        return records.Backup(str(path), Path(path).expanduser().stat().st_size, note.classes, note.images)

    # Inside

    @property
    def encoder(self) -> Encoder:
        """Loaded when first needed: listing a project does not wait for the network."""
        with self._encoder_lock:
            if self._encoder is None:
                if self._one_thread:
                    from fscil.core.hardware import take_one_thread

                    take_one_thread()
                self._encoder = loading.load(self._reference, self.path / "state")
            return self._encoder

    def snapshot(self) -> Snapshot:
        """The knowledge of the newest generation, loading only classes that another change has touched."""
        with self._snapshot_lock:
            if self._snapshot is None or self._snapshot.generation != self._store.generation:
                self._snapshot = load_snapshot(self._store, self.encoder, self._snapshot)
            return self._snapshot

    def _stored(self, name: str) -> str:
        """The name as it is stored. One that an older version allowed is found as it is, so that it can be renamed."""
        return name if name in contents.names(self._store) else class_name(name)

    def _read(self, given: list[Any], *, keep: bool) -> Iterator[list[Picture | records.Skipped]]:
        """In slices, so that a long list of photographs is never in memory as a whole."""
        for start in range(0, len(given), SLICE):
            part = given[start : start + SLICE]
            yield pictures.read_all(part, self._reference.image_size, keep=keep, first=start)


def import_onnx(model: str | Path, path: str | Path) -> Learner:
    """A project in a new folder that answers as the exported one did, and can go on learning. It has no pictures."""
    from fscil.teach.onnx.reimport import make_project

    folder = Path(path).expanduser()
    return Learner(folder, make_project(Path(model).expanduser(), folder))
