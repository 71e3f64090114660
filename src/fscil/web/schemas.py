"""What the API takes and gives beside the records of `fscil.teach`, as the OpenAPI schema shows it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from fscil.teach.project.limits import MAX_NAME
from fscil.teach.project.records import CurvePoint, Finding, Neighbour, Skipped

ClassName = Annotated[str, Field(min_length=1, max_length=MAX_NAME, description="Name of a class.")]
ImageId = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the image file, in hex.")]


class ErrorSentence(BaseModel):
    error: str = Field(description="One sentence: what is wrong and what to do.")


class Limits(BaseModel):
    images: int = Field(description="Images in one request.")
    megabytes: int = Field(description="Size of one request.")
    name: int = Field(description="Characters of a class name.")


class State(BaseModel):
    generation: int = Field(description="Grows with every change of the project, whoever made it.")
    project: str
    encoder: str
    keeps_images: bool
    demo: bool
    classes: int
    images: int
    threshold: float = Field(
        description="Likeness (about 0 to 1) to the nearest class below which the answer is 'unknown'."
    )
    false_alarms: float | None = Field(
        description="Share of pictures of known classes that may be called unknown; null: the threshold is set."
    )
    undo: str | None = Field(description="What undo would take back.")
    limits: Limits


class ClassSummary(BaseModel):
    name: str
    images: int
    created: str
    shown: list[str] = Field(description="Ids of its first images.")


class ImageEntry(BaseModel):
    """An image among those of its class."""

    id: str
    file: str
    added: str


class Checkup(BaseModel):
    """Percentages from the project's own images, each left out in turn; null where there are too few."""

    findings: list[Finding]
    expected_accuracy: float | None
    expected_low: float | None
    expected_high: float | None
    called_unknown: float | None
    learning_curve: list[CurvePoint]


class Explanation(BaseModel):
    """Why an image is taken for what it is taken for."""

    label: str = Field(description="A class, or 'unknown'.")
    examples: list[Neighbour] = Field(description="Images of that class, most alike first; none of 'unknown'.")
    others: list[Neighbour] = Field(description="The most alike images of other classes.")


class NothingLearned(ErrorSentence):
    skipped: list[Skipped] = Field(description="Every picture, and why it was not used.")


class Question(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Rename(Question):
    old: ClassName
    new: ClassName


class Forget(Question):
    name: ClassName


class RemoveImage(Question):
    id: ImageId


class MoveImage(Question):
    id: ImageId
    to: ClassName


class Keep(Question):
    kind: str = Field(pattern=r"^[a-z_]{1,40}$", description="Kind of the finding.")
    images: list[ImageId] = Field(min_length=1, max_length=1000, description="The images it is about.")


class Threshold(Question):
    value: float | None = Field(
        ge=-1,
        le=1,
        strict=True,
        description="Likeness below which the answer is 'unknown'; null: estimated from the images.",
    )
    false_alarms: float | None = Field(
        default=None,
        ge=0,
        lt=1,
        strict=True,
        description="Share of pictures of known classes that may be called unknown; null: the usual one.",
    )


class Done(BaseModel):
    message: str
    generation: int
