"""The gAcc paper as data: its printed tables, what follows from them, and where they contradict each other.

Tang et al., Rethinking Few-shot Class-incremental Learning: Learning from Yourself, ECCV 2024.
"""
