"""Accuracy matrices from the files that people have: CSV, JSON, logs, NumPy arrays."""

from fscil.matrix_files.reading import ReadingNote, parse_matrix, read_matrix
