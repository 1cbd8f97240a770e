"""Words that programs and people write if a value is missing."""

import re

import numpy as np

from longstride.process.event_logs.reading.collect import Coded, Rows
from longstride.text import agreeing, counted

_OF_PROGRAMS = frozenset(
    ("", "nan", "none", "null", "nil", "na", "n/a", r"n\a", "n.a", "k.a", "nat", r"\n", "undefined")
)
"""Words without the brackets, dashes and quotes at their ends."""

_OF_PEOPLE = frozenset(
    (
        *("unknown", "unassigned", "not assigned", "not available", "not applicable", "missing", "blank", "empty"),
        *("nobody", "no one", "unbekannt", "keine angabe", "nicht zugewiesen", "inconnu", "desconocido", "onbekend"),
    )
)
"""Words for a missing case or person; an activity may have such a name."""

_ERROR_OF_A_SPREADSHEET = re.compile(r"#[a-z0-9/_]+[!?]")
_ENDS = " \t'\"`<>()[]{}#-_.?\u00a0\u00b4\u2013\u2014\u2018\u2019\u201c\u201d\u2026\u2212\u200b\ufeff"


def is_nothing(text: str, field: str) -> bool:
    """Return whether a text stands for a missing value: nan, none, null, n/a, #N/A, NaT, <NA>, -, unknown, ...

    Args:
        text: cell of a log.
        field: field of an event; only a case or a person called ``unknown`` is missing.
    """
    whole = text.strip().casefold()
    word = whole.strip(_ENDS)
    if word in _OF_PROGRAMS or _ERROR_OF_A_SPREADSHEET.fullmatch(whole):
        return True
    return field in ("case", "resource") and word in _OF_PEOPLE


def nothing_in(column: Coded, field: str) -> np.ndarray:
    """Return bool[n], whether the text of each row stands for a missing value."""
    return np.asarray(np.array([is_nothing(text, field) for text in column.values], np.bool_)[column.code])


def notes_on_nothing(rows: Rows) -> list[str]:
    """Return sentences about words that are taken as nobody, and about activities with such a name."""
    people, activity = rows.texts["resource"], rows.texts["activity"]
    nobody = nothing_in(people, "resource") & (people.code != _index("", people))
    doubtful = nothing_in(activity, "resource") & ~nothing_in(activity, "activity")
    notes = []
    if nobody.any():
        some = _share(nobody, "names", "name")
        notes.append(f"{some} nobody: the resource is {_words(people, nobody)}; rename it if it is a person.")
    if doubtful.any():
        notes.append(
            f"Warning: {_share(doubtful, 'has', 'have')} an activity called {_words(activity, doubtful)}; remove these "
            "rows if that means a missing activity."
        )
    return notes


def _index(text: str, column: Coded) -> int:
    return column.values.index(text) if text in column.values else -1


def _share(which: np.ndarray, verb: str, verbs: str) -> str:
    return agreeing(
        int(which.sum()), len(which), "row", f"({which.mean():.1%}) {verb}", f"({which.mean():.1%}) {verbs}"
    )


def _words(column: Coded, which: np.ndarray) -> str:
    """Return the words of some rows for a sentence, the most frequent first."""
    code, count = np.unique(column.code[which], return_counts=True)
    words = [repr(column.values[c]) for c in code[np.argsort(-count, kind="stable")]]
    return " or ".join(words[:4]) + (f" and {counted(len(words) - 4, 'other')}" if len(words) > 4 else "")
