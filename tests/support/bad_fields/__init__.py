"""Bad values for the fields of our kinds, and the sentence that refuses each one."""
