"""Names that this package had: until version 0.1 it was called ``core``."""

_BEFORE, _NOW = "core.simulators.", "longstride.simulators."


def present_name(name: str) -> str:
    """Return the name that a simulator of this package has now; any other name is returned as it is."""
    return f"{_NOW}{name.removeprefix(_BEFORE)}" if name.startswith(_BEFORE) else name
