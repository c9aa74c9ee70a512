"""How weights are initialised: as in the papers, and from counts of the corpus."""
