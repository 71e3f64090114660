"""A trained network as others get it, by huggingface_hub's mixin (extra `hub`):

network = SharedNetwork.from_run("runs/glyphs")
network.save_pretrained("shared")
network.push_to_hub("USER/NAME")
SharedNetwork.from_pretrained("USER/NAME").classifier

model.safetensors     a checkpoint like any other: `fscil eval --checkpoint shared` takes it, its checksum is checked
config.json           how it was trained
results/*.json        what was measured on it, as `fscil run` left it
README.md             the card, made of these
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard, ModelCardData, ModelHubMixin, snapshot_download

from fscil.core.storage import read_json, write_json, write_sealed
from fscil.core.stored_networks import IN_FOLDERS, find_checkpoint
from fscil.evaluation.identity import weights_sha256
from fscil.results.result import json_files, parse_result
from fscil.sharing.card import card_text
from fscil.training.checkpoint import Checkpoint, Classifier, load_classifier, save_classifier

_WEIGHTS, _CONFIG, _RESULTS = IN_FOLDERS[1], "config.json", "results"


class SharedNetwork(ModelHubMixin):
    """A trained network with what was measured on it."""

    def __init__(self, checkpoint: Checkpoint, documents: Sequence[Mapping[str, Any]] = ()) -> None:
        self.checkpoint, self.documents = checkpoint, tuple(documents)

    @classmethod
    def from_run(cls, folder: Path | str) -> "SharedNetwork":
        """Of the folder of `fscil run`, with those of its results that were measured on its network."""
        folder = Path(folder)
        path = find_checkpoint(folder / "base" if (folder / "base").is_dir() else folder)
        checkpoint, weights = load_classifier(path), weights_sha256(path)
        files = [file for file in json_files(folder) if file.name == "result.json"] if folder.is_dir() else []
        documents = [read_json(file) for file in files]
        ours = [each for each in documents if (each.get("network") or {}).get("weights_sha256") == weights]
        return cls(checkpoint, ours)

    @property
    def classifier(self) -> Classifier:
        """Network and head, a module of torch; it takes images as uint8 of shape (images, height, width, 3)."""
        return self.checkpoint.classifier

    def _save_pretrained(self, save_directory: Path) -> None:
        checkpoint = self.checkpoint
        save_classifier(save_directory / _WEIGHTS, checkpoint.classifier, checkpoint.info, checkpoint.extras)
        write_json(save_directory / _CONFIG, {key: checkpoint.info[key] for key in checkpoint.info if key != "losses"})
        for document in self.documents:
            name = f"{document['method']}-{document['shots_seed']}.json"
            write_sealed(save_directory / _RESULTS / name, document)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **options: Any) -> "SharedNetwork":
        folder = Path(model_id)
        if not folder.is_dir():
            known = ("revision", "cache_dir", "force_download", "token", "local_files_only")
            wanted = {key: options[key] for key in known if key in options}
            parts = [_WEIGHTS, _CONFIG, f"{_RESULTS}/*.json"]
            folder = Path(snapshot_download(model_id, allow_patterns=parts, **wanted))
        documents = [read_json(file) for file in sorted((folder / _RESULTS).glob("*.json"))]
        return cls(load_classifier(folder / _WEIGHTS), documents)

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """What the network is and was measured to do, from its results; `save_pretrained` writes it as README.md."""
        tags = ["fscil", "few-shot-class-incremental-learning", "safetensors"]
        data = ModelCardData(library_name="fscil", pipeline_tag="image-classification", tags=tags)
        results = [parse_result(document, "a result of the network") for document in self.documents]
        return ModelCard(f"---\n{data.to_yaml()}\n---\n\n{card_text(self.checkpoint, results)}")
