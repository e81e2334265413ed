"""Checks of the statements of TM."""
