"""Which public data sets there are, and where they lie."""
