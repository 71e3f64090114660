"""The paper, its audit and its figures."""
