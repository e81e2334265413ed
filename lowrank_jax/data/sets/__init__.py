"""Table of the known public data sets, and the search for their files."""
