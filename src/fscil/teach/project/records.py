"""What a project answers: plain values, ready for JSON through `dataclasses.asdict`, and the schemas of the web API.

A field's metadata may hold a `description`, which the API's schema shows.
"""

from dataclasses import dataclass, field
from typing import Literal


def _described(text: str) -> dict[str, str]:
    return {"description": text}


@dataclass(frozen=True)
class ClassInfo:
    """A class of the project."""

    name: str
    images: int
    created: str  # ISO 8601, UTC


@dataclass(frozen=True)
class ImageInfo:
    """An image of the project."""

    id: str  # sha256 of the content
    file: str  # the name it was given by
    class_name: str
    added: str


@dataclass(frozen=True)
class Skipped:
    """An image that was not used."""

    file: str
    reason: str


@dataclass(frozen=True)
class Rival:
    """A class that looks like the one just learned."""

    name: str
    similarity: float  # of the two classes' prototypes, -1..1


@dataclass(frozen=True)
class Learned:
    """What `learn` did."""

    name: str
    added: int
    skipped: list[Skipped]
    seconds: float
    rivals: list[Rival] = field(metadata=_described("Classes that the new one now competes with, most similar first."))


@dataclass(frozen=True)
class Guess:
    """One class that an image may show."""

    label: str
    confidence: float


@dataclass(frozen=True)
class Prediction:
    """The answer for one image."""

    file: str
    label: str = field(metadata=_described("A class, or 'unknown' when nothing fits; empty where there is an error."))
    confidence: float
    top: list[Guess]  # most probable first; "unknown" stands among them with its own probability
    error: str = field(metadata=_described("Why there is no answer for this image; empty where there is one."))


@dataclass(frozen=True)
class Neighbour:
    """An image of the project that is like the one asked about."""

    image_id: str
    class_name: str
    similarity: float


@dataclass(frozen=True)
class Change:
    """One entry of the history."""

    number: int
    when: str
    what: str
    undone: bool


@dataclass(frozen=True)
class MapPoint:
    """Where an image lies on the map of the project."""

    image_id: str
    class_name: str
    x: float
    y: float


Severity = Literal["info", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One thing that the doctor found."""

    kind: str
    severity: Severity
    message: str
    advice: str
    images: list[str]
    classes: list[str]


@dataclass(frozen=True)
class CurvePoint:
    """Accuracy to expect with that many images per class."""

    images: int = field(metadata=_described("Images per class."))
    accuracy: float  # percent
    low: float
    high: float


@dataclass(frozen=True)
class ClassAccuracy:
    """How well one class is recognised."""

    name: str
    right: int
    tested: int


@dataclass(frozen=True)
class FolderResult:
    """Accuracy on a test folder. Base: the classes learned first (see `Learner.doctor`)."""

    accuracy: float  # percent, pictures called unknown count as wrong
    called_unknown: float  # percent of the pictures of known classes
    rejected: float | None  # percent of the pictures of classes never taught that are called unknown
    classes: list[ClassAccuracy]
    base_classes: int
    base: float | None
    novel: float | None
    gacc_grid: float | None
    gacc_exact: float | None
    skipped: list[Skipped]


@dataclass(frozen=True)
class Diagnosis:
    """All that the doctor has to say."""

    findings: list[Finding]
    classes: int
    images: int
    expected_accuracy: float | None  # percent, leave-one-out; None: too few images to tell
    expected_low: float | None  # 95 % interval
    expected_high: float | None
    called_unknown: float | None  # percent of the left-out images that fall below the threshold
    learning_curve: list[CurvePoint]
    threshold: float
    test: FolderResult | None = None


@dataclass(frozen=True)
class ExportReport:
    """What `export` wrote, and how it was checked."""

    path: str
    bytes: int
    classes: int
    checked: int  # pictures on which model and project were compared
    largest_difference: float  # of any confidence, pictures scaled beforehand
    difference_any_size: float  # the same, pictures given as they are and scaled inside the model


@dataclass(frozen=True)
class Backup:
    """What `backup` wrote."""

    path: str
    bytes: int
    classes: int
    images: int


@dataclass(frozen=True)
class ProjectCheck:
    """What is whole and what is not, of a project on disk."""

    right: list[str]  # sentences
    wrong: list[str]
