"""Baselines of SMM Figure 1 that nothing but the figure needs."""
