"""Layers that several architectures share."""
