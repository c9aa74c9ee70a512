"""Which tokens of a row are masked, and what replaces them."""
