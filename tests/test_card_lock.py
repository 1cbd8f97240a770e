"""Files of GPU tests run one at a time: which hold the card, and that every file is asked."""

import os
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


def test_another_users_file_can_be_locked(tmp_path):
    import fcntl

    lock = tmp_path / "lock"
    for _ in ("made", "found"):
        with card_lock(lock) as descriptor:
            assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY


def test_what_needs_a_gpu_is_marked():
    """Tests without the mark would not wait for one another."""
    texts = {file: file.read_text(encoding="utf-8") for file in Path(__file__).parent.rglob("*.py")}
    needing = {file: text for file, text in texts.items() if "skipif(not torch.cuda.is_available()" in text}
    del needing[Path(__file__)]
    assert any(file.name == "devices.py" for file in needing)
    assert [file for file, text in needing.items() if "pytest.mark.gpu" not in text] == []


def test_every_file_is_asked(request):
    assert "one_file_on_the_card" in request.fixturenames
