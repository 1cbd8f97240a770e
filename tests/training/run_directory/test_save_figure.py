"""Figures with letters that the usual font lacks, and figures that cannot be drawn."""

import io

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pydantic")

from matplotlib import font_manager
from matplotlib.figure import Figure

from longstride.report.charts import draw
from longstride.training.run_directory.save_figure import save_figure


def letters_of(name):
    return set(font_manager.get_font(font_manager.findfont(name)).get_charmap())


@pytest.mark.filterwarnings("error")
def test_letters_come_from_a_font_that_has_them_and_nothing_is_said_of_others():
    other = chr(max(letters_of("STIXGeneral") - letters_of("DejaVu Sans")))
    figure = Figure()
    axes = figure.add_subplot()
    found, nowhere = axes.set_title(f"a {other}"), axes.set_xlabel("\U000f1234")
    for target, options in ((io.BytesIO(), {"format": "png"}), (io.StringIO(), {"format": "svg"})):
        save_figure(figure, target, **options)
    assert any(ord(other) in letters_of(name) for name in found.get_fontfamily()[1:])  # STIX, or another one here
    assert len(nowhere.get_fontfamily()) == 1


def test_a_picture_that_fails_is_a_sentence():
    def paint(figure):
        figure.add_subplot().set_title("$_$")

    assert draw("broken", 2.0, paint).startswith('<p class="missing">This picture could not be drawn: Value')
