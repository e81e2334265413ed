"""Solvers of sparse logistic regression that nothing but a bench needs."""
