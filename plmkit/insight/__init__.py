"""What a model attends to, and what its outputs depend on: pages and pictures to look at."""
