"""Where the extra `docs` is not installed, as in the job with the oldest versions, there is no site to test."""

from importlib.util import find_spec

NEEDED = {"test_notebooks.py": "nbformat", "test_site_pages.py": "mkdocs"}
collect_ignore = [file for file, module in NEEDED.items() if find_spec(module) is None]
