"""Families of Hugging Face models, a file each."""
