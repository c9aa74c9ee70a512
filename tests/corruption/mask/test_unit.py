from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from masking_rows import PIECES, Forced, characters, many, rows_of, words_in

from plmkit.corruption.mask.unit import UnitMasking
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import SettingError

WORD, PHRASE, ENTITY, IN_ENTITY, IN_PHRASE = 1, 2, 4, 8, 16
NAME, NAMED = 31, 24  # the first token of an entity that is a word and a phrase; the others of it


def only(level: str, **settings) -> UnitMasking:
    return UnitMasking(levels=(level,), shares=(1.0,), **settings)


def seen(step, rows, vocabulary, epochs: int = 300) -> set[str]:
    """Everything that is masked at once, over many epochs."""
    found = set()
    for epoch in range(epochs):
        targets = step(rows, vocabulary, Draws(0, epoch, np.arange(1))).targets[0]
        found.add("".join(vocabulary.names(targets[targets != IGNORE])))
    return found


# each is one entity and one phrase; the words are those of a dictionary
COLLOCATIONS = {
    "乒乓球": [NAME, NAMED, NAMED],
    "清明上河图": [NAME, NAMED, NAMED | WORD, NAMED, NAMED],
    "五颜六色": [NAME, NAMED, NAMED, NAMED],
}


@pytest.mark.parametrize("text", COLLOCATIONS)
def test_a_character_is_masked_alone_and_an_entity_as_a_whole(text):
    rows, vocabulary = characters(text, COLLOCATIONS[text])
    first = [0.9, 0.9, 0.1, *[0.9] * (len(text) - 1)]  # the second character is drawn
    out = only("character")(rows, vocabulary, Forced(first, 0.0, 0.0, 0.0))
    assert "".join(vocabulary.names(out.tokens[0])) == f"[CLS]{text[0]}[MASK]{text[2:]}[SEP]"
    first = [0.9, 0.1, *[0.9] * len(text)]  # the entity is drawn at its first character
    out = only("entity")(rows, vocabulary, Forced(first, 0.0, 0.0, 0.0))
    assert "".join(vocabulary.names(out.tokens[0])) == "[CLS]" + "[MASK]" * len(text) + "[SEP]"
    assert "".join(vocabulary.names(out.targets[0, 1:-1])) == text


HARBIN = "哈尔滨是黑龙江的省会"
MARKS = [NAME, NAMED, NAMED, WORD, NAME, NAMED, NAMED, WORD, WORD | PHRASE | IN_PHRASE, WORD | IN_PHRASE]
UNITS = {
    "character": list(HARBIN),
    "word": ["哈尔滨", "是", "黑龙江", "的", "省", "会"],
    "phrase": ["哈尔滨", "是", "黑龙江", "的", "省会"],
    "entity": ["哈尔滨", "是", "黑龙江", "的", "省", "会"],
}


@pytest.mark.parametrize("level", UNITS)
def test_units_are_masked_whole_at_every_level(level):
    rows, vocabulary = characters(HARBIN, MARKS)
    found = seen(only(level, rate=0.02), rows, vocabulary)  # one unit in most rows
    assert set(UNITS[level]) <= found
    assert all(two in {a + b for a in UNITS[level] for b in UNITS[level]} for two in found - set(UNITS[level]))


def test_english_phrases_are_masked_whole():
    text = "harry potter is a series of fantasy novels written by british author"
    first, other = WORD | PHRASE | IN_PHRASE, WORD | IN_PHRASE  # words of a phrase
    marks = [NAME, NAMED | WORD, WORD, first, other, other, first, other, WORD, WORD, first, other]
    vocabulary = Vocabulary.from_tokens((*SPECIAL_TOKENS, *text.split()))
    rows = rows_of(f"[CLS] {text} [SEP]", vocabulary=vocabulary, units=[[0, *marks, 0]])
    found = seen(only("phrase", rate=0.001), rows, vocabulary, epochs=200)
    assert found == {"harrypotter", "is", "aseriesof", "fantasynovels", "written", "by", "britishauthor"}


def test_every_unit_is_drawn_for_itself():
    rows = many(20_000, 64, pieces=0.3)
    hidden = only("word")(rows, PIECES, Draws(0, 0, np.arange(20_000))).targets != IGNORE
    taken = [mask[words[0]] for row, mask in zip(rows.tokens[:4000], hidden, strict=False)
             for words in words_in(row, PIECES)]  # fmt: skip
    assert np.mean(taken) == pytest.approx(0.15, abs=0.005)
    counts = hidden.sum(axis=1)
    assert counts.var() > 5  # no budget: some rows mask few, some many
    assert counts.max() > 20


def test_each_token_of_a_unit_draws_its_own_treatment():
    rows, vocabulary = characters("乒乓球", COLLOCATIONS["乒乓球"])
    treatment = [0.0, 0.5, 0.85, 0.95, 0.0]
    other = (vocabulary.tokens.index("球") - 1 + 0.5) / (len(vocabulary) - 1)
    out = only("entity")(rows, vocabulary, Forced(0.1, 0.0, treatment, other))
    assert vocabulary.names(out.tokens[0, 1:-1]) == ["[MASK]", "球", "球"]


@pytest.mark.parametrize(
    ("shares", "masked"),
    [((1, 0, 0), set(HARBIN)), ((0, 1, 0), set(UNITS["phrase"])), ((0, 0, 1), set(UNITS["entity"]))],
)
def test_shares_choose_characters_or_phrases_or_entities(shares, masked):
    rows, vocabulary = characters(HARBIN, MARKS)
    assert seen(UnitMasking(rate=0.001, shares=shares), rows, vocabulary) == masked


@pytest.mark.parametrize(
    ("levels", "shares", "largest"),
    [
        (("character", "phrase", "entity"), (0, 0.5, 0.5), "entity"),
        (("character", "phrase", "entity"), (0.5, 0.5, 0), "phrase"),
        (("character", "word"), (0.5, 0.5), "word"),
        (("character",), (1,), "word"),  # every store knows words
    ],
)
def test_the_level_is_that_of_the_largest_units_in_use(levels, shares, largest):
    assert UnitMasking(levels=levels, shares=shares).level == largest


def test_a_mixture_masks_each_share_of_the_rows_at_its_level():
    step = UnitMasking(levels=("character", "word"), shares=(0.25, 0.75), rate=0.01)
    rows = rows_of(*["[CLS] w1 ##p1 ##p2 [SEP]"] * 8000, vocabulary=PIECES)
    hidden = step(rows, PIECES, Draws(0, 0, np.arange(8000))).targets != IGNORE
    counts = Counter(hidden.sum(axis=1).tolist())
    assert counts[3] / 8000 == pytest.approx(0.75, abs=0.02)
    assert counts[1] / 8000 == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"levels": ("sentence",)}, r"corruption\.levels: unknown level 'sentence'; choose from character, word"),
        ({"shares": ()}, r"corruption\.shares needs one share for each of character, phrase, entity"),
        ({"shares": (0.5, 0.5)}, r"corruption\.shares needs one share for each of character, phrase, entity"),
        ({"shares": (0.5, 0.4, 0.0)}, r"adding up to 1; found \[0\.5, 0\.4, 0\.0\]"),
        ({"shares": (1.5, -0.5, 0.0)}, r"at least 0 and adding up to 1"),
    ],
)
def test_levels_and_shares_that_cannot_be_are_refused(settings, said):
    with pytest.raises(SettingError, match=said):
        replace(UnitMasking(), **settings)
