"""How pydantic reads a group of settings: the text below a field is its meaning."""

from pydantic import ConfigDict

FIELDS = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)
