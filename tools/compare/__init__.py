"""Compare what two clusters show of one application, and hold the differences against a list."""
