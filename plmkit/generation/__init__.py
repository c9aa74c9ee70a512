"""Text from left-to-right models: choosing tokens, searching with beams, spelling as it comes."""
