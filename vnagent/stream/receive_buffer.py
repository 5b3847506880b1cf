"""Memory that all channels of a loop read into."""

READ_BYTES = 64 * 1024
"""Bytes of one read from a peer in a stream."""
PLAINTEXT_BUFFER_BYTES = READ_BYTES + 32 * 1024
"""Plaintext of one read, and of a record that had come in part before it."""


class ReceiveBuffer:
    """The memory that all channels of a loop read into. It is empty again after each read."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_BYTES))
        self.plain = memoryview(bytearray(PLAINTEXT_BUFFER_BYTES))
