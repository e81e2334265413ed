"""Problems made from a seed."""
