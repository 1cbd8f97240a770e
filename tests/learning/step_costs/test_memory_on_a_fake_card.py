"""The predicted bytes of a whole update on a GPU against those on a card that is not there (helpers/fake_card)."""

import pytest
from helpers.fake_card.memory import WIDTHS
from helpers.fake_card.processes import needs_a_compiler, on_a_fake_card

pytestmark = [needs_a_compiler, pytest.mark.slow]


@pytest.fixture(scope="module")
def updates(tmp_path_factory):
    """Return the bytes of an update by the width of its critic."""
    return on_a_fake_card("helpers.fake_card.memory", tmp_path_factory.mktemp("fake_card"))


@pytest.mark.parametrize("width", WIDTHS)
def test_the_peak_is_within_a_tenth_of_a_whole_updates(updates, width):
    """With the parameters as they cross the bus; without the kernel of the loss, and the workspaces of products."""
    assert updates[str(width)]["predicted"] == pytest.approx(updates[str(width)]["real"], rel=0.1)
