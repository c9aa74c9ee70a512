"""Settings of a run: what `--set` reaches, and how it is checked."""
