"""Tokens to input and target."""
