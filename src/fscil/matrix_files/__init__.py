"""Accuracy matrices from files that people have: CSV, JSON, logs, npy."""
