"""Work queue and workers of a controller."""
