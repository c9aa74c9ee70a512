"""The table of losses on the held-out text of each corpus, after a pretraining."""

import pytest
from rich.console import Console

from plmkit.cli import show
from plmkit.terminal.labels import loss_label

TEXT = {"knowledge.masked_lm": 6.944, "document.token_document_relation": 0.674, "order.sentence_reordering": 1.676}
CORPORA = {"my_texts": TEXT, "clicks.tsv": {"relevance.search_relevance": 1.101}}


@pytest.mark.parametrize(("width", "rows"), [(140, ["my_texts", "clicks.tsv"]), (80, [*TEXT, *CORPORA["clicks.tsv"]])])
def test_a_table_that_is_too_wide_for_the_screen_has_a_row_per_loss(width, rows, monkeypatch, capsys):
    monkeypatch.setattr(show, "console", Console(width=width, highlight=False, soft_wrap=True))
    show.console.print(show.corpora_table(CORPORA))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0].strip() for line in lines[1:]] == [
        name if name in CORPORA else loss_label(name) for name in rows
    ]
    assert all(len(line.rstrip()) <= width for line in lines)
    assert "…" not in "".join(lines)
    assert "6.944" in lines[1]


def test_the_stream_of_a_loss_keeps_its_name_and_the_loss_is_in_the_readers_words(monkeypatch):
    assert loss_label("masked_lm") == "masked lm"
    assert loss_label("order/sentence_reordering") == "order/sentence reordering"
    monkeypatch.setenv("PLM_LANG", "zh")
    assert loss_label("knowledge.masked_lm") == "knowledge/掩码语言模型"
