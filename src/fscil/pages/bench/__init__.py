"""The comparison of many methods."""
