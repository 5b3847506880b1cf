"""The steps of a reconcile, each: look at what is, decide, act. Every one may be run again."""
