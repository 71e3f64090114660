"""Result files: read, checked against their own matrix, and checked to be comparable with each other."""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fscil.core.answers import Answers, parse_answers
from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.core.naming import true_title
from fscil.core.pretraining import NONE, pretraining
from fscil.core.storage import read_json
from fscil.metrics import base_acc_per_session, novel_acc_per_session, summary

SCHEMA = 2  # of the files that are written
READABLE = (1, 2)  # schema 1 names neither the network nor what a method keeps
ROUNDING = 0.0051  # percent: a file may hold its numbers rounded to two decimals
COSTS = ("seconds_base", "seconds_sessions", "peak_memory_mb")
# What one run comes to, in the order of tables; fscil.metrics.names says what each of them is.
SCALARS = (
    *("base_first", "base_last", "novel_last", "lacc", "gacc_grid", "gacc_exact", "aacc", "base", "novel", "hacc"),
    *("tacc", "pd", "rpd", "kr", "forgetting"),
    *COSTS,
)


@dataclass(frozen=True)
class Result:
    """One run: a method on one draw of the shots."""

    method: str
    title: str  # as printed
    dataset: str
    seed: int
    shots_seed: int
    matrix: AccuracyMatrix
    metrics: Mapping[str, Any]  # the keys of fscil.metrics.Summary
    recipe: str = ""
    pretraining: str = NONE  # what the network had learned before base training
    config: Mapping[str, Any] = field(default_factory=dict)
    commit: str | None = None
    hardware: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)  # base, sessions
    peak_memory_mb: float | None = None
    cost: Mapping[str, float] = field(default_factory=dict)  # network_parameters, kept_numbers, peak_memory_mb
    network: Mapping[str, Any] = field(default_factory=dict)  # sha256 of its weights, and of the data it learned from
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # parts of the method alone, by label
    answers: Answers | None = None  # after the last session; older files have none
    source: str = "the result"  # the file, for messages; never printed on the page

    @property
    def draw(self) -> tuple[int, int]:
        """What two methods must share for their difference to be paired."""
        return self.seed, self.shots_seed

    @property
    def shot(self) -> int | None:
        """Training images per new class, where the config says it."""
        data = self.config.get("data")
        shot = data.get("shot") if isinstance(data, Mapping) else None
        return shot if isinstance(shot, int) and not isinstance(shot, bool) and shot > 0 else None

    @property
    def rectified(self) -> bool:
        """Whether YourSelf's FR modules stood before the method (`rectify`), which is another one then."""
        options = self.config.get("options")
        own = options.get(self.method) if isinstance(options, Mapping) else None
        return isinstance(own, Mapping) and own.get("rectify", False) is not False

    def quantity(self, key: str) -> float | None:
        """One of SCALARS."""
        if key in ("base_first", "base_last"):
            return base_acc_per_session(self.matrix)[0 if key == "base_first" else -1]
        if key == "novel_last":
            return novel_acc_per_session(self.matrix)[-1]
        if key == "peak_memory_mb":
            return self.peak_memory_mb
        if key in COSTS:
            return self.seconds.get(key.removeprefix("seconds_"))
        value: float | None = self.metrics[key]
        return value


def is_result(document: Any) -> bool:
    return isinstance(document, Mapping) and {"method", "matrix", "classes"} <= document.keys()


def json_files(folder: Path) -> list[Path]:
    """All below the folder; not those that a killed process had not finished, whose names begin with a dot."""
    return [path for path in sorted(folder.rglob("*.json")) if not path.name.startswith(".")]


def find_results(paths: Iterable[str | Path]) -> list[Path]:
    """Files as they are; for a folder, every result.json below it, and every other .json that is a result."""
    found: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise InputError(f"{path} does not exist; give a result.json or a folder that holds some.")
        inside = [file for file in json_files(path) if _holds_result(file)] if path.is_dir() else [path]
        if not inside:
            raise InputError(
                f"There is no result.json in {path} or below; run an evaluation first or name another folder."
            )
        found += inside
    return list(dict.fromkeys(found))  # a folder and a file in it name the same result


def _holds_result(path: Path) -> bool:
    """A damaged file that is called result.json is one: it must be complained of, not passed over."""
    if path.name == "result.json":
        return True
    try:
        return is_result(read_json(path))
    except InputError:
        return False


def read_results(paths: Iterable[str | Path]) -> list[Result]:
    """Every result in these files and folders, whether or not they belong together."""
    return [parse_result(read_json(path), str(path)) for path in find_results(paths)]


def load_results(paths: Iterable[str | Path]) -> list[Result]:
    """Result files that belong into one comparison; any that does not is refused with a sentence."""
    results = [parse_result(read_json(Path(path)), str(path)) for path in paths]
    if not results:
        raise InputError("No result was given; name at least one result.json.")
    check_comparable(results)
    return results


def parse_result(document: Any, source: str = "the result") -> Result:
    """One result from its JSON document."""
    if not isinstance(document, Mapping) or "matrix" not in document:
        raise InputError(f"{source} is not a result: it has no accuracy matrix; give a result.json.")
    if document.get("schema") not in READABLE:
        raise InputError(
            f"{source} has schema {document.get('schema')!r:.40}, this version reads schema 1 and 2; "
            f"run the evaluation again or use the version that wrote it."
        )
    get = _Reader(document, source)
    matrix, method, config = _matrix(get), get("method", str), get("config", Mapping, {})
    options = config.get("options")
    result = Result(
        method=method,
        title=true_title(
            method, get("title", str, "") or method, options.get(method) if isinstance(options, Mapping) else None
        ),
        dataset=get("dataset", str),
        seed=get("seed", int),
        shots_seed=get("shots_seed", int),
        matrix=matrix,
        metrics=get("metrics", Mapping),
        recipe=get("recipe", str, ""),
        pretraining=pretraining({"pretraining": get("pretraining", str, ""), "config": config}),
        config=config,
        commit=get("commit", str, None),
        hardware=get("hardware", Mapping, {}),
        seconds=_seconds(get),
        peak_memory_mb=_positive(get("peak_memory_mb", (int, float), None), "peak_memory_mb", source),
        cost={key: _positive(value, key, source) or 0.0 for key, value in get("cost", Mapping, {}).items()},
        network=get("network", Mapping, {}),
        variants=get("variants", Mapping, {}),
        answers=parse_answers(document.get("answers"), sum(matrix.classes), source),
        source=source,
    )
    _check_metrics(result)
    return result


def check_comparable(results: Sequence[Result]) -> None:
    """One data set, one class plan, the same test images, and no run counted twice."""
    first = results[0]
    runs: dict[tuple[str, int, int], Result] = {}
    for result in results:
        if result.dataset != first.dataset:
            raise InputError(
                f"{first.source} was measured on {first.dataset} and {result.source} on {result.dataset}; "
                f"compare results of one data set at a time."
            )
        if result.matrix.classes != first.matrix.classes:
            raise InputError(
                f"{first.source} has classes {list(first.matrix.classes)} per session and {result.source} "
                f"{list(result.matrix.classes)}; compare results of one class plan at a time."
            )
        if result.matrix.test_counts != first.matrix.test_counts:
            raise InputError(
                f"{first.source} and {result.source} were tested on different numbers of images; "
                f"compare results of one test set at a time."
            )
        twin = runs.setdefault((result.method, *result.draw), result)
        if twin is not result:
            raise InputError(
                f"{twin.source} and {result.source} are both {result.method} with seed {result.seed} and shots seed "
                f"{result.shots_seed}; give each draw once."
            )


class _Reader:
    """Typed access to a document, with a sentence when a field is missing or of the wrong kind."""

    def __init__(self, document: Mapping[str, Any], source: str) -> None:
        self.document, self.source = document, source

    def __call__(self, key: str, kind: Any, *default: Any) -> Any:
        value = self.document.get(key)
        if value is None and default:
            return default[0]
        if value is None:
            raise InputError(f"{self.source} has no '{key}'; give a result.json that is complete.")
        # A bool is an int to Python; a seed of true is a mistake to us.
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"{self.source} has a '{key}' of the wrong kind ({value!r:.40}); give a complete result.")
        return value


def _matrix(get: _Reader) -> AccuracyMatrix:
    rows, classes, counts = get("matrix", list), get("classes", list), get("test_counts", list, [])
    if not all(isinstance(row, list) for row in rows):
        raise InputError(f"{get.source} has a matrix that is not a list of rows; give a result.json that is complete.")
    try:
        if not all(cell is None or _is_number(cell) for row in rows for cell in row):
            raise TypeError
        if not all(isinstance(count, int) and count > 0 for count in (*classes, *counts)):
            raise TypeError
        return AccuracyMatrix.from_lists(rows, classes, counts)
    except InputError as error:
        raise InputError(f"{get.source}: {error}") from None
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{get.source} has something other than numbers in its matrix or class counts.") from None


def _seconds(get: _Reader) -> dict[str, float]:
    seconds = get("seconds", Mapping, {})
    known = {key: _positive(seconds.get(key), key, get.source) for key in ("base", "sessions")}
    return {key: value for key, value in known.items() if value is not None}


def _positive(value: Any, key: str, source: str) -> float | None:
    if value is None:
        return None
    if not _is_number(value) or not 0 <= value < math.inf:
        raise InputError(f"{source} has {value!r:.40} for '{key}'; a cost is a number that is not negative.")
    return float(value)


def _is_number(value: Any) -> bool:
    """A bool is an int to Python, and an int may be too long for a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _check_metrics(result: Result) -> None:
    for key, expected in summary(result.matrix).items():
        if key not in result.metrics:
            raise InputError(f"{result.source} has no metric '{key}'; compute its metrics again from its matrix.")
        if not _same(result.metrics[key], expected):
            raise InputError(
                f"{result.source} says {key} = {_shown(result.metrics[key])}, its matrix says {_shown(expected)}; "
                f"compute its metrics again from its matrix."
            )


def _same(stored: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return isinstance(stored, list) and len(stored) == len(expected) and all(map(_same, stored, expected))
    if expected is None or stored is None:
        return stored is expected
    return _is_number(stored) and abs(stored - expected) <= ROUNDING


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_shown(item) for item in value)}]"
    return f"{value:.2f}" if _is_number(value) else f"{value!r:.40}"
