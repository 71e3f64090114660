"""What each part of YourSelf gives: losses, layers, weights, calibration and cost, from one trained network."""
