"""Words for the transitions of an event: start, complete, suspend, resume, abort."""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from longstride.errors import UserError, suggestion
from longstride.process.event_logs.reading.collect import Coded
from longstride.process.event_logs.reading.options import COLUMNS_OPTION, TRANSITION_WORDS
from longstride.process.event_logs.reading.words.nothing import is_nothing
from longstride.text import agreeing, counted

START, COMPLETE, SUSPEND, RESUME, ABORT = "start", "complete", "suspend", "resume", "abort"
MEANINGS = (START, RESUME, SUSPEND, COMPLETE, ABORT)
"""In the order in which those of an event at one moment happen."""
_IGNORED = "ignored"

_WORDS = {
    START: (
        "start,started,starting,begin,begins,began,begun,s,b,in progress,beginn,begonnen,anfang,angefangen,gestartet,"
        "début,debut,inicio,iniciado,inizio,gestart"
    ),
    COMPLETE: (
        "complete,completed,completion,end,ended,finish,finished,done,close,closed,stop,stopped,c,e,f,ende,beendet,"
        "erledigt,abgeschlossen,fertig,fin,terminé,termine,finalizado,completado,fine,voltooid,einde"
    ),
    SUSPEND: "suspend,suspended,pause,paused,hold,on hold,interrupt,interrupted,pausiert,unterbrochen",
    RESUME: "resume,resumed,unpause,unpaused,continue,continued,fortgesetzt",
    ABORT: "abort,aborted,ate abort,pi abort,withdraw,withdrawn,cancel,canceled,cancelled,abgebrochen",
    _IGNORED: "schedule,scheduled,enable,enabled,assign,assigned,reassign,reassigned,autoskip,manualskip,skip,unknown",
}
_MEANING = {word: meaning for meaning, words in _WORDS.items() for word in words.split(",")}
"""Meaning of each word of the XES standard, of other programs, and of some languages."""

_FILLERS = frozenset({"task", "activity", "event", "work", "workitem", "item", "step", "job", "process", "lifecycle"})
"""Words that may accompany a known one, as in ``TASK_STARTED``."""

_SHOWN = 6
_MANY = 0.01
"""Share of rows with unknown words from which a warning is given."""


class Transitions(NamedTuple):
    """A column of transitions in the words of :data:`MEANINGS`; ignored and unknown words stay as they are."""

    name: str  # name of the column
    column: Coded  # a blank one is a completion
    words: list[tuple[str, str, int]]  # word of the log, its meaning ("" for an unknown one) and its number of rows
    guessed: list[str]  # single letters with their meanings

    @property
    def shown(self) -> str:
        """The words with their numbers of rows, for a sentence."""
        words = [f"{word!r} ({counted(count, 'row')})" for word, _, count in self.words]
        return ", ".join(words[:_SHOWN]) + (f" and {len(words) - _SHOWN:,} more" if len(words) > _SHOWN else "")

    def notes(self) -> list[str]:
        """Return sentences about guessed and unknown words."""
        total = max(sum(count for *_, count in self.words), 1)
        unknown = self._replace(words=[entry for entry in self.words if not entry[1]])
        rows = sum(count for *_, count in unknown.words)
        notes = []
        if self.guessed:
            notes.append(f"Transitions are read: {', '.join(self.guessed)}; {_REMEDY} changes that.")
        if rows >= _MANY * total:
            verbs = (
                f"({rows / total:.0%}) {verb}"
                for verb in ("has an unknown transition and is", "have unknown transitions and are")
            )
            some = agreeing(rows, total, "row", *verbs)
            notes.append(f"Warning: {some} ignored: {unknown.shown}; {_REMEDY} names their meaning.")
        return notes

    def require_completions(self, source: str, whole: np.ndarray) -> None:
        """Refuse a log without a completion; ``whole``, bool[n], are rows with start and end, which need none.

        Raises:
            UserError: the words of the log are unknown, or are starts only.
        """
        if not self.words or whole.any() or any(meaning == COMPLETE for _, meaning, _ in self.words):
            return
        starts = any(meaning == START for _, meaning, _ in self.words)
        what = "a completion" if starts else "a start or a completion"
        raise UserError(
            f"{source}: its column {self.name!r} of transitions holds {self.shown}, and none is known to be {what}; "
            f"name them with {_REMEDY}, or remove the column if each row is an event."
        )


_REMEDY = f"{COLUMNS_OPTION} started=...,completed=..."


def understand(name: str, column: Coded, given: Mapping[str, str], source: str) -> Transitions:
    """Return the transitions of n rows.

    Args:
        name: name of the column.
        column: words of the log.
        given: words that the user gave by a field of :data:`TRANSITION_WORDS`, several with bars between them.
        source: name of the file, for messages.

    Raises:
        UserError: the log does not have a given word.
    """
    own = _given(given, column.values, source)
    counts = np.bincount(column.code, minlength=len(column.values)).tolist()
    merged: dict[str, int] = {}
    number, words, guessed = np.zeros(len(column.values), np.int32), list[tuple[str, str, int]](), list[str]()
    for i, text in enumerate(column.values):
        plain = _plain(text)
        nothing = is_nothing(text, "transition")
        meaning = own.get(plain) or (COMPLETE if nothing else _MEANING.get(plain, ""))
        if counts[i]:
            words.append((text, meaning, counts[i]))
            guessed += [f"{text!r} as {meaning}"] if len(plain) == 1 and meaning and plain not in own else []
        canonical = meaning if meaning in MEANINGS else text
        number[i] = merged.setdefault(canonical, len(merged))
    return Transitions(name, Coded(list(merged), number[column.code]), words, guessed)


def are_transitions(texts: Iterable[str]) -> bool:
    """Return whether all texts that are not blank are known words of transitions, and there is one."""
    found = [_plain(text) in _MEANING for text in texts if not is_nothing(text, "transition")]
    return bool(found) and all(found)


def _given(given: Mapping[str, str], values: list[str], source: str) -> dict[str, str]:
    """Return the meaning of each word that the user gave."""
    known, found = {_plain(text): text for text in values}, {}
    for field, words in given.items():
        for word in words.split("|"):
            if _plain(word) not in known:
                ending = suggestion(word, known.values(), f"it has {', '.join(map(repr, values[:_SHOWN]))}")
                raise UserError(f"{source} has no transition {word!r} for {COLUMNS_OPTION} {field}=...{ending}")
            found[_plain(word)] = TRANSITION_WORDS[field]
    return found


def _plain(text: str) -> str:
    """Return a word without case, punctuation and fillers."""
    words = re.sub(r"[\W_]+", " ", text.casefold()).split()
    return " ".join([word for word in words if word not in _FILLERS] or words)


def meaning_of(transition: Coded) -> np.ndarray:
    """Return int64[n], the index in :data:`MEANINGS` of each row of :attr:`Transitions.column`, -1 for none."""
    index = {meaning: i for i, meaning in enumerate(MEANINGS)}
    return np.asarray(np.array([index.get(text, -1) for text in transition.values], np.int64)[transition.code])
