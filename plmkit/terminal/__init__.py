"""What a person sees: messages, progress bars, tables, charts."""
