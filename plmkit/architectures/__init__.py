"""Batch to states."""
