"""The demo, and the text that it finds on this machine."""
