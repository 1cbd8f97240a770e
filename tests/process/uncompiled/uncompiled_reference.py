"""The event loop against the slow reference on generated scenarios, decision for decision."""

import pytest
from oracles.process_comparison import main


@pytest.mark.slow
def test_generated_scenarios(capsys):
    main(250)
    # The comparison is worth something only if most of what is generated can be played.
    assert "'scenarios': 250" in capsys.readouterr().out
