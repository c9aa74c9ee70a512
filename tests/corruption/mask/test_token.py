import numpy as np
import pytest

from plmkit.corruption.mask.token import TokenMasking
from plmkit.data.batch import IGNORE
from plmkit.data.randomness import Draws
from plmkit.data.rows import Rows
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import SettingError

WORDS = Vocabulary.from_tokens((*SPECIAL_TOKENS, "my", "dog", "is", "hairy", "apple", "the", "cat", "sat", "down"))


def rows_of(*texts: str, vocabulary: Vocabulary = WORDS) -> Rows:
    numbers = [[vocabulary.tokens.index(word) for word in text.split()] for text in texts]
    longest = max(map(len, numbers))
    tokens = np.array([line + [vocabulary.pad] * (longest - len(line)) for line in numbers])
    return Rows(tokens=tokens, segments=np.zeros_like(tokens), visible=tokens != vocabulary.pad)


def many(rows: int, length: int, size: int = 1000) -> tuple[Rows, Vocabulary]:
    vocabulary = Vocabulary.from_tokens((*SPECIAL_TOKENS, *(f"w{number}" for number in range(size - 5))))
    tokens = np.random.default_rng(0).integers(5, size, (rows, length))
    tokens[:, 0], tokens[:, -1] = vocabulary.cls, vocabulary.sep
    visible = np.ones_like(tokens, dtype=bool)
    return Rows(tokens=tokens, segments=np.zeros_like(tokens), visible=visible), vocabulary


class Forced:
    """Draws that a test writes down."""

    def __init__(self, *draws: list[float]) -> None:
        self.draws = iter(draws)

    def uniform(self, count: int) -> np.ndarray:
        return np.array([next(self.draws)])


@pytest.mark.parametrize(
    ("treatment", "shown"), [(0.5, "[MASK]"), (0.85, "apple"), (0.95, "hairy")], ids=["mask", "swap", "keep"]
)
def test_hairy_becomes_the_mask_an_apple_or_stays(treatment, shown):
    rows = rows_of("[CLS] my dog is hairy [SEP]")
    choose_hairy = [0, 0.9, 0.9, 0.9, 0.1, 0]
    apple = [(WORDS.tokens.index("apple") + 0.5) / len(WORDS)] * 6
    out = TokenMasking()(rows, WORDS, Forced(choose_hairy, [treatment] * 6, apple))
    assert WORDS.names(out.tokens[0]) == ["[CLS]", "my", "dog", "is", shown, "[SEP]"]
    assert out.targets[0].tolist() == [IGNORE] * 4 + [WORDS.tokens.index("hairy"), IGNORE]


def test_the_number_masked_follows_the_released_code():
    lengths = np.array([3, 8, 64, 128, 512])
    assert TokenMasking().count(lengths).tolist() == [1, 1, 10, 19, 77]
    assert TokenMasking(max_masked=20).count(lengths).tolist() == [1, 1, 10, 19, 20]


def test_every_row_masks_at_least_one_token_and_never_a_special_one():
    rows = rows_of("[CLS] my [SEP]", "[CLS] the cat sat down [SEP]", "[CLS] dog [SEP] cat [SEP]")
    out = TokenMasking(rate=0.3)(rows, WORDS, Draws(1, 0, np.arange(3)))
    hidden = out.targets != IGNORE
    assert hidden.any(axis=1).all()
    assert not np.isin(rows.tokens[hidden], (WORDS.cls, WORDS.sep, WORDS.pad)).any()
    assert (out.tokens[~hidden] == rows.tokens[~hidden]).all()


def test_unknown_words_can_be_masked_as_in_the_released_code():
    rows = rows_of("[CLS] [UNK] [SEP]")
    assert TokenMasking()(rows, WORDS, Draws(0, 0, np.arange(1))).targets[0, 1] == WORDS.unknown


def test_fifteen_percent_are_masked_and_treated_80_10_10():
    rows, vocabulary = many(rows=12_000, length=128)
    out = TokenMasking()(rows, vocabulary, Draws(7, 3, np.arange(12_000)))
    hidden = out.targets != IGNORE
    assert hidden.sum() > 200_000
    assert hidden.mean() == pytest.approx(0.15, abs=0.005)
    shown, true = out.tokens[hidden], out.targets[hidden]
    masked, same = (shown == vocabulary.mask).mean(), (shown == true).mean()
    assert masked == pytest.approx(0.80, abs=0.01)
    assert same == pytest.approx(0.10, abs=0.01)
    assert 1 - masked - same == pytest.approx(0.10, abs=0.01)


def test_every_position_is_masked_equally_often():
    rows, vocabulary = many(rows=20_000, length=34)
    hidden = TokenMasking()(rows, vocabulary, Draws(0, 0, np.arange(20_000))).targets != IGNORE
    share = hidden[:, 1:-1].mean(axis=0)
    assert share.min() > 5 / 32 - 0.012
    assert share.max() < 5 / 32 + 0.012
    assert not hidden[:, [0, -1]].any()


def test_the_mask_of_a_row_does_not_depend_on_other_rows():
    rows, vocabulary = many(rows=8, length=40)
    all_of_them = TokenMasking()(rows, vocabulary, Draws(5, 2, np.arange(8)))
    alone = Rows(tokens=rows.tokens[3:4], segments=rows.segments[3:4], visible=rows.visible[3:4])
    one = TokenMasking()(alone, vocabulary, Draws(5, 2, np.array([3])))
    assert (one.tokens[0] == all_of_them.tokens[3]).all()


@pytest.mark.parametrize("settings", [{"rate": 0.0}, {"rate": 1.0}, {"mask_share": 0.9, "random_share": 0.2}])
def test_shares_that_cannot_be_are_refused(settings):
    with pytest.raises(SettingError):
        TokenMasking(**settings)
