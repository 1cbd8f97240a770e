"""The text of a hyperparameters.py: every setting with its meaning, grouped as in ``--help``."""

import json
import textwrap
from collections.abc import Mapping
from typing import Any

from longstride.config import GROUPS, Config
from longstride.setting_flags import meaning

_WIDTH = 120

_HEAD = '''"""All settings of a run. Edit this file, or override a name by a flag: GAMMA is --gamma.

Booleans also take --no-..., as in --no-grow-rollouts. Each comment gives the meaning, the values, and the effect of a
larger value. An unknown name, a wrong type or a value out of range ends the command with a sentence.
"""
'''


def settings_text(config: Config) -> str:
    """Return a hyperparameters.py with the values of a Config."""
    parts = [_HEAD]
    for title, settings in GROUPS.items():
        parts.append(f"# {'-' * 80} {title}\n")
        for name, field in settings.model_fields.items():
            comment = textwrap.wrap(
                meaning(field), _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
            )
            parts.append("\n".join([*comment, f"{name.upper()} = {python_literal(getattr(config, name))}\n"]))
    return "\n".join(parts)


def python_literal(value: Any) -> str:
    """Return the Python source of a setting's value, as a formatter leaves it: text in double quotes, 1_000."""
    if isinstance(value, Mapping):
        items = (f"{python_literal(name)}: {python_literal(item)}" for name, item in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(python_literal, value))}]"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}" if abs(value) >= 10_000 else str(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
