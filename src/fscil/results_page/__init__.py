"""docs/results.md and the tables of docs/methods: what was measured, from the result files alone."""

from fscil.results_page.method_pages import method_pages
from fscil.results_page.page import results_page

__all__ = ["method_pages", "results_page"]
