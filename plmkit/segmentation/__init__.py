"""Text → units: words, phrases and entities."""
