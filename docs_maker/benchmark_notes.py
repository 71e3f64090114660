"""What must be said of a benchmark's measurements beside their numbers."""

from collections.abc import Sequence

from docs_maker.beside_pretraining import trained_before
from fscil.paper.printed import method_title
from fscil.results.grouping import Group, dataset_key

_CUB_IMAGES = (
    "The images behind these files are not the original archive's: a copy of all 11,788, scaled to a short side of at "
    "most 192 pixels and stored as lossy WebP under the original names, in the original's layout. The published lists "
    "name images, so they are the same ones; a seeded draw counts rows, and the copy's order is not the original's, so "
    "seed 0 of the original archive shows other images."
)
_CUB_NETWORKS = (
    "The networks were not pre-trained alike, so accuracies must not be compared across that: the published rows began "
    "with ImageNet weights of their own and went on to train on the 100 base classes ({yourself}: a ViT at 224 pixels; "
    "most others: a ResNet-18); ours are EfficientNet-Lite networks as ImageNet left them, with no base training at "
    "all: that takes a GPU, and none was at hand. What can be compared is what a method adds to class means on its "
    "network. The authors of the data set warn that some of its images are in ImageNet."
)


def notes(groups: Sequence[Group]) -> list[str]:
    if not groups or dataset_key(groups[0].first.dataset) != "cub200" or not trained_before(groups):
        return []
    return [_CUB_NETWORKS.format(yourself=method_title("yourself")), _CUB_IMAGES]
