"""Names that modules of this package had in earlier versions: the package was called ``core``."""

_MOVED = {
    "core.simulators.process.": "longstride.process.",
    "longstride.simulators.process.": "longstride.process.",
    "core.simulators.": "longstride.simulators.",
}
"""Where the modules of simulators were, and where they are; the first that fits holds."""


def present_name(name: str) -> str:
    """Return the name that a simulator of this package has now; any other name is returned as it is."""
    for before, now in _MOVED.items():
        if name.startswith(before):
            return now + name.removeprefix(before)
    return name


def hint_of(error: Exception) -> str:
    """Return a sentence, with a space before it, about an import of a missing module; nothing for another error."""
    name = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    if name.split(".")[0] == "core":
        return " The package core is called longstride now; import from longstride."
    if name.startswith("longstride.simulators.process"):
        return " longstride.simulators.process is called longstride.process now."
    if name.split(".")[0] == "gymnasium":
        return " Install it: pip install 'longstride[gymnasium]'."
    return f" Install what {name} belongs to, or correct the name." if name else ""
