"""Which tokens of a row are masked, and what stands in their place."""
