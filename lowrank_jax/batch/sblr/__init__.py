"""Solvers of sparse bilinear logistic regression."""
