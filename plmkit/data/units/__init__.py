"""Words, phrases and entities: where they begin in a row of tokens."""
