"""What there is to say of a network: from its own config and from results, and nothing else."""

from collections.abc import Sequence
from typing import Any

from fscil.metrics.names import METRICS
from fscil.pages.kit.prose import amount, listed, machine, plural, plus_minus
from fscil.results.grouping import group_draws
from fscil.results.result import Result
from fscil.results.significance import spread
from fscil.training.checkpoint import Checkpoint

_SHOWN = ("base_first", "base_last", "novel_last", "lacc", "gacc_grid", "aacc")
_USE = """## Use
```python
import fscil

network = fscil.SharedNetwork.from_pretrained("PATH OR USER/NAME")
logits = network.classifier(images)  # uint8, (images, height, width, 3)
```
`fscil eval {recipe} --checkpoint FOLDER` measures methods on it again."""


def card_text(checkpoint: Checkpoint, results: Sequence[Result]) -> str:
    info = checkpoint.info
    config = info["config"]
    title = f"# {config['recipe']}: a network for few-shot class-incremental learning"
    parts = [title, _made(checkpoint), "## Measured", *_measured(results), _USE.format(recipe=config["recipe"])]
    return "\n\n".join(parts) + "\n"


def _made(checkpoint: Checkpoint) -> str:
    info, config = checkpoint.info, checkpoint.info["config"]
    backbone, data = config["backbone"], config["data"]
    parameters = amount(sum(each.numel() for each in checkpoint.classifier.parameters()))
    name = backbone.get("name") or backbone["kind"]
    start = f"timm's weights of {name}" if backbone.get("pretrained") else "none: trained from random weights"
    facts = {
        "Network": f"{name}, {parameters} parameters with its head, images of {backbone['image_size']} pixels",
        "Trained on": f"the base session of {data['name']}: {info['classes']} classes",
        "Pre-training": start,
        "Teachers": config["train"].get("teacher") or "none",
        "Training": f"{info['steps']} steps in {info['seconds']:.0f} s, seed {config['seed']}; no epoch was chosen",
        "Hash of the images": f"`{info['data']}`" if info["data"] else "not recorded",
    }
    return "\n".join(f"- **{key}:** {value}" for key, value in facts.items())


def _measured(results: Sequence[Result]) -> list[str]:
    if not results:
        return ["Nothing was measured on this network where it was shared from."]
    head = ["method", "draws", *(METRICS[key].label for key in _SHOWN)]
    rows = [head, ["---", *("---:" for _ in head[1:])]]
    for group in group_draws(results):
        scores = [[value for each in group if (value := each.quantity(key)) is not None] for key in _SHOWN]
        cells = [plus_minus(spread(values) if values else None) for values in scores]
        rows.append([group[0].title, str(len(group)), *cells])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    classes = results[0].matrix.classes
    sessions = f"{classes[0]} base classes, then {plural(len(classes) - 1, 'session')} of new ones"
    shot = f", {plural(results[0].shot, 'image')} of each" if results[0].shot else ""
    said = (
        f"On test images of {results[0].dataset} ({sessions}{shot}), in percent, in the joint label space; ± is one "
        f"standard deviation over draws of the new classes' images."
    )
    facts = {
        "Seeds": f"{_values(results, 'seed')}; draws {_values(results, 'shots_seed')}",
        "Commit": listed(sorted({each.commit or "not recorded" for each in results})),
        "Machine": "; ".join(sorted({machine(each.hardware) for each in results})),
    }
    return [said, table, "\n".join(f"- **{key}:** {value}" for key, value in facts.items())]


def _values(results: Sequence[Result], key: str) -> str:
    found: set[Any] = {getattr(each, key) for each in results}
    return ", ".join(map(str, sorted(found)))
