"""Certificates of a run on its own data."""
