"""Static word vectors: one vector per word, whatever the sentence."""
