"""Low-rank bilinear, Hankel and tensor models as pure JAX functions."""
