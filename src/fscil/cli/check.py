"""What `fscil run --check` prints: that the recipe is right, or the sentence that refuses it, and an estimate."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fscil.cli.options import print_json, say

if TYPE_CHECKING:
    from fscil.core.config import Config


def tell_check(config: Config, folder: Path, allowed: bool, as_json: bool) -> None:
    from fscil.core.progress import Reporter
    from fscil.core.storage import check_claim
    from fscil.experiments.engines.forecast import spoken
    from fscil.experiments.estimate import estimate
    from fscil.experiments.preflight import data_notes, preflight

    check_claim(folder, allowed=allowed)
    benchmark = preflight(config, Reporter())
    loading = time.process_time()  # of this process, which has done what a run does first
    notes, found = data_notes(benchmark), estimate(config, benchmark, loading)
    if as_json:
        print_json({"recipe": config.recipe, "out": str(folder), "notes": notes.sentences(), "estimate": asdict(found)})
        return
    draws = f"{config.draws} draw{'s' if config.draws > 1 else ''}"
    say(f"The recipe {config.recipe} can run here: {', '.join(config.methods)}, {draws}, into {folder}.")
    for sentence in notes.sentences():
        say(f"Note: {sentence}")
    at_most = "at most " if found.on_gpu else ""  # compiled and recorded steps are faster than those that were timed
    say(f"Base training: {found.steps:,} updates, {at_most}about {spoken(found.training)}.")
    say(f"Features: about {spoken(found.features)}.")
    if len(found.unknown) < len(config.methods):
        say(f"Methods: about {spoken(found.methods)}, as they were measured by the project.")
    if found.unknown:
        say(f"Not in the estimate, as they were not measured on such data: {', '.join(found.unknown)}.")
    if found.maps:
        say(f"Maps of the features: about {spoken(found.maps)}.")
    memory = f"{found.memory_mb / 1000:.1f} GB of {'GPU ' if found.on_gpu else ''}memory"
    say(f"Together about {spoken(found.seconds)}, if nothing else runs here, and {memory}.")
    say("Nothing was written.")
