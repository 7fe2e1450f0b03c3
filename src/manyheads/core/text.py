"""Text from outside, made safe and short enough to show in a message."""


def printable(text: str) -> str:
    """The text, with control characters such as a cursor movement shown as escapes."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def brief(text: str, limit: int = 80) -> str:
    """The text in printable characters, cut to at most `limit` of them with three dots.

    Use it for a name, an option or a path in a message: `--model (brief(name))`.
    """
    shown = printable(text[: limit + 1])
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def quoted(value: object, limit: int = 40) -> str:
    """The `repr` of a value, in printable characters and cut like `brief`.

    Use it for a value from a file or from Python in a message: `spec.scale (quoted(value))`.
    """
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write an integer of more than 4,300 digits
        text = "a very long number"
    return brief(text, limit)


def one_line(error: Exception) -> str:
    """The kind and the text of an error of another library, on one short line."""
    return brief(" ".join(f"{type(error).__name__}: {error}".split()), 200)
