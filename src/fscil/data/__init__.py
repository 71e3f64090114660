"""Images cut into sessions: `load_benchmark(DataConfig(...))` gives what every run starts from."""

from fscil.data.benchmark import Benchmark
from fscil.data.dataset import Dataset, ImageSet
from fscil.data.registry import datasets, load_benchmark, load_dataset
from fscil.data.session import Session, View

__all__ = ["Benchmark", "Dataset", "ImageSet", "Session", "View", "datasets", "load_benchmark", "load_dataset"]
