"""Extractive question answering: files, windows, heads, search and scores."""
