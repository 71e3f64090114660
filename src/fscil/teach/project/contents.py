"""What is in a project: its classes, their images, and how it came about."""

from __future__ import annotations

from fscil.core.errors import InputError
from fscil.teach.project.records import Change, ClassInfo, ImageInfo
from fscil.teach.project.store import Store
from fscil.teach.project.transaction import image_path, no_such_class
from fscil.teach.project.trash import stored_content


def names(store: Store) -> list[str]:
    return [row[0] for row in store.all("SELECT name FROM classes WHERE removed_by IS NULL")]


def classes(store: Store) -> list[ClassInfo]:
    rows = store.all(
        "SELECT c.name, count(i.id), c.created FROM classes c "
        "LEFT JOIN images i ON i.class_id = c.id AND i.removed_by IS NULL "
        "WHERE c.removed_by IS NULL GROUP BY c.id ORDER BY c.id"
    )
    return [ClassInfo(*row) for row in rows]


def overview(store: Store, shown: int) -> list[tuple[ClassInfo, list[str]]]:
    ids: dict[str, list[str]] = {}
    with store.reading():
        known = classes(store)
        for name, image_id in store.all(
            "SELECT c.name, i.sha256 FROM classes c JOIN (SELECT id, class_id, sha256, row_number() "
            "OVER (PARTITION BY class_id ORDER BY id) AS place FROM images WHERE removed_by IS NULL) i "
            "ON i.class_id = c.id WHERE i.place <= ? AND c.removed_by IS NULL ORDER BY i.id",
            shown,
        ):
            ids.setdefault(name, []).append(image_id)
    return [(info, ids.get(info.name, [])) for info in known]


def images(store: Store, name: str) -> list[ImageInfo]:
    rows = store.all(
        "SELECT i.sha256, i.file, i.added FROM images i JOIN classes c ON c.id = i.class_id "
        "WHERE c.name = ? AND c.removed_by IS NULL AND i.removed_by IS NULL ORDER BY i.id",
        name,
    )
    if not rows:
        raise no_such_class(name, [info.name for info in classes(store)])
    return [ImageInfo(sha256, file, name, added) for sha256, file, added in rows]


def files(store: Store) -> dict[str, str]:
    """The file that each image came as, by its id."""
    return dict(store.all("SELECT sha256, file FROM images WHERE removed_by IS NULL"))


def image_bytes(store: Store, image_id: str, *, kept: bool) -> tuple[bytes, str] | None:
    """None where the project keeps no images."""
    rows = store.all("SELECT sha256, media FROM images WHERE sha256 = ? AND removed_by IS NULL", image_id)
    if not rows:
        raise InputError(f"There is no image {image_id[:64]!r} in the project.")
    return (stored_content(store.path, image_path(store.path, *rows[0]).name), rows[0][1]) if kept else None


def picture_names(store: Store) -> list[str]:
    """Also of images that undoing may bring back."""
    return [image_path(store.path, *row).name for row in store.all("SELECT sha256, media FROM images")]


def history(store: Store) -> list[Change]:
    rows = store.all("SELECT number, at, what, undone FROM changes ORDER BY number")
    return [Change(number, at, what, bool(undone)) for number, at, what, undone in rows]
