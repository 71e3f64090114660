"""The networks that see: those that come with the package, checkpoints of `fscil train`, timm's, exported models."""
