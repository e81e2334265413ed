"""Checks of the statements of SBLR."""
