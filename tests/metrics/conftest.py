"""Hypothesis without a time limit per example: on a busy machine that would fail by chance."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
