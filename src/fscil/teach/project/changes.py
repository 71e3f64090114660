"""The changes a project can go through. Each is one transaction and can be taken back by `undo`."""

import json
from typing import Any

import numpy as np

from fscil.core.errors import InputError
from fscil.teach.project.pictures import Picture
from fscil.teach.project.records import Skipped
from fscil.teach.project.store import UNDO_DEPTH, Store
from fscil.teach.project.transaction import Transaction

KEPT = "kept"  # meta row: a JSON list of findings
THRESHOLD = "threshold"  # meta row of older versions: the cosine with a class mean
SETTINGS = {"threshold": THRESHOLD, "keep": KEPT}  # kind of change: the meta row that it sets
UNKNOWN_WHERE = (THRESHOLD, "level", "false_alarms")  # meta rows that say what is unknown; at most one is there


def add_images(
    store: Store, name: str, pictures: list[Picture], features: np.ndarray, *, keep: bool
) -> tuple[int, list[Skipped]]:
    """How many pictures joined the class, and those that did not."""
    skipped: list[Skipped] = []
    with store.change("learn") as change:
        new = _new_rows(change, name, pictures, skipped)
        if not new:
            change.cancel()
            return 0, skipped
        found = change.one("SELECT id FROM classes WHERE name = ? AND removed_by IS NULL", name)
        class_id = change.add_class(name) if found is None else int(found)
        if keep:
            change.keep_images([pictures[row] for row in new])
        for row in new:
            change.add_image(class_id, pictures[row], features[row].astype("<f4").tobytes())
        change.touch(class_id)
        count = f"{len(new)} image{'s' if len(new) > 1 else ''}"
        what = f"learned '{name}' from {count}" if found is None else f"added {count} to '{name}'"
        change.describe(what, class_id=class_id, new=found is None)
    return len(new), skipped


def _new_rows(change: Transaction, name: str, pictures: list[Picture], skipped: list[Skipped]) -> list[int]:
    """Rows of pictures that the project does not have; the others are added to `skipped` with the reason."""
    seen: set[str] = set()
    new = []
    for row, picture in enumerate(pictures):
        holder = change.one(
            "SELECT c.name FROM images i JOIN classes c ON c.id = i.class_id "
            "WHERE i.sha256 = ? AND i.removed_by IS NULL",
            picture.id,
        )
        if picture.id in seen:
            skipped.append(Skipped(picture.file, "the same picture was given twice"))
        elif holder == name:
            skipped.append(Skipped(picture.file, f"'{name}' has this picture already"))
        elif holder is not None:
            skipped.append(Skipped(picture.file, f"this picture is one of '{holder}'; remove it there first"))
        else:
            seen.add(picture.id)
            new.append(row)
    return new


def forget(store: Store, name: str) -> None:
    with store.change("forget") as change:
        class_id = change.class_id(name)
        _remove(change, "class_id = ?", class_id)
        change.run("UPDATE classes SET removed_by = ? WHERE id = ?", change.number, class_id)
        change.touch(class_id)
        change.describe(f"forgot '{name}'", class_id=class_id)


def remove_image(store: Store, image_id: str) -> None:
    with store.change("remove") as change:
        row = change.run(
            "SELECT i.class_id, c.name, i.file FROM images i JOIN classes c ON c.id = i.class_id "
            "WHERE i.sha256 = ? AND i.removed_by IS NULL",
            image_id,
        ).fetchone()
        if row is None:
            raise InputError(f"There is no image '{image_id[:64]}' in the project; list its images for their ids.")
        class_id, name, file = row
        _remove(change, "sha256 = ?", image_id)
        left = change.one("SELECT count(*) FROM images WHERE class_id = ? AND removed_by IS NULL", class_id)
        if not left:  # there is no class without images
            change.run("UPDATE classes SET removed_by = ? WHERE id = ?", change.number, class_id)
        change.touch(class_id)
        change.describe(f"removed {file} from '{name}'", class_id=class_id)


def move_image(store: Store, image_id: str, name: str) -> None:
    """To another class, which is new or known; the class it leaves goes with its last image."""
    with store.change("move") as change:
        row = change.run(
            "SELECT i.id, i.class_id, c.name, i.file FROM images i JOIN classes c ON c.id = i.class_id "
            "WHERE i.sha256 = ? AND i.removed_by IS NULL",
            image_id,
        ).fetchone()
        if row is None:
            raise InputError(f"There is no image '{image_id[:64]}' in the project; list its images for their ids.")
        image, before, old_name, file = row
        if old_name == name:
            change.cancel()
            return
        found = change.one("SELECT id FROM classes WHERE name = ? AND removed_by IS NULL", name)
        after = change.add_class(name) if found is None else int(found)
        change.run("UPDATE images SET class_id = ? WHERE id = ?", after, image)
        if not change.one("SELECT count(*) FROM images WHERE class_id = ? AND removed_by IS NULL", before):
            change.run("UPDATE classes SET removed_by = ? WHERE id = ?", change.number, before)
        for class_id in (before, after):
            change.touch(class_id)
        what = f"moved {file} from '{old_name}' to '{name}'"
        change.describe(what, class_id=before, image=image, to=after, new=found is None)


def keep(store: Store, finding: str, what: str) -> None:
    """A finding of the check-up that the user has looked at, and that is not to be shown again."""
    with store.change("keep") as change:
        old = change.one("SELECT value FROM meta WHERE key = ?", KEPT)
        known = json.loads(old) if old else []
        if finding in known:
            change.cancel()
            return
        change.set_meta(KEPT, json.dumps([*known, finding]))
        change.describe(what, old=old)


def _remove(change: Transaction, which: str, value: int | str) -> None:
    change.run(f"UPDATE images SET removed_by = ? WHERE {which} AND removed_by IS NULL", change.number, value)


def rename(store: Store, old: str, new: str) -> None:
    with store.change("rename") as change:
        class_id = change.class_id(old)
        if old == new:
            change.cancel()
            return
        if change.one("SELECT id FROM classes WHERE name = ? AND removed_by IS NULL", new) is not None:
            raise InputError(f"There is a class '{new}' already; choose another name, or remove that one first.")
        change.run("UPDATE classes SET name = ? WHERE id = ?", new, class_id)
        change.touch(class_id)
        change.describe(f"renamed '{old}' to '{new}'", class_id=class_id, old=old)


def set_threshold(store: Store, level: float | None, false_alarms: float | None) -> None:
    """Of likeness, or by the share of known pictures that it may cost; neither: as usual."""
    if level is not None and false_alarms is not None:
        raise InputError("Give a threshold or a rate of false alarms, not both.")
    if level is not None and not -1 <= (level := float(level)) <= 1:
        raise InputError(f"The threshold is a likeness from -1 to 1; got {level}.")
    if false_alarms is not None and not 0 <= (false_alarms := float(false_alarms)) < 1:
        raise InputError(f"False alarms are a share of the pictures, from 0 to below 1; got {false_alarms}.")
    with store.change("unknown") as change:
        old = [change.one("SELECT value FROM meta WHERE key = ?", key) for key in UNKNOWN_WHERE]
        for key, value in zip(UNKNOWN_WHERE, (None, level, false_alarms), strict=True):
            change.set_meta(key, None if value is None else repr(value))
        what = "threshold estimated from the images"
        if level is not None:
            what = f"threshold set to {level:.3f}"
        elif false_alarms is not None:
            what = f"false alarms set to {100 * false_alarms:g} %"
        change.describe(what, old=old)


def undo(store: Store) -> str:
    """Take back the last change that stands; returns what it was."""
    with store.transaction() as transaction:
        row = transaction.run(
            "SELECT number, kind, what, detail FROM changes WHERE NOT undone ORDER BY number DESC LIMIT 1"
        ).fetchone()
        if row is None:
            raise InputError("There is nothing to undo.")
        number, kind, what, detail = row
        if number <= transaction.one("SELECT max(number) FROM changes") - UNDO_DEPTH:
            raise InputError(f"There is nothing to undo: only the last {UNDO_DEPTH} changes can be taken back.")
        try:
            _take_back(transaction, number, kind, json.loads(detail))
        except (KeyError, ValueError, TypeError):  # a stranger's
            raise InputError(f"'{what}' cannot be undone: the project does not say how.") from None
        transaction.run("UPDATE changes SET undone = 1 WHERE number = ?", number)
        return str(what)


def _take_back(transaction: Transaction, number: int, kind: str, detail: dict[str, Any]) -> None:
    if kind in ("import", "repair"):
        came = "came with the imported model" if kind == "import" else "was there before the repair"
        raise InputError(f"There is nothing to undo: the rest {came}.")
    if kind in SETTINGS:
        transaction.set_meta(SETTINGS[kind], detail["old"])
        return
    if kind == "unknown":
        for key, value in zip(UNKNOWN_WHERE, detail["old"], strict=True):
            transaction.set_meta(key, value)
        return
    class_id = detail["class_id"]
    transaction.touch(class_id)
    if kind == "learn":
        transaction.run("DELETE FROM images WHERE added_by = ?", number)
        if detail["new"]:
            transaction.run("DELETE FROM classes WHERE id = ?", class_id)
    elif kind == "move":
        transaction.touch(detail["to"])
        transaction.run("UPDATE images SET class_id = ? WHERE id = ?", class_id, detail["image"])
        transaction.run("UPDATE classes SET removed_by = NULL WHERE removed_by = ?", number)
        if detail["new"]:
            transaction.run("DELETE FROM classes WHERE id = ?", detail["to"])
    elif kind == "rename":
        transaction.run("UPDATE classes SET name = ? WHERE id = ?", detail["old"], class_id)
    else:  # forget, remove
        transaction.run("UPDATE images SET removed_by = NULL WHERE removed_by = ?", number)
        transaction.run("UPDATE classes SET removed_by = NULL WHERE removed_by = ?", number)
