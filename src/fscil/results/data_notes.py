"""What a reader should know of the images that a run was made of: classes that no session has, pictures that are there
twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fscil.core.errors import InputError

SCHEMA = 1
_NAMED = 5  # classes that are listed by name


@dataclass(frozen=True)
class DataNotes:
    """Of one data set, cut into sessions."""

    left_over: tuple[str, ...] = ()  # classes that no session has
    in_both_halves: int = 0  # test images that are training images too
    in_two_classes: int = 0  # pictures that are in more classes than one
    class_in_both: str = ""  # of the first of them
    classes_of_one: tuple[str, ...] = ()  # of the first of them

    def document(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}

    def sentences(self) -> list[str]:
        """Nothing where there is nothing to say."""
        said = []
        if count := len(self.left_over):
            names = _some(self.left_over)
            said.append(
                f"{_counted(count, 'class is', 'classes are')} in no session, neither learned nor tested ({names}): "
                f"what data.base and whole sessions of data.way leave over."
            )
        if count := self.in_both_halves:
            said.append(
                f"{_counted(count, 'test image is a training image', 'test images are training images')} too, pixel by "
                f"pixel, the first in “{self.class_in_both}”: what a network has seen it may know by heart, so these "
                f"images make accuracy look better than it is."
            )
        if count := self.in_two_classes:
            said.append(
                f"{_counted(count, 'picture is', 'pictures are')} in two classes, the first in "
                f"{_some(self.classes_of_one)}: no method can be right about both."
            )
        return said


def parse_data_notes(document: Any, source: str = "the notes on the data") -> DataNotes:
    """From their JSON document."""
    try:
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r:.40}")
        return DataNotes(
            tuple(map(str, document["left_over"])),
            int(document["in_both_halves"]),
            int(document["in_two_classes"]),
            str(document["class_in_both"]),
            tuple(map(str, document["classes_of_one"])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{source} cannot be read ({error!s:.200}); make the run again with --resume.") from None


def as_data_notes(found: DataNotes | Mapping[str, Any] | None) -> DataNotes:
    """As read, its document, or nothing."""
    return found if isinstance(found, DataNotes) else parse_data_notes(found) if found else DataNotes()


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"“{name}”" for name in names[:_NAMED]) + more


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
