"""Every method on every draw."""
