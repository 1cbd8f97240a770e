"""Leaving the other processes: whoever cannot, stops to watch them, since the watch ends its process."""

import pytest
import torch.distributed  # noqa: F401  # which process_group needs

from longstride.errors import RankLostError, UserError
from longstride.learning.distributed import process_group
from longstride.learning.distributed.join import joined_ranks
from longstride.learning.distributed.launch import Launch


class Group:
    """A group whose other ranks are gone at the end."""

    abandoned = False

    def __init__(self, launch):
        pass

    def close(self):
        raise RankLostError("The others are gone.")

    def note(self, error):
        return False

    def abandon(self):
        Group.abandoned = True


def test_a_group_that_cannot_be_closed_is_abandoned(monkeypatch):
    monkeypatch.setattr(process_group, "ProcessGroup", Group)
    with pytest.raises(RankLostError) as caught, joined_ranks(Launch(1, 2)):
        pass
    assert Group.abandoned and caught.value.alone is False


def test_a_program_whose_last_run_ended_with_an_error_is_to_start_again(monkeypatch):
    monkeypatch.setattr(process_group.dist, "is_initialized", lambda: True)
    with pytest.raises(UserError, match=r"its last run of several processes ended with an error; start it again"):
        process_group.ProcessGroup(Launch(1, 2))
