"""Checks of the statements of BOL."""
