"""The page of `plm attend`: everything is inside, and what is inside is what the model computed."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from models import tiny_model

from plmkit.insight.page import packed, page, unpacked

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
TEXT = 'the </script> cat 我的狗 😀 "sees" <b>&amp; a house.'


class Parsed(HTMLParser):
    """The scripts of a page by their id, and everything that it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: dict[str, str] = {}
        self.loaded: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.loaded += [given[name] for name in ("src", "href") if name in given]
        if tag not in ("meta", "link"):
            self.open.append(tag)
        if tag == "script":
            self.name = given.get("id", "")
            self.scripts[self.name] = ""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[self.name] += data


@pytest.fixture(scope="module")
def attended():
    return tiny_model("gpt2-tiny", max_length=96).attend(TEXT)


def data_of(text: str) -> dict:
    return json.loads(Parsed(text).scripts["data"])


def test_the_page_loads_nothing(attended):
    text = page([[attended]])
    assert Parsed(text).loaded == ["data:,"]  # the icon, which a browser would ask for
    assert not re.search(r"https?://|//\w+\.|@import|url\(|fetch\(|XMLHttpRequest|WebSocket|sendBeacon", text)
    assert "default-src 'none'" in text


def test_the_weights_in_the_page_are_those_of_the_model(attended):
    (model,) = data_of(page([[attended]]))["models"]
    (frame,) = model["frames"]
    (part,) = frame["parts"]
    (expected,) = attended.parts
    shape = part["layers"], part["heads"], len(part["queries"]), len(part["keys"])
    assert shape == expected.weights.shape
    assert np.abs(unpacked(part["weights"], shape) - expected.weights).max() < 0.004
    assert frame["tokens"] == part["queries"] == list(attended.tokens)
    assert np.allclose(part["entropy"], expected.entropy, rtol=1e-3)
    assert np.allclose(frame["attribution"]["scores"], attended.attribution.scores, rtol=1e-3)
    assert "".join(frame["tokens"][:8]).startswith("the·</")


def test_small_weights_keep_their_digits_and_any_page_is_small():
    rng = np.random.default_rng(0)
    weights = np.exp(rng.normal(0, 2, (12, 12, 128, 128)).astype(np.float32))  # no order that could be compressed
    weights /= weights.sum(-1, keepdims=True)
    text = packed(weights)
    assert len(text) < 2_900_000
    found = unpacked(text, weights.shape)
    small = (weights > 0.001) & (weights < 0.01)
    assert (np.abs(found - weights)[small] / weights[small]).mean() < 0.05


def test_a_text_cannot_end_the_script_that_holds_it(attended):
    tokens = ("</script><b>", "<!--", "&amp;")
    text = page([[replace(attended, tokens=tokens)]])
    assert data_of(text)["models"][0]["frames"][0]["tokens"] == list(tokens)
    assert Parsed(text).scripts.keys() == {"data", ""}


def test_two_models_and_several_checkpoints(attended):
    frames = [replace(attended, step=step) for step in (10, 2000)]
    data = data_of(page([frames, [attended]]))
    assert [[frame["label"] for frame in model["frames"]] for model in data["models"]] == [
        ["step 10", "step 2,000"], ["final weights"],
    ]  # fmt: skip


def test_two_folders_of_one_name_are_told_apart(attended):
    pair = [[replace(attended, model=folder)] for folder in ("runs/one/model", "runs/two/model")]
    assert [model["name"] for model in data_of(page(pair))["models"]] == ["one/model", "two/model"]
    assert [model["name"] for model in data_of(page(pair[:1] * 2))["models"]] == ["model", "model"]
    assert "<title>Attention of one/model and two/model</title>" in page(pair)


def test_streams_memory_and_replaced_tokens_are_named():
    xl = data_of(page([[tiny_model("transformer-xl-tiny", memory=20).attend("the cat.", "a bird.")]]))
    assert xl["models"][0]["frames"][0]["parts"][0]["memory"] > 0
    xlnet = data_of(page([[tiny_model("xlnet-mini").attend("the cat.")]]))
    assert [part["title"] for part in xlnet["models"][0]["frames"][0]["parts"]] == [
        "content stream (all tokens visible)", "query stream (left to right)",
    ]  # fmt: skip


def test_the_page_speaks_chinese(attended, monkeypatch):
    monkeypatch.setenv("PLM_LANG", "zh")
    text = page([[attended]])
    assert '<html lang="zh-CN">' in text and "注意力本身不是解释" in text
    assert data_of(text)["words"]["head"] == "第 {layer} 层，第 {head} 头"


def test_every_word_that_the_script_uses_is_given(attended):
    text = page([[attended]])
    used = set(re.findall(r"words\.(\w+)", Parsed(text).scripts[""])) | {"from", "to", "lines", "matrix"}
    assert used == data_of(text)["words"].keys()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed to open the page with")
def test_a_browser_draws_the_page_without_asking_the_network(attended, tmp_path):
    probe = (
        "<script>setTimeout(() => { const cells = document.querySelectorAll('.cell');"
        "cells[3].click(); document.querySelectorAll('ol.from li')[2].dispatchEvent(new MouseEvent('mouseenter'));"
        "document.body.dataset.seen = document.querySelector('.tokens h3').textContent + '|'"
        "+ document.querySelector('.status').textContent + '|' + cells.length;"
        "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowUp', bubbles: true}));"
        "document.body.dataset.seen += '|' + document.querySelector('.tokens h3').textContent; }, 500)</script></body>"
    )
    drawn, asked_for = opened(page([[attended]]).replace("</body>", probe), tmp_path / "page")
    assert 'data-ready="true"' in drawn, drawn[-500:]
    title, status, cells, after_arrow = unescape(re.search(r'data-seen="([^"]*)"', drawn)[1]).split("|")
    assert (title, cells, after_arrow) == ("Layer 2, head 2", "4", "Layer 1, head 2")
    assert status.startswith(f"“{attended.tokens[2]}” attends to “")
    body = drawn.split('<script type="application/json"')[0]
    assert all(character in body for character in "我的狗😀")
    assert asked_for == []
    _, asked_for = opened('<img src="http://127.0.0.1:9/x.png">', tmp_path / "control")
    assert asked_for == ["http://127.0.0.1:9/x.png"]  # it would have been seen


def opened(text: str, folder: Path) -> tuple[str, list[str]]:
    """The document after its scripts ran, and what it asked the network for, by Chromium's own log."""
    folder.mkdir()
    file, log = folder / "page.html", folder / "net.json"
    file.write_text(text, encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--dump-dom",
        f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", "--virtual-time-budget=3000", file.as_uri(),
    ]  # fmt: skip
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    by_page = [line for line in lines if '"initiator":"null"' in line]  # what the browser itself asks for has none
    return drawn, sorted({url for line in by_page for url in re.findall(r'"url":"(https?://[^"]+)"', line)})
