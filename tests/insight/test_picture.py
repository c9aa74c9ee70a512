from dataclasses import replace

import numpy as np
import pytest
from models import tiny_model

from plmkit.errors import SettingError
from plmkit.insight import picture
from plmkit.insight.picture import figure_of, mixes_figure, write_picture


@pytest.fixture(scope="module")
def attended():
    return tiny_model("transformer-xl-tiny", memory=20).attend("the cat $ees a house.", "我的狗 hears.")


def test_one_head_is_drawn_with_its_tokens(attended):
    part = attended.part
    (axes,) = figure_of([part], layer=2, head=1).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [*part.queries]
    assert [label.get_text().replace("\\", "") for label in axes.get_xticklabels()] == [*part.keys]
    assert (axes.images[0].get_array() == part.weights[1, 0]).all()
    assert axes.lines[0].get_xdata()[0] == part.memory - 0.5  # where recurrent memory ends


def test_all_heads_are_drawn_side_by_side(attended):
    figure = figure_of([attended.part, attended.part], layer=None, head=None)
    assert len(figure.axes) == 8  # two models of two layers of two heads
    assert (figure.axes[3].images[0].get_array() == attended.part.weights[1, 1]).all()


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_a_picture_is_written_by_its_type(attended, name, begins, tmp_path):
    write_picture([attended], tmp_path / name, lambda _: None, layer=1, head=1)
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_characters_that_no_font_has_are_reported(attended, monkeypatch, tmp_path):
    monkeypatch.setattr(picture, "CJK_FONTS", ())
    said = []
    write_picture([attended], tmp_path / "a.png", said.append, layer=1, head=1)
    assert len(said) == 1 and said[0].startswith("! No font that matplotlib finds has ") and "狗" in said[0]


def test_a_mix_of_layers_is_drawn_as_bars(attended, tmp_path):
    mixes = {"input": np.array([0.2, 0.3, 0.5]), "output": np.array([0.6, 0.3, 0.1])}
    mixed = replace(attended, parts=(), mix=mixes)
    for axes, shares in zip(mixes_figure([mixed]).axes, mixes.values(), strict=True):
        assert [bar.get_width() for bar in axes.patches] == shares.tolist()
        assert [label.get_text() for label in axes.get_yticklabels()] == ["words alone", "layer 1", "layer 2"]
    write_picture([mixed], tmp_path / "a.svg", lambda _: None, layer=None, head=None)
    assert "Weights of the layers in the mix at the output" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    with pytest.raises(SettingError, match="has no attention to draw"):
        write_picture([mixed], tmp_path / "b.svg", lambda _: None, layer=1, head=None)


def test_an_svg_keeps_its_tokens_as_text_and_needs_no_font(attended, monkeypatch, tmp_path):
    monkeypatch.setattr(picture, "CJK_FONTS", ())
    said = []
    write_picture([attended], tmp_path / "a.svg", said.append, layer=1, head=1)
    assert said == [] and "狗" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_heads_without_their_tokens_need_no_font(attended, monkeypatch, tmp_path):
    monkeypatch.setattr(picture, "CJK_FONTS", ())
    said = []
    write_picture([attended], tmp_path / "a.png", said.append, layer=None, head=None)
    assert said == []


def test_a_font_that_was_installed_after_matplotlib_listed_them_is_found(monkeypatch):
    from matplotlib import font_manager

    every = list(font_manager.fontManager.ttflist)
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [font for font in every if font.name != "DejaVu Serif"])
    serif = [font.fname for font in every if font.name == "DejaVu Serif"]
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [*serif, __file__])
    assert "DejaVu Serif" in picture.installed.__wrapped__()
