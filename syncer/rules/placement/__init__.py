"""Rules that choose the super cluster of a pod."""
