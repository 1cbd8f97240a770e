"""The space of a search: what is read, and the sentence for everything that is not right."""

from pathlib import Path

import pytest

pytest.importorskip("pydantic")


from longstride.commands.sweep.space import Dimension, read_space
from longstride.errors import UserError


def read(*texts, file=None):
    return read_space(texts, file)


def test_ranges_keep_the_kind_of_the_setting():
    assert read("gamma=0.98..0.999 log") == [Dimension("gamma", "0.98..0.999 log", low=0.98, high=0.999, log=True)]
    (epochs,) = read("NUM_EPOCHS = 1..10")
    assert (epochs.low, epochs.high, epochs.whole, epochs.log) == (1, 10, True, False)
    (rate,) = read("learning_rate_actor=1e-4..1e-2")
    assert (rate.low, rate.high, rate.whole) == (1e-4, 1e-2, False)
    assert read("initial_log_std=-2..0")[0].low == -2.0
    (spaced,) = read("gamma = 0.9 .. 0.99 log")
    assert (spaced.low, spaced.high, spaced.log) == (0.9, 0.99, True)


def test_lists_have_the_values_of_the_setting():
    assert read("batch_size=256, 512,256,1024")[0].choices == (256, 512, 1024)
    assert read("activation=relu,tanh")[0].choices == ("relu", "tanh")
    assert read("use_tf32=true,false")[0].choices == (True, False)


def test_a_file_has_the_same_and_a_flag_takes_the_place_of_its_line(tmp_path):
    file = tmp_path / "space.toml"
    file.write_text('learning_rate_actor = "1e-4..1e-2 log"\nBATCH_SIZE = [256, 512]\nuse_tf32 = [true, false]\n')
    texts = ("learning_rate_actor=1e-4..1e-2 log", "batch_size=256,512", "use_tf32=true,false")
    found, expected = read(file=file), read(*texts)
    assert [(d.name, d.choices, d.low, d.high, d.log) for d in found] == [
        (d.name, d.choices, d.low, d.high, d.log) for d in expected
    ]
    assert [d.text for d in read("batch_size=64,128", file=file) if d.name == "batch_size"] == ["64,128"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gama=0.9..0.99", "--sweep: gama is unknown; did you mean GAMMA?"),
        ("gama=0.9,0.99", "--sweep: gama is unknown; did you mean GAMMA?"),
        ("gamma=0.9..2", "--sweep: gamma: '2' should be less than or equal to 1."),
        ("gamma=0.9..0.8", "--sweep: gamma: 0.9 .. 0.8 is empty; the smaller number comes first."),
        ("gamma=0.9", "--sweep: gamma has one value, 0.9; give a range LOW..HIGH or several with commas."),
        ("gamma=0..0.9 log", "--sweep: gamma: a logarithm needs numbers above 0, and 0.0 is not."),
        ("gamma=0.1..0.9 step 3", "--sweep: gamma: 'step 3' after the range is not known; only log is."),
        ("gamma=a..b", "--sweep: gamma: 'a' should be a valid number, unable to parse string as a number."),
        ("num_epochs=1.5..3", "--sweep: num_epochs: '1.5' should be a valid integer"),
        ("batch_size=256,,3", "--sweep: batch_size: '' should be a valid integer"),
        ("activation=relu..tanh", "--sweep: activation has no range; list its values with commas."),
        ("activation=relu,elu", "--sweep: activation: 'elu' should be 'relu' or 'tanh'."),
        ("seed=0..5", "--sweep: seed is the same for all trials; give it as a flag of its own."),
        ("simulator=cartpole,acrobot", "--sweep: simulator is the same for all trials"),
        ("gamma", "--sweep: 'gamma' is not NAME=VALUES, such as --sweep "),
        ("gamma=", "--sweep: 'gamma=' is not NAME=VALUES, such as --sweep "),
    ],
)
def test_what_is_wrong_is_said(text, message):
    with pytest.raises(UserError) as error:
        read(text)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_what_is_wrong_with_a_file_is_said(tmp_path):
    def message(content):
        (tmp_path / "space.toml").write_text(content)
        with pytest.raises(UserError) as error:
            read(file=tmp_path / "space.toml")
        return str(error.value).replace(str(tmp_path), "DIR")

    assert message("gamma =").startswith("--sweep-file DIR/space.toml is not valid TOML: Invalid value (at ")
    assert message("gamma = 0.9") == (
        'DIR/space.toml: gamma should be text, such as "1e-4..3e-3 log", or a list of values.'
    )
    assert message('gamma = "0.9..2"') == "DIR/space.toml: gamma: '2' should be less than or equal to 1."
    assert message("").startswith("--mode sweep needs the settings to vary: --sweep ")
    with pytest.raises(UserError, match="Cannot read --sweep-file none"):
        read_space([], Path("none.toml"))
    with pytest.raises(UserError, match="--sweep names gamma twice"):
        read("gamma=0.1..0.2", "GAMMA=0.3..0.4")
