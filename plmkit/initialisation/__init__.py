"""How weights begin: the papers' ways, and counts of the corpus."""
