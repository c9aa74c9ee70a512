"""Small networks that a large one teaches."""
