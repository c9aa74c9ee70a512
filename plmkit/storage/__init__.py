"""Files on disk: written atomically, locked, and checked against a manifest."""
