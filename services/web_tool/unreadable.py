"""Why no text can be made of a page; raised in the sandbox."""


class Unreadable(Exception):
    """`rule` is that of the NotPermitted that it becomes; the message is for whoever asked for the page."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
