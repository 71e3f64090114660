"""The encoders that come with fscil, or with a package of weights: a network and the statistics of its base classes."""

from fscil.core.stored_networks import FOLDER, network_file
from fscil.core.stored_networks import encoders as stored
from fscil.core.stored_networks import statistics_file as embedding_file

__all__ = ["FOLDER", "embedding_file", "network_file", "stored"]
