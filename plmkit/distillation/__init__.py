"""A large model teaches a small one: its predictions, its states, or both."""
