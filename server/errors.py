"""What a client or the person who starts the server is told, in one sentence."""


class ServeError(ValueError):
    """The server can't start; the message is the sentence a person reads."""


class RequestError(Exception):
    """A request can't be answered.

    Args:
      text: the sentence.
      status: of HTTP.
    """

    def __init__(self, text, status=400):
        super().__init__(text)
        self.status = status
