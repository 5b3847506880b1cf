"""Time of the pages of `kubectl vc ui` in a large installation."""
