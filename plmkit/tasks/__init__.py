"""Fine-tuning: reader, head and score."""
