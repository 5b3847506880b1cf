"""Properties are judged by what they find, not by how long a busy machine takes for an example."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
