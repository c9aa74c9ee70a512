"""Models and ways to train them side by side: one table, one picture."""
