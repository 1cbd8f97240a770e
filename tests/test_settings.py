"""Settings on their way: values with their origins and notes, which nothing changes in place."""

import pytest

pytest.importorskip("pydantic")

from longstride.config import Config
from longstride.errors import UserError
from longstride.settings import Settings, load_settings
from longstride.simulators.loading import load_simulator


def test_a_change_has_its_origin_and_leaves_the_settings_before_it():
    before = Settings(Config(gamma=0.5), {"gamma": "flag"}, ("one.",))
    after = before.changed({"num_epochs": 7}, "preset", ["two."])
    assert (after.config.gamma, after.config.num_epochs) == (0.5, 7)
    assert after.sources == {"gamma": "flag", "num_epochs": "preset"}
    assert after.notes == ("one.", "two.")
    assert before == Settings(Config(gamma=0.5), {"gamma": "flag"}, ("one.",))
    assert before.changed({}, "preset") == before


def test_notes_are_told_once():
    said = []
    told = Settings(Config(), notes=("one.", "two.")).told(said.append)
    assert said == ["one.", "two."]
    assert told.told(said.append) == Settings(Config())
    assert said == ["one.", "two."]


def test_a_user_chooses_by_flag_or_by_a_value_in_a_file_that_is_not_the_default(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("NUM_EPOCHS = 3\nGAMMA = 0.5\n")
    settings = load_settings(file, {"seed": "0", "run_directory": "here"})
    assert Config().num_epochs == 3
    chosen = {name for name in Config.model_fields if settings.is_chosen(name)}
    assert chosen == {"gamma", "seed", "run_directory"}
    assert settings.flags() == {"seed": 0}


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("scenario", 5, "--simulator-option scenario: 5 should be a valid string."),
        ("log_max_rows", 0, "--simulator-option log_max_rows: 0 should be greater than or equal to 1."),
    ],
)
def test_a_wrong_option_of_the_process_is_the_only_one_that_is_named(option, value, sentence):
    config = Config(simulator="process", simulator_options={option: value})
    with pytest.raises(UserError) as caught:
        load_simulator(config.simulator, config.options_of_simulator)
    assert str(caught.value) == sentence
