"""Records about single keys of labels and annotations."""
