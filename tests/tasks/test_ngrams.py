"""N-grams of texts, their weights, and their file."""

import json

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from plmkit.data.batch import Batch, Side
from plmkit.errors import FolderError
from plmkit.tasks.heads import NgramWeights
from plmkit.tasks.ngrams import Ngrams, blocks_of, load_ngrams, matrix_of, padded, save_ngrams

ENGLISH = ["the cat sat on the mat.", "The dog saw the cat!", "a bird, a cat and a dog", "birds sing"]
CHINESE = ["这家酒店很好", "酒店不好，不好", "服务好 的 酒店"]


def fitted(texts: list[str]) -> Ngrams:
    return Ngrams.of([(text, None) for text in texts])


def matrix(ngrams: Ngrams, texts: list[str]) -> np.ndarray:
    return matrix_of([ngrams.vector((text, None)) for text in texts], len(ngrams)).toarray()


def test_chinese_has_one_to_three_characters_and_no_spaces():
    (counted,) = blocks_of(("好 的好", None), unspaced=True)
    assert counted == {"好": 2, "的": 1, "好的": 1, "的好": 1, "好的好": 1}


def test_english_has_one_or_two_words_and_three_to_five_characters_within_a_word():
    words, parts = blocks_of(("Ah, no", None), unspaced=False)
    assert words == {"ah": 1, ",": 1, "no": 1, "ah ,": 1, ", no": 1}
    assert {" ah…", "ah,…", "h, …", " ah,…", "ah, …", " ah, …", " no…", "no …", " no …"} == parts.keys()


def test_the_script_of_the_training_rows_decides():
    assert fitted(CHINESE).unspaced
    assert not fitted(ENGLISH).unspaced
    assert not fitted(["The word 好 means good."]).unspaced


def test_a_pair_has_what_both_share_and_what_each_has_alone():
    shared, first, second = blocks_of(("好吃", "好看"), unspaced=True)
    assert (shared, first, second) == ({"= 好": 1}, {"< 吃": 1, "< 好吃": 1}, {"> 看": 1, "> 好看": 1})


@pytest.mark.parametrize(
    ("texts", "settings"),
    [
        (CHINESE, {"analyzer": "char", "ngram_range": (1, 3), "preprocessor": lambda text: "".join(text.split())}),
        (ENGLISH, {"token_pattern": r"(?u)\w+|[^\w\s]", "ngram_range": (1, 2)}),
    ],
)
def test_weights_are_those_of_scikit_learn(texts, settings):
    theirs = TfidfVectorizer(sublinear_tf=True, **settings).fit(texts)
    ours = fitted(texts)
    columns = [ours.numbers[name] for name in theirs.get_feature_names_out()]
    seen, unseen = texts, ["这家服务不好", "the bird sat with another cat"]
    for some in (seen, unseen):
        np.testing.assert_allclose(matrix(ours, some)[:, columns], theirs.transform(some).toarray(), atol=1e-6)


def test_the_most_frequent_are_kept_and_fewer_with_many_outputs(monkeypatch):
    texts = [(word, None) for word in "好 坏 好 大 小 好 坏 多 少".split()]
    monkeypatch.setattr("plmkit.tasks.ngrams.MOST", 2)
    assert Ngrams.of(texts).counts == {"好": 3, "坏": 2}  # a fifth one makes a crowd: the rarest are forgotten
    monkeypatch.setattr("plmkit.tasks.ngrams.WEIGHTS", 4)
    assert Ngrams.of(texts, outputs=4).counts == {"好": 3}


def test_a_text_without_a_known_ngram_is_zero():
    assert not matrix(fitted(CHINESE), ["xyz"]).any()
    numbers, weights = padded([fitted(CHINESE).vector(("xyz", None)), fitted(CHINESE).vector(("好", None))])
    assert weights.tolist() == [[0.0], [1.0]]
    assert numbers.shape == (2, 1)


def test_they_are_kept_in_a_file_by_task_and_read_again(tmp_path):
    made = fitted(CHINESE)
    made.vector(("好", None))  # what is computed on demand is not written
    save_ngrams(tmp_path, {"classify": made})
    assert json.loads((tmp_path / "ngrams.json").read_text(encoding="utf-8"))["classify"]["counts"]["酒店"] == 3
    assert load_ngrams(tmp_path) == {"classify": made}
    save_ngrams(tmp_path, {})
    assert load_ngrams(tmp_path) == {}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["[]", '{"classify": {"rows": 3}}', "{", '{"classify": 4}'])
def test_a_damaged_file_is_refused(content, tmp_path):
    (tmp_path / "ngrams.json").write_text(content, encoding="utf-8")
    with pytest.raises(FolderError, match=r"ngrams\.json"):
        load_ngrams(tmp_path)


def test_the_padding_of_a_batch_adds_nothing():
    ngrams = fitted(ENGLISH)
    vectors = [ngrams.vector((text, None)) for text in ENGLISH]
    layer = NgramWeights(len(ngrams), 2).eval()
    torch.nn.init.normal_(layer.weight)
    side = Side(tokens=torch.zeros(4, 1, dtype=torch.long), visible=torch.ones(4, 1, dtype=torch.bool))
    found = layer(torch.ones(4, 2), Batch(source=side, ngrams=padded(vectors)))
    expected = 1 + matrix(ngrams, ENGLISH) @ layer.weight.detach().numpy()
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-5)
