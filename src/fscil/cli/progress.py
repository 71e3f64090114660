"""What `fscil bench --dry-run` and `fscil bench status` print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from fscil.cli.options import print_json, say

if TYPE_CHECKING:
    from fscil.experiments.bench.foresee import Foreseen
    from fscil.experiments.engines.forecast import Forecast
    from fscil.experiments.engines.record import Record, Seat


def tell_foreseen(found: Foreseen, as_json: bool) -> None:
    from fscil.experiments.engines.forecast import spoken

    if as_json:
        tasks = [{"task": entry.label, "folder": entry.folder, "seconds": seconds} for entry, seconds in found.tasks]
        print_json({"done": found.done, "tasks": tasks, "forecast": found.together})
        return
    rows = [[entry.label, "?" if seconds is None else spoken(seconds)] for entry, seconds in found.tasks]
    if rows:
        _print_table("To do", ["task", "may take"], rows)
    say(f"{found.done} cells are done, {len(rows)} tasks are left. {_together(found.together, found.most)}")


def tell_record(record: Record, folder: Path, as_json: bool) -> None:
    from fscil.experiments.engines.forecast import Durations, forecast
    from fscil.experiments.engines.record import State

    left = [seat.entry for seat in record.seats if seat.state not in ("done", "failed")]
    together = forecast(left, Durations(record.seats, {}), record.most)
    if as_json:
        tasks = [_document(seat) for seat in record.seats]
        print_json({"command": record.command, "at_work": record.claimed, "tasks": tasks, "forecast": together})
        return
    kinds: dict[str, list[Seat]] = {}
    for seat in record.seats:
        kinds.setdefault(seat.entry.kind, []).append(seat)
    states: tuple[State, ...] = get_args(State)
    rows = [
        [kind, *(str(sum(s.state == state for s in found) or "") for state in states)] for kind, found in kinds.items()
    ]
    _print_table(f"fscil {record.command}, {folder}", ["tasks", *states], rows)
    for seat in record.seats:
        if seat.state == "failed":
            say(f"{seat.entry.label} failed: {seat.sentence}")
        elif seat.state in ("under way", "cut off"):
            say(f"{seat.entry.label}, {seat.state}: {seat.log}")
    counted = ", ".join(f"{count} {state}" for state in states if (count := record.count(state)))
    work = "A command is at work." if record.claimed else "No command is at work here."
    say(f"{counted}, of {len(record.seats)} tasks. {work} {_together(together, record.most) if left else ''}".rstrip())
    if not record.claimed and (left or record.count("failed")):
        say("The same command with --resume continues; with --retry-failed also what failed by a fault.")


def _document(seat: Seat) -> dict[str, Any]:
    found = {"task": seat.entry.label, "state": seat.state, "seconds": seat.seconds, "log": str(seat.log)}
    return {**found, "reason": seat.sentence} if seat.sentence else found


def _together(found: Forecast, most: int | None) -> str:
    from fscil.experiments.engines.forecast import spoken

    said = f"{spoken(found.work)} of work"
    if most == 1:
        said += ", one after the other"
    else:
        said += f", {spoken(found.until)} at the least with {f'{most} at a time' if most else 'all side by side'}"
    unknown = f", and {found.unknown} tasks of which nothing alike was measured" if found.unknown else ""
    return f"{said}{unknown}."


def _print_table(title: str, header: list[str], rows: list[list[str]]) -> None:
    from fscil.pages.kit import table as tables

    say(f"{title}\n\n{tables.text(tables.table(title, header, rows))}\n")
