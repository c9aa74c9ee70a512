"""The loop and its memory."""
