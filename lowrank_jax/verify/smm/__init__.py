"""Checks of the statements of SMM."""
