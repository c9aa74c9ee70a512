"""Text from causal language models: sampling, beam search, prompt lookup decoding, log-probabilities."""
