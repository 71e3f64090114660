"""What the docs of this repository compute: `make docs`. An installed package has no docs to refresh."""
