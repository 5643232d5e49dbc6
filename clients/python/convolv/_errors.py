"""The one exception of the package. Its text is a sentence that says what to do.

What arrives from the network never raises it: a receiver counts what it rejects.
"""


class Error(Exception):
    """Something that was asked for cannot be done; the text says why and what to write instead.

    `code`: the word by which the daemon names a refusal, such as `unknown-command`; empty for others.
    """

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code
