"""The sentences of a report's page in both languages."""

import pytest

from plmkit.insight.report_page import words


@pytest.mark.parametrize(
    ("language", "ends"),
    [("en", (". Intervals by", "row. Click", "bins). On")), ("zh", ("。区间", "。点击", "）。在"))],
)
def test_sentences_follow_each_other_as_in_their_language(language, ends, monkeypatch):
    monkeypatch.setenv("PLM_LANG", language)
    found = words()
    for name, end in zip(("counts", "choose", "ece"), ends, strict=True):
        assert end in found[name]
