"""docs/results.md: the measured results beside the published ones, written from the result files alone."""

from fscil.results_page.page import results_page

__all__ = ["results_page"]
