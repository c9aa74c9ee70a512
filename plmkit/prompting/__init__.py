"""Tasks by prompt: nothing is trained, the model reads some demonstrations and answers (Brown et al., 2020)."""
