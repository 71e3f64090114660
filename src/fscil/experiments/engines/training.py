"""The task that every grid begins with: the network that its cells are measured on."""

from functools import partial

from fscil import __version__
from fscil.core.config import to_dict
from fscil.core.storage import write_json
from fscil.evaluation.identity import digest
from fscil.experiments.engines.task import Opener, Task
from fscil.experiments.runner import NetworkPlace


def training_task(network: NetworkPlace, announcement: str = "") -> Task:
    key = f"{network.key}/base"
    return Task(
        key,
        f"Training of {network.key}",
        network.folder / "base",
        partial(_train, network),
        announcement=announcement,
        leaves=network.trained,
        kind=key,
        made_from=digest([__version__, to_dict(network.config)]),
    )


def _train(network: NetworkPlace, opened: Opener) -> None:
    on = opened(network)
    write_json(on.folder / "config.json", to_dict(on.config))
    _ = on.network
