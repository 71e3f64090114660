"""Networks of fscil that were trained on CIFAR-100: files alone, which fscil finds when this package is installed."""
