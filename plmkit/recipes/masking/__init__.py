"""What changed in what is hidden."""
