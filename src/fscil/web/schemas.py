"""What the API takes and gives beside the records of `fscil.teach`, as the OpenAPI schema shows it."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from fscil.teach.project.limits import MAX_NAME
from fscil.teach.project.records import CurvePoint, Finding, Neighbour, Skipped

ClassName = Annotated[str, Field(min_length=1, max_length=MAX_NAME, description="Name of a class.")]
ImageId = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the image file, in hex.")]


class ErrorSentence(BaseModel):
    error: str = Field(description="One sentence: what is wrong and what to do.")


FAILURES: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorSentence} for code in (400, 401, 403, 404, 413, 421, 422, 503)
}


class Limits(BaseModel):
    images: int = Field(description="Images in one request.")
    megabytes: int = Field(description="Size of one request.")
    name: int = Field(description="Characters of a class name.")


class State(BaseModel):
    generation: int = Field(description="Grows with every change of the project, whoever made it.")
    project: str
    encoder: str
    note: str = Field(description="What to know about the encoder.")
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
    projects: list[str] = Field(description="All that this server shows; the first is the one it was started with.")
    encoders: list[str] = Field(description="What a new project may see with; none where none can be made.")
    shared: bool = Field(description="Other machines can reach this server.")
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


class NewProject(Question):
    name: str = Field(min_length=1, max_length=MAX_NAME, description="Of its folder, which must not exist yet.")
    encoder: str = Field(min_length=1, max_length=MAX_NAME, description="One of `state`'s encoders.")


class ProjectMade(BaseModel):
    name: str
    folder: str = Field(description="Where it lies on the machine that serves the page.")


class Invitation(BaseModel):
    address: str = Field(description="Opens the page without the token while the invitation holds.")
    minutes: int
    code: list[str] = Field(description="The address as a QR code: rows of 0 (light) and 1 (dark).")


class Stage(BaseModel):
    stage: str


class Done(BaseModel):
    message: str
    generation: int
