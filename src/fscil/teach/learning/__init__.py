"""What a project knows and what can be said about it: vectors, prototypes, calibration, findings."""
