"""Names that this package had: it was called ``core`` before it was called ``longstride``."""

_BEFORE, _NOW = "core.simulators.", "longstride.simulators."


def present_name(name: str) -> str:
    """Return the name that a simulator of this package has now; any other name is returned as it is."""
    return f"{_NOW}{name.removeprefix(_BEFORE)}" if name.startswith(_BEFORE) else name


def hint_of(error: Exception) -> str:
    """Return a sentence, with a space before it, for an import of the name before; else nothing."""
    package = (error.name or "").split(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return " The package core is called longstride now; import from longstride." if package == "core" else ""
