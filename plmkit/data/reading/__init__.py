"""Files on disk to documents: formats, encodings, columns and layouts."""
