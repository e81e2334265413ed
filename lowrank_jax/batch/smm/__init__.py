"""Solvers and baselines of the spectral max-margin model."""
