"""A folder → a model that predicts, fills, embeds, scores and generates."""
