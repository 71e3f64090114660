"""What the tool does when it is killed, lied to, starved or attacked: docs/reliability.md.

    python benchmarks/faults.py            everything; --quick: a little of everything
    python benchmarks/faults.py --parts kills,damage --seed 3

Kills of real processes, damaged copies of every kind of file, hostile pictures and requests, two writers, a page that
is killed under load, full and read-only disks, another user. Each try ends as before, in a refusal that a person can
read, or wrong; with one that is wrong the program ends with code 1. The page and results/reliability.json are written
when every part was run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: the processes that are forked inherit no threads
os.environ.setdefault("TQDM_DISABLE", "1")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

from fault_parts.tally import Tally  # noqa: E402

PARTS = ("kills", "damage", "pictures", "requests", "writers", "restart", "full-disk", "read-only", "other-user")
FULL = {
    **{"run": 30, "bench": 30, "tune": 30, "ablate": 20, "teach add": 50, "teach undo": 30},
    **{"import (init --from)": 40, "export": 30, "export, traced from torch": 8, "backup": 20, "restore": 20},
}
QUICK = {"run": 2, "tune": 1, "teach add": 3, "teach undo": 2, "restore": 2}  # without those that need a tracing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a little of everything")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where to write the counts, also of some parts")
    options = parser.parse_args()
    parts = [part.strip() for part in options.parts.split(",") if part.strip()]
    if unknown := set(parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}; choose from {', '.join(PARTS)}")
    from fault_parts.page import document, write_page

    tally = Tally(lambda text: print(f"{time.monotonic() - started:6.0f} s  {text}", flush=True))
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="fscil-faults-"))
    try:
        try_all(tally, folder, parts, quick=options.quick, seed=options.seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = document(tally, time.monotonic() - started, options.seed, quick=options.quick)
    if options.json:
        from fscil.core.storage import write_json

        write_json(options.json, found)
    if len(parts) == len(PARTS) and not options.quick:
        write_page(found, ROOT)
    print(f"{found['tried']} tried, {found['wrong']} wrong, {found['seconds']:.0f} s")
    return 1 if tally.wrong else 0


def try_all(tally: Tally, folder: Path, parts: list[str], *, quick: bool, seed: int) -> None:
    import_everything()
    from fault_parts import disk, files, pictures, server
    from fault_parts.kills import kills, make_sources

    counts = QUICK if quick else FULL
    traced = {"writers", "full-disk", "read-only", "other-user"} & {*parts} or ("kills" in parts and "export" in counts)
    source = make_sources(folder / "kills", model=bool(traced))

    def place(name: str) -> Path:
        made = folder / name
        made.mkdir(parents=True, exist_ok=True)
        return made

    def project(name: str) -> Path:
        return Path(shutil.copytree(source / "project", place(name) / "project"))

    if "kills" in parts:
        kills(tally, place("kills"), counts, seed)
    if "damage" in parts:
        files.damage(tally, place("files"), 12 if quick else 60, seed, models=not quick)
        left = files.left_by_a_kill(source, place("damage"))
        files.project_files(tally, place("damage"), left, source / "backup.zip", 4 if quick else 40, seed)
    if "pictures" in parts:
        pictures.hostile_pictures(tally, place("pictures"), project("pictures"), 12 if quick else None)
    if "requests" in parts:
        server.hostile_requests(tally, place("requests"), project("requests"))
    if "writers" in parts:
        disk.two_writers(tally, place("writers"), source, 1 if quick else 8)
    if "restart" in parts:
        server.restarts(tally, place("restart"), project("restart"), 1 if quick else 10, seed)
    if "full-disk" in parts:
        disk.full_disk(tally, place("full"), source, quick)
    if "read-only" in parts:
        disk.read_only(tally, place("read-only"), source)
    if "other-user" in parts:
        disk.other_user(tally, place("other"), source)


def import_everything() -> None:
    """Once, so that no forked process waits for it; computes nothing."""
    import torch

    torch.set_num_threads(1)
    import importlib

    for name in (
        *(
            "lightning",
            "onnxruntime",
            "onnxscript",
            "scipy.optimize",
            "sklearn.datasets",
            "sklearn.manifold",
            "uvicorn",
        ),
        *("fscil.cli.main", "fscil.experiments.run", "fscil.experiments.tune", "fscil.experiments.bench.collect"),
        *("fscil.experiments.ablate.collect", "fscil.pages.report.page", "fscil.pages.bench.page"),
        *("fscil.pages.ablation.page", "fscil.teach.upkeep", "fscil.teach.onnx.export", "fscil.teach.onnx.graph"),
        *("fscil.teach.encoders.torch_encoder", "fscil.teach.onnx.reimport", "fscil.web.app", "fscil.web.serve"),
    ):
        importlib.import_module(name)
    "".encode("cp437")  # of zip files; another user may not be allowed to read where Python is


if __name__ == "__main__":
    sys.exit(main())
