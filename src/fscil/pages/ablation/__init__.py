"""The ablation of YourSelf."""
