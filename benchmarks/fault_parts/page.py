"""docs/reliability.md and results/reliability.json."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fault_parts.tally import OTHER, REFUSED, SURVIVED, WRONG, Tally

from fscil.core.storage import write_json, write_text

COLUMNS = (SURVIVED, REFUSED, OTHER, WRONG)


def document(tally: Tally, seconds: float, seed: int, *, quick: bool) -> dict[str, Any]:
    import fscil
    from fscil.evaluation.writer import commit

    lines = [line.to_json() for line in tally.lines]
    return {
        "schema": 1,
        "kind": "reliability",
        "version": fscil.__version__,
        "commit": commit(),
        "seed": seed,
        "quick": quick,
        "seconds": round(seconds),
        "machine": f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
        "tried": sum(line["tried"] for line in lines),
        **{key: sum(line[key] for line in lines) for key in COLUMNS},
        "lines": lines,
    }


def write_page(found: Mapping[str, Any], root: Path) -> None:
    write_json(root / "results" / "reliability.json", found)
    write_text(root / "docs" / "reliability.md", markdown(found))


def markdown(found: Mapping[str, Any]) -> str:
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for line in found["lines"]:
        parts.setdefault(line["part"], []).append(line)
    out = [
        "# Reliability",
        "",
        "<!-- Written by `python benchmarks/faults.py`, with results/reliability.json; not by hand. -->",
        "",
        f"What the tool does when it is killed, lied to, starved or attacked: **{found['tried']:,} tries, "
        f"{found[WRONG]} wrong.** Each is a real process of the real command; `python benchmarks/faults.py` does them "
        f"all again (this time in {found['seconds'] / 60:.0f} minutes on {found['machine']}, seed {found['seed']}, "
        f"commit {found['commit']}) and ends with an error if one is wrong.",
        "",
        "- **survived**: ended as if nothing had happened, or as the criterion says.",
        "- **refused**: one sentence that says what is wrong and what to do, exit code 2 (over HTTP: a 4xx answer or a "
        "closed connection); nothing changed.",
        "- **other content**: for formats that carry no checksum, such as a CSV or a recipe. A changed digit there is "
        "another valid file, and nobody can tell.",
        "- **wrong**: anything else. A traceback, a hang, a crash, a number that is silently different, half a change.",
        "",
        "| what | criterion | tried | survived | refused | other content | wrong |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for part, lines in parts.items():
        sums = {key: sum(line[key] for line in lines) for key in ("tried", *COLUMNS)}
        numbers = " | ".join(f"**{sums[key]:,}**" for key in ("tried", *COLUMNS))
        out.append(f"| **{part}** | | {numbers} |")
        for line in lines:
            numbers = " | ".join(f"{line[key]:,}" for key in ("tried", *COLUMNS))
            said = line["skipped"] or line["criterion"] + (f" ({line['note']})" if line["note"] else "")
            out.append(f"| {line['what']} | {said} | {numbers} |")
    out += ["", "## Wrong", ""]
    wrong = [(line, how) for line in found["lines"] for how in line["how_wrong"]]
    out += [f"- {line['part']}, {line['what']}: `{' '.join(how.split())[:400]}`" for line, how in wrong] or ["None."]
    out += [
        "",
        "## How",
        "",
        "- Kills: a process is forked that runs the command as its own process would, and gets SIGKILL, with all that "
        "it started, at a random moment of the time it needs. The same command is then given again, and killed again, "
        "up to 12 times, and at last left to finish. Its matrices (for a project: classes, images and answers, and "
        "`fscil teach check`) must be those of an undisturbed one. After each kill, nothing that has a final name may "
        "be half a file, and a project is as before the command or as after it.",
        "- Damaged files: flipped bits, overwritten and zeroed blocks, cuts, lost and added pieces, other files in its "
        "place, and for JSON values removed or turned into something odd (NaN, 10^400, deep lists, paths). Checkpoints "
        "without a checksum, as versions before this one wrote them, are not among them: a flipped bit in such a "
        "weight cannot be noticed.",
        "- Full disk, read-only: small disks in memory, mounted for the purpose. This and becoming another user need "
        "the rights of root; without them the lines say 'skipped'.",
        "- Not tried: power cuts (files are flushed before they are renamed, but disks may lie), and disks that return "
        "other bytes than were written while a command runs.",
        "",
    ]
    return "\n".join(out)
