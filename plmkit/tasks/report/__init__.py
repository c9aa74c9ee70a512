"""What `plm evaluate` reports besides scores: intervals, classes, calibration and mistakes."""
