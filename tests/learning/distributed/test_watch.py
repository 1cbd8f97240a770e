"""Signs of life: a silent rank, a store that is gone, and who says why a run ends."""

import threading
import time

from longstride.learning.distributed.watch import Watch, cause, missing, note_cause, said_by_first


class Store:
    """What the watch uses of torch.distributed's store."""

    def __init__(self):
        self.values, self.gone = {}, False

    def set(self, key, value):
        self._require()
        self.values[key] = value.encode()

    def get(self, key):
        return self.values[key]

    def check(self, keys):
        self._require()
        return all(key in self.values for key in keys)

    def compare_set(self, key, expected, desired):
        self._require()
        assert expected == ""
        return self.values.setdefault(key, desired.encode())

    def _require(self):
        if self.gone:
            raise ConnectionError("closed")


def watching(store, rank, size, patience=0.3):
    told, event = [], threading.Event()
    watch = Watch(store, rank, size, lambda what: (told.append(what), event.set()), (0.02, patience))
    watch.start()
    return watch, told, event


def test_a_rank_that_ends_is_missed_and_one_that_lives_is_not():
    store = Store()
    (first, told, event), (second, _, _) = watching(store, 0, 2), watching(store, 1, 2, patience=30)
    time.sleep(0.6)
    assert not event.is_set()
    second.stop()
    assert event.wait(10)
    assert told == ["rank 1 gave no sign of life for 0 seconds"]
    first.stop()


def test_a_store_that_does_not_answer_is_told_once():
    store = Store()
    watch, told, event = watching(store, 0, 2)
    store.gone = True
    assert event.wait(10)
    watch.stop()
    assert told == ["the store of torch.distributed does not answer (ConnectionError)"]


def test_a_run_that_is_over_misses_nobody():
    watch, told, _ = watching(Store(), 0, 2)
    watch.stop()
    time.sleep(0.4)
    assert told == []


def test_one_rank_says_why_a_run_ends():
    store = Store()
    assert cause(store) == said_by_first(store) == ""
    assert note_cause(store, 1, "No such file.", 0.0)
    assert not note_cause(store, 2, "No such file.")  # the same sentence: it has been said
    assert note_cause(store, 2, "Another one.", 0.0)
    assert cause(store) == "rank 1 has stopped with an error"
    assert said_by_first(store) == ""
    store.gone = True
    assert note_cause(store, 0, "Anything.")
    assert cause(store) == said_by_first(store) == ""


def test_the_first_rank_says_what_all_have_met():
    """Whichever of them meets it first: another rank waits for the first one a little."""
    store, printed = Store(), []
    other = threading.Thread(target=lambda: printed.append(note_cause(store, 1, "No such file.", 60.0)))
    other.start()
    while not cause(store):
        time.sleep(0.01)
    assert note_cause(store, 0, "No such file.")
    other.join()
    assert printed == [False]
    assert said_by_first(store) == "No such file."
    assert note_cause(store, 2, "Another one.", 60.0)


def test_missing_ranks_in_words():
    assert missing([1, 3], 30.0) == "ranks 1, 3 gave no sign of life for 30 seconds"
