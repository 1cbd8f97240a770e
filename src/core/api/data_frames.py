"""pandas, which is optional."""

from typing import Any

from core.errors import UserError


def import_pandas(otherwise: str) -> Any:
    """Return the module pandas; ``otherwise`` is an expression that has the same without it.

    Raises:
        UserError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise UserError(
            f"pandas is not installed; pip install pandas adds it. {otherwise} has the same as dictionaries."
        ) from None
    return pandas
