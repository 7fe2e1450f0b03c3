"""Text from outside, made safe to show."""


def printable(text: str) -> str:
    """The text with what a terminal would obey, such as a moving cursor, shown as an escape."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
