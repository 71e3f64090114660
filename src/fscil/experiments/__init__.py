"""Grids of networks, methods and draws, and the one runner that fills them."""
