"""Progress → learning rate; optimizers."""
