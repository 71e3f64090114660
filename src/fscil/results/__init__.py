"""What was measured: one Result, one reader, groups of draws, and one rule of significance."""
