"""Labels of tokens from the text that a tokenizer has forgotten: capital letters, and what else a document has."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from stores import all_documents, store_of

from plmkit.corruption.arrange.packing import SingleSegment
from plmkit.corruption.arrange.pairs import OrderedPairs
from plmkit.corruption.arrange.stream import Stream
from plmkit.corruption.contract import Counts
from plmkit.corruption.mask.labelling import Capitals, TokenDocument
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.data import shards
from plmkit.data.batch import IGNORE, Batch, Side, States
from plmkit.data.corpus import open_corpus
from plmkit.data.details import find_repeats
from plmkit.data.samples import Samples
from plmkit.data.shards import TokenStore, open_store, store_key
from plmkit.data.vocabulary import SPECIAL_TOKENS
from plmkit.errors import RecipeError, SettingError
from plmkit.fit import check_steps
from plmkit.objectives.token_classes import TokenClassHead
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.tokenizer import bert_tokenizer

WORDS = "apple is in paris nato 2020 , . ! the iphone ##s cat run ##ning 我 的 狗 。 é l a b c d e f".split()
TOKENIZER = bert_tokenizer([*SPECIAL_TOKENS, *WORDS], lowercase=True)
ALL = {"capitals", "repeats", "connectives"}


def stored(folder: Path, text: str, tokenizer=TOKENIZER, name: str = "cache", details=ALL) -> TokenStore:
    path = folder / "text.txt"
    path.write_text(text, encoding="utf-8")
    return open_store([open_corpus([path], layout="blank-lines")], tokenizer, folder / name, details=details)


def labels_of(store: TokenStore, *steps, field: str = "capitals", length: int = 32, tokenizer=TOKENIZER):
    """The words of the first row and their labels, `-` where there is none."""
    rows = Samples(store, np.array([0]), (SingleSegment(), *steps), tokenizer.vocabulary, seed=0).rows(0, 0, 1, length)
    labels = getattr(rows, field)[0][rows.visible[0]]
    return rows, " ".join("-" if label == IGNORE else str(label) for label in labels.tolist())


def test_apple_is_in_paris(tmp_path):
    rows, labels = labels_of(stored(tmp_path, "Apple is in Paris\n"), Capitals())
    assert " ".join(TOKENIZER.vocabulary.names(rows.tokens[0][rows.visible[0]])) == "[CLS] apple is in paris [SEP]"
    assert labels == "- 1 0 0 1 -"


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("NATO, 2020. The iPhones!\n", "- 1 - - - 1 1 0 - -"),  # of each token; numbers and punctuation have no case
        ("the Cat RUNning\n", "- 0 1 1 0 -"),  # run ##ning
        ("The xyz Xyz\n", "- 1 - 1 -"),  # an unknown word: a capital letter is all that is known of it
        ("我的狗。\n", "- - - - - -"),
        ("É é l\n", "- 1 0 0 -"),  # the tokenizer strips accents
    ],
)
def test_every_token_of_letters_has_the_case_it_is_written_in(text, labels, tmp_path):
    assert labels_of(stored(tmp_path, text), Capitals())[1] == labels


def test_masked_tokens_keep_their_label(tmp_path):
    masking = UnitMasking(rate=0.9, levels=("word",), shares=(1.0,), mask_share=1.0, random_share=0.0)
    store = stored(tmp_path, "Apple is in Paris\n")
    for steps in ((Capitals(), masking), (masking, Capitals())):
        rows, labels = labels_of(store, *steps)
        assert (rows.tokens == TOKENIZER.vocabulary.mask).any()
        assert labels == "- 1 0 0 1 -"


def test_a_tokenizer_of_bytes_knows_letters_from_marks(tmp_path):
    text = "Apple is in Paris\n"
    made = ByteBPE(size=270).train([text])
    rows, labels = labels_of(stored(tmp_path, text, made), Capitals(), tokenizer=made)
    capitals = [made.decode([token]) for token, label in zip(rows.tokens[0], rows.capitals[0], strict=True)
                if label == 1]  # fmt: skip
    assert "".join(capitals).replace(" ", "")[0] == "A" and "P" in "".join(capitals)
    assert labels.count("1") == 2


def test_a_text_without_capital_letters_lacks_the_task(tmp_path):
    assert Capitals().lacks(stored(tmp_path, "我的狗。\n"), np.array([0]), 32) is not None
    assert Capitals().lacks(stored(tmp_path, "我的 Cat。\n", name="other"), np.array([0]), 32) is None


def test_blocks_of_any_size_have_the_same_details(tmp_path, monkeypatch):
    text = "Apple is in Paris. The cat!\n\n我的狗。\n\nNATO is the Cat.\n" * 3
    whole = stored(tmp_path, text)
    monkeypatch.setattr(shards, "BLOCK_CHARACTERS", 3)
    parts = stored(tmp_path, text, name="parts")
    assert len(whole.capitals) == -(-len(whole.tokens) // 8)
    for name in ("capitals", "repeats", "connectives"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name
    spelled = [whole.uppercase(begin, end).tolist() for begin, end in ((0, 4), (3, 9), (5, 5), (8, len(whole.tokens)))]
    flat = whole.uppercase(0, len(whole.tokens)).tolist()
    assert spelled == [flat[0:4], flat[3:9], [], flat[8:]]


def test_details_are_stored_only_where_they_are_needed_and_change_the_key(tmp_path):
    corpora = [open_corpus([(tmp_path / "text.txt").as_posix()])] if stored(tmp_path, "Apple.\n") else []
    keys = {store_key(corpora, TOKENIZER, None, details) for details in ((), {"capitals"}, {"repeats"}, ALL)}
    assert len(keys) == 4
    plain = stored(tmp_path, "Apple is in Paris\n", details=())
    assert (plain.capitals, plain.repeats, plain.connectives, plain.relevance) == (None, None, None, None)
    assert sorted(path.name for path in (tmp_path / "cache" / "tokens" / store_key(
        [open_corpus([tmp_path / "text.txt"], layout="blank-lines")], TOKENIZER)).iterdir()) == [
        "documents.npy", "lines.npy", "plmkit-manifest.json", "sentences.npy", "sources.npy", "store.json",
        "tokens.bin",
    ]  # fmt: skip


# The same token in another segment of its document


def test_a_token_is_elsewhere_if_its_document_has_it_outside_the_row(tmp_path):
    store = stored(tmp_path, "a b c a d e f a b\n\nd e f\n")
    assert labels_of(store, TokenDocument(), field="elsewhere", length=5)[1].startswith("- ")
    found = {}
    samples = Samples(store, all_documents(store), (SingleSegment(), TokenDocument()), TOKENIZER.vocabulary, seed=0)
    rows = samples.rows(0, 0, 10, 5)  # rows of three tokens: abc, ade, fab; and def, which is all of its document
    for tokens, labels in zip(rows.tokens, rows.elsewhere, strict=True):
        names = "".join(TOKENIZER.vocabulary.names(tokens[1:4]))
        found[names] = ["-" if label == IGNORE else label for label in labels[:5].tolist()]
    assert found == {
        "abc": ["-", 1, 1, 0, "-"],
        "ade": ["-", 1, 0, 0, "-"],
        "fab": ["-", 0, 1, 1, "-"],
        "def": ["-", "-", "-", "-", "-"],  # its document has no other segment
    }


def test_documents_that_fit_into_a_row_lack_the_task(tmp_path):
    store = stored(tmp_path, "a b c a d e f a b\n\nd e f\n")
    assert TokenDocument().lacks(store, np.array([0, 1]), 9) is None
    assert (
        TokenDocument().lacks(store, np.array([0, 1]), 10).startswith("no document is longer than a row of 10 tokens")
    )
    assert TokenDocument().lacks(store, np.array([1]), 9) is not None


def test_labels_of_random_documents_equal_a_search_by_hand():
    rng = np.random.default_rng(0)
    store = store_of(*(rng.integers(1, 9, rng.integers(1, 9)).tolist() for _ in range(200)))
    store = replace(store, tokens=rng.integers(5, 40, len(store.tokens)))
    store = replace(store, repeats=find_repeats(store.tokens, store.document_tokens()))
    for document in range(200):
        first, last = store.stretch(document)
        begin, end = sorted(rng.integers(first, last + 1, 2).tolist())
        if begin == end:
            continue
        outside = {*store.tokens[first:begin].tolist(), *store.tokens[end:last].tolist()}
        whole = (begin, end) == (first, last)
        wanted = [-1 if whole else int(token in outside) for token in store.tokens[begin:end].tolist()]
        assert store.recurs(begin, end).tolist() == wanted


def test_two_texts_of_a_row_are_two_segments():
    store = replace(store_of([3, 3]), tokens=np.array([7, 8, 9, 9, 8, 6]))
    store = replace(store, repeats=find_repeats(store.tokens, store.document_tokens()))
    samples = Samples(store, np.array([0]), (OrderedPairs(short=0.0), TokenDocument()), TOKENIZER.vocabulary, seed=0)
    rows = samples.rows(0, 0, 1, 32)
    by_token = dict(zip(rows.tokens[0].tolist(), rows.elsewhere[0].tolist(), strict=True))
    assert [by_token[token] for token in (7, 8, 9, 6)] == [0, 1, 1, 0]


def test_tokens_that_are_frequent_in_the_corpus_have_no_label(tmp_path):
    store = stored(tmp_path, "a b c a d e f a b\n")
    counts = np.bincount(store.tokens, minlength=len(TOKENIZER.vocabulary))
    step = TokenDocument(frequent=0.3).prepared(Counts(frequencies=counts))  # 3 of 9 are a
    rows, labels = labels_of(store, step, field="elsewhere", length=5)
    names = TOKENIZER.vocabulary.names(rows.tokens[0][rows.visible[0]])
    unlabelled = {name for name, label in zip(names, labels.split(), strict=True) if label == "-"}
    assert unlabelled == {"[CLS]", "[SEP]", "a"}
    with pytest.raises(SettingError, match=r"corruption\.frequent must be a share of all tokens.*found 0"):
        TokenDocument(frequent=0)


def test_far_repeats_are_counted_up_to_what_fits():
    tokens = np.array([1, *([2] * 70_000), 1])
    found = find_repeats(tokens, np.array([len(tokens)]))
    assert found[0].tolist() == [0, 65_535] and found[-1].tolist() == [65_535, 0]
    assert found[1].tolist() == [0, 65_535] and found[2].tolist() == [1, 65_535]


def test_rows_of_a_stream_cannot_be_labelled():
    with pytest.raises(RecipeError, match="Capitals labels the tokens of rows of texts, which Stream does not make"):
        check_steps("mine", (Stream(), Capitals()))


# Their loss


def test_the_loss_is_the_mean_over_the_labelled_tokens_and_the_gradient_is_zero_elsewhere():
    torch.manual_seed(0)
    head, hidden = TokenClassHead(8, "capitals"), torch.randn(2, 4, 8, requires_grad=True)
    labels = torch.tensor([[IGNORE, 1, 0, IGNORE], [IGNORE, IGNORE, 1, IGNORE]])
    tokens = torch.zeros(2, 4, dtype=torch.long)
    batch = Batch(source=Side(tokens=tokens, visible=torch.ones(2, 4, dtype=torch.bool)), capitals=labels)
    loss = head(States(hidden=hidden), batch)
    logits = head.classify(hidden)
    by_hand = [F.cross_entropy(logits[row, place], labels[row, place]) for row, place in ((0, 1), (0, 2), (1, 2))]
    torch.testing.assert_close(loss, sum(by_hand) / 3)
    assert head.scored(batch) == 3
    loss.backward()
    assert (hidden.grad.abs().sum(-1) > 0).tolist() == (labels != IGNORE).tolist()
