"""Units of characters said of tokens, whatever the tokenizer does to the text."""

import numpy as np
import pytest
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import models, pre_tokenizers

from plmkit.data.rows import Rows
from plmkit.data.vocabulary import SPECIAL_TOKENS, Vocabulary
from plmkit.errors import SettingError
from plmkit.segmentation.chinese import Jieba
from plmkit.segmentation.starts import word_starts
from plmkit.segmentation.units import ENTITY, IN_ENTITY, IN_PHRASE, PHRASE, WORD, Spans, token_units
from plmkit.tokenizers.tokenizer import Tokenizer, bert_tokenizer

CHARACTERS = sorted(set("使用语言模型来预测下一个词的乒乓球清明上河图五颜六色年降价好了和毛泽东在看，。《》·"))
WORDS = "prob ##ability gpu ##s 2018 3 . 14 % cafe istanbul naive the cat ##ch ##es a b ##c # , [ mask ]".split()
TOKENIZER = bert_tokenizer([*SPECIAL_TOKENS, *CHARACTERS, *WORDS], lowercase=True)
VOCABULARY = TOKENIZER.vocabulary


def cut(text: str, settings: Jieba = Jieba(), tokenizer: Tokenizer = TOKENIZER, bit: int = WORD) -> list[str]:
    """The tokens with a bar before each that begins a word."""
    texts = [text]
    tokens, lengths = tokenizer.encode_many(texts)
    units = token_units(settings.build().spans(texts), texts, tokenizer.offsets_many(texts), lengths)
    names = tokenizer.vocabulary.names(tokens)
    return " ".join(f"|{name}" if unit & bit else name for name, unit in zip(names, units, strict=True))


def test_units_are_words_while_tokens_remain_characters():
    assert cut("使用语言模型来预测下一个词的probability。") == (
        "|使 用 |语 言 |模 型 |来 |预 测 |下 |一 个 |词 |的 |prob ##ability |。"
    )


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("乒乓球 清明上河图 五颜六色", "|乒 乓 球 |清 明 上 河 图 |五 颜 六 色"),
        ("2018年GPUs降价3.14%", "|2018 |年 |gpu ##s |降 价 |3 . 14 %"),
        ("好😀了", "|好 |[UNK] |了"),  # the emoji is in no vocabulary
        ("语言龘模型", "|语 言 |[UNK] |模 型"),  # nor is this character
        ("𠀀的CAFÉ，Cafe\u0301的", "|[UNK] |的 |cafe |， |cafe |的"),  # case and accents change the length
        ("İstanbul语言İstanbul模型", "|istanbul |语 言 |istanbul |模 型"),
        ("naïve\u200b语言\u0007模型", "|naive |语 言 |模 型"),  # a zero-width space and a bell are cleaned away
        ("the  catches，\u3000语言", "|the |cat ##ch ##es |， |语 言"),
        ("[MASK]的", "|[ |mask |] |的"),  # written out in a corpus, it is text
        ("xyzzy语言 GPU😀", "|[UNK] |语 言 |[UNK]"),  # one unknown token may hold two units
        ("语言\ud800模型", "|语 言 |模 型"),  # half a character, as JSON can hold, leaves no token
    ],
)
def test_text_whose_length_changes_on_the_way(text, tokens):
    assert cut(text) == tokens


def test_letters_that_become_others_of_another_length():
    assert cut("ＡＢＣ的") == "|[UNK] |的"
    assert cut("语言ﬁ模型") == "|语 言 |[UNK] |模 型"


def test_entities_have_a_beginning_and_an_inside():
    text = "毛泽东和在看《清明上河图》。"
    settings = Jieba(level="entity")
    assert cut(text, settings, bit=ENTITY) == "|毛 泽 东 和 在 看 《 |清 明 上 河 图 》 。"
    assert cut(text, settings, bit=IN_ENTITY) == "|毛 |泽 |东 和 在 看 《 |清 |明 |上 |河 |图 》 。"
    assert cut("使用语言模型。", settings, bit=PHRASE) == "使 用 |语 言 模 型 。"
    assert cut("使用语言模型。", settings, bit=IN_PHRASE) == "使 用 |语 |言 |模 |型 。"


def other_tokenizer(model: str) -> Tokenizer:
    """Rules that BERT's shortcuts do not know: one that keeps spaces, one whose tokens reach across words."""
    pieces = {"spaces": ["▁the", "▁cat", "语", "言", "▁", "模", "型"], "across": ["语", "言模", "型", "使用", "的"]}[
        model
    ]
    tokens = {name: number for number, name in enumerate([*SPECIAL_TOKENS, *pieces])}
    rust = RustTokenizer(models.WordPiece(tokens, unk_token="[UNK]", continuing_subword_prefix=""))
    rust.pre_tokenizer = pre_tokenizers.Metaspace() if model == "spaces" else pre_tokenizers.Whitespace()
    return Tokenizer(rust)


def test_a_token_may_start_with_the_space_before_its_word():
    assert cut("the cat 语言模型", tokenizer=other_tokenizer("spaces")) == "|▁the |▁cat |▁ 语 言 |模 型"


def test_a_token_that_lies_in_two_words_makes_them_one():
    assert cut("使用语言模型的", tokenizer=other_tokenizer("across")) == "|使用 |语 言模 型 |的"


def test_no_word_or_entity_continues_into_the_next_text():
    texts = ["a b", "", "b", "a"]
    spans = Spans(words=np.array([[0, 3], [5, 8]]), entities=np.array([[2, 3], [5, 8]]))
    _, lengths = TOKENIZER.encode_many(texts)
    units = token_units(spans, texts, TOKENIZER.offsets_many(texts), lengths)
    whole = ENTITY | IN_ENTITY
    assert units.tolist() == [WORD, whole, WORD | whole, WORD | whole]


def test_offsets_are_those_of_the_tokens_in_their_own_text():
    texts = ["catches GPUs", "", "语İstanbul"]
    _, lengths = TOKENIZER.encode_many(texts)
    assert lengths.tolist() == [5, 0, 2]
    offsets = [(0, 3), (3, 5), (5, 7), (8, 11), (11, 12), (0, 1), (1, 9)]
    assert list(map(tuple, TOKENIZER.offsets_many(texts).tolist())) == offsets
    assert [pair for text in texts for pair in TOKENIZER.offsets(text)] == offsets


# Rows


def rows_of(text: str, units: list[int] | None = None) -> Rows:
    tokens = np.array([[VOCABULARY.tokens.index(name) for name in text.split()]])
    return Rows(
        tokens=tokens,
        segments=np.zeros_like(tokens),
        visible=tokens != VOCABULARY.pad,
        units=None if units is None else np.array([units], dtype=np.uint8),
    )


def starts_of(rows: Rows, level: str = "word") -> list[int]:
    return word_starts(rows, VOCABULARY, level)[0].astype(int).tolist()


def test_without_units_a_word_starts_where_no_piece_continues_one():
    assert starts_of(rows_of("[CLS] the cat ##ch ##es [UNK] 语 言 [SEP] [PAD]")) == [1, 1, 1, 0, 0, 1, 1, 1, 1, 1]


def test_no_unit_runs_across_special_tokens():
    assert starts_of(rows_of("[CLS] ##es the [SEP] ##ch ##es [SEP] [PAD]")) == [1, 1, 1, 1, 1, 0, 1, 1]
    cut_off = rows_of("[CLS] 言 模 型 [SEP] 用 语 言 [SEP] [PAD]", [0, 0, 1, 0, 0, 0, 1, 0, 0, 0])
    assert starts_of(cut_off) == [1, 1, 1, 0, 1, 1, 1, 0, 1, 1]
    assert starts_of(rows_of("##es the", [0, 1])) == [1, 1]


def test_an_unknown_character_may_lie_inside_a_unit():
    assert starts_of(rows_of("[CLS] 语 [UNK] 模 [SEP]", [0, 1, 0, 1, 0])) == [1, 1, 0, 1, 1]


def test_above_words_a_unit_is_what_there_is_and_a_word_elsewhere():
    e, p = IN_ENTITY, IN_PHRASE
    #       [CLS] 使 用 语 言 模 型 的 词 [SEP]; 语言模型 is a phrase of two words, 型的 an entity across words
    units = [0, 1, 0, 1 | PHRASE | p, p, 1 | p, p | ENTITY | e, 1 | e, 0, 0]
    rows = rows_of("[CLS] 使 用 语 言 模 型 的 词 [SEP]", units)
    assert starts_of(rows) == [1, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    assert starts_of(rows, "phrase") == [1, 1, 0, 1, 0, 0, 0, 1, 0, 1]
    assert starts_of(rows, "entity") == [1, 1, 0, 1, 0, 1, 1, 0, 1, 1]


def test_the_boundary_row_of_ernie_can_be_read_off():
    rows = rows_of("[CLS] 使 用 语 言 模 型 [SEP] [PAD]", [0, 1, 0, 1, 0, 1, 0, 0, 0])
    special = ~VOCABULARY.is_ordinary(rows.tokens)
    row = np.where(special, -1, ~word_starts(rows, VOCABULARY))
    assert row[0].tolist() == [-1, 0, 1, 0, 1, 0, 1, -1, -1]
    assert TOKENIZER.decode(rows.tokens[0, 1:7]) == "使用语言模型"


def test_a_level_without_a_segmenter_is_refused():
    with pytest.raises(SettingError, match="level entity needs a segmenter, and none is set"):
        word_starts(rows_of("[CLS] the [SEP]"), VOCABULARY, "entity")
    with pytest.raises(SettingError, match="one of word, phrase, entity; found 'sentence'"):
        word_starts(rows_of("[CLS] the [SEP]"), VOCABULARY, "sentence")


def test_the_vocabulary_alone_decides_for_english():
    plain = Vocabulary.from_tokens([*SPECIAL_TOKENS, "the", "##m", "##"])
    rows = Rows(tokens=np.array([[2, 5, 6, 7, 3]]), segments=np.zeros((1, 5)), visible=np.ones((1, 5), dtype=bool))
    assert word_starts(rows, plain)[0].tolist() == [True, True, False, True, True]
