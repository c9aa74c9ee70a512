"""Blocks that two architectures share."""
