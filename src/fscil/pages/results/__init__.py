"""docs/results.md and the tables of docs/methods."""
