"""Figures: those of the paper that its printed numbers allow, and the same from a user's results."""
