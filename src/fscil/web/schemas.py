"""What the API takes and gives, as the OpenAPI schema shows it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fscil.teach.limits import MAX_NAME

ClassName = Annotated[str, Field(min_length=1, max_length=MAX_NAME, description="Name of a class.")]
ImageId = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the image file, in hex.")]


class Answer(BaseModel):
    """Read from the learner's dataclasses by attribute."""

    model_config = ConfigDict(from_attributes=True)


class Question(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Failure(Answer):
    error: str = Field(description="One sentence: what is wrong and what to do.")


class Limits(Answer):
    images: int = Field(description="Images in one request.")
    megabytes: int = Field(description="Size of one request.")
    name: int = Field(description="Characters of a class name.")


class State(Answer):
    generation: int = Field(description="Grows with every change of the project, whoever made it.")
    project: str
    encoder: str
    keeps_images: bool
    demo: bool
    classes: int
    images: int
    threshold: float = Field(
        description="Similarity (-1 to 1) to the nearest class below which the answer is 'unknown'."
    )
    undo: str | None = Field(description="What undo would take back.")
    limits: Limits


class ClassSummary(Answer):
    name: str
    images: int
    created: str
    shown: list[str] = Field(description="Ids of its first images.")


class ImageEntry(Answer):
    id: str
    file: str
    added: str


class Skipped(Answer):
    file: str
    reason: str


class Rival(Answer):
    name: str
    similarity: float


class Lesson(Answer):
    name: str
    added: int
    skipped: list[Skipped]
    seconds: float
    rivals: list[Rival] = Field(description="Classes that the new one now competes with.")


class Guess(Answer):
    label: str
    confidence: float


class Verdict(Answer):
    file: str
    label: str = Field(description="A class name, or 'unknown' when nothing fits; empty where there is an error.")
    confidence: float
    top: list[Guess]
    error: str = Field(description="Why there is no answer for this image; empty where there is one.")


class Neighbour(Answer):
    image_id: str
    class_name: str
    similarity: float


class MapPoint(Answer):
    image_id: str
    class_name: str
    x: float
    y: float


class Change(Answer):
    number: int
    when: str
    what: str
    undone: bool


class Finding(Answer):
    kind: str
    severity: Literal["info", "warning", "problem"]
    message: str
    advice: str
    images: list[str]
    classes: list[str]


class CurvePoint(Answer):
    images: int = Field(description="Images per class.")
    accuracy: float
    low: float
    high: float


class Diagnosis(Answer):
    """Percentages from the project's own images, each left out in turn; null where there are too few."""

    findings: list[Finding]
    expected_accuracy: float | None
    expected_low: float | None
    expected_high: float | None
    called_unknown: float | None
    learning_curve: list[CurvePoint]


class Rename(Question):
    old: ClassName
    new: ClassName


class Forget(Question):
    name: ClassName


class RemoveImage(Question):
    id: ImageId


class Threshold(Question):
    value: float | None = Field(
        ge=-1,
        le=1,
        strict=True,
        description="Similarity below which the answer is 'unknown'; null: estimated from the images.",
    )


class Done(Answer):
    message: str
    generation: int
