"""Event handlers: from a watch event to keys in the queue."""
