"""Base training: the loop, its loss and optimizer, the weight average that is kept, checkpoints."""
