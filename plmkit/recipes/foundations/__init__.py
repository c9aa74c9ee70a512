"""The papers that later ones start from."""
