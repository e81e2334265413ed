"""One adapter per kind of data: how a command reads, fits and scores it."""
