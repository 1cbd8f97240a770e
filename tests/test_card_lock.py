"""Files of GPU tests run one at a time: which hold the card, and that every file is asked."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.card_lock import card_lock, gpu_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no such lock")

GPU, OTHER = Path("test_gpu.py"), Path("test_other.py")


def item(path, *marks):
    return SimpleNamespace(path=path, get_closest_marker=lambda name: name in marks or None)


ITEMS = [item(GPU), item(GPU, "gpu"), item(OTHER, "slow")]


@pytest.mark.parametrize(("path", "has_card", "held"), [(GPU, True, True), (GPU, False, False), (OTHER, True, False)])
def test_a_file_with_a_gpu_test_holds_the_card_until_its_end(path, has_card, held, tmp_path):
    lock = tmp_path / "lock"
    runs = gpu_file(ITEMS, path, lambda: has_card, lock)
    next(runs)
    if held:
        with pytest.raises(BlockingIOError), card_lock(lock, wait=False):
            pass
    else:
        with card_lock(lock, wait=False):
            pass
    assert next(runs, "over") == "over"
    with card_lock(lock, wait=False):
        pass


def test_every_file_is_asked(request):
    assert "one_file_on_the_card" in request.fixturenames
