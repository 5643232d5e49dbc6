"""The one exception of the package. Its text is a sentence that says what to do.

What arrives from the network never raises it: a receiver counts what it rejects.
"""


class Error(Exception):
    """Something that was asked for cannot be done; the text says why and what to write instead."""
