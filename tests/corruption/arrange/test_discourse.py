"""Relations by connectives: the connective is removed, and nothing that is left gives its relation away."""

from pathlib import Path

import numpy as np
import pytest
from stores import all_documents, store_of

from plmkit.corruption.arrange.discourse import DiscoursePairs
from plmkit.data import shards
from plmkit.data.connectives import (
    CONNECTIVES,
    FRONTED_OF,
    INNER_OF,
    NEEDED,
    OPENING_OF,
    RELATIONS,
    bare,
    connected,
    is_chinese,
    of_relation,
)  # fmt: skip
from plmkit.data.corpus import open_corpus
from plmkit.data.randomness import generator
from plmkit.data.shards import open_store
from plmkit.data.text import split_sentences
from plmkit.errors import InputError
from plmkit.tokenizers.unigram import Unigram
from plmkit.tokenizers.wordpiece import WordPiece

FOUND = [  # text, relation, first, second
    ("They stayed at home because it rained.", "cause", "They stayed at home", "it rained."),
    ("They stayed at home, because it rained.", "cause", "They stayed at home", "it rained."),
    ("Because it rained, they stayed at home.", "cause", "they stayed at home.", "it rained"),
    ("It rained all day. Therefore, they stayed.", "result", "It rained all day.", "they stayed."),
    ("It rained all day, so they stayed.", "result", "It rained all day", "they stayed."),
    ("He was tired, but he went out.", "contrast", "He was tired", "he went out."),
    ("He was tired; however, he went out.", "contrast", "He was tired", "he went out."),
    ("He was tired. On the other hand, he had time.", "contrast", "He was tired.", "he had time."),
    ("Although he was tired, yet he went out.", "concession", "he went out.", "he was tired"),
    ("If it rains, then they stay at home.", "condition", "they stay at home.", "it rains"),
    ("She saved money so that she could travel.", "purpose", "She saved money", "she could travel."),
    ("It is cheap. Moreover, it is good.", "addition", "It is cheap.", "it is good."),
    ("Some birds swim. For example, penguins do it well.", "example", "Some birds swim.", "penguins do it well."),
    ("He is a bachelor. In other words, he has no wife.", "restatement", "He is a bachelor.", "he has no wife."),
    ("She closed the door. Then she left.", "succession", "She closed the door.", "she left."),
    ("I read a book. Meanwhile, she wrote a letter.", "simultaneity", "I read a book.", "she wrote a letter."),
    ("Eat your soup. Otherwise, you get no cake.", "alternative", "Eat your soup.", "you get no cake."),
    ("It looks old. In fact, it is new.", "confirmation", "It looks old.", "it is new."),
    ("Cats sleep a lot. Similarly, dogs do.", "similarity", "Cats sleep a lot.", "dogs do."),
    ("It rained all day. This is because clouds came.", "cause", "It rained all day.", "clouds came."),
    ("They stayed at home, mainly because it rained.", "cause", "They stayed at home", "it rained."),
    ("外面很冷，如果下雨，那么我们不去。", "condition", "我们不去。", "下雨"),  # its main clause is the next
    ("除非下雨，否则他们出门。", "condition", "他们出门。", "下雨"),
    ("只有下雨，他才在家。", "condition", "他才在家。", "下雨"),
    ("他们没有出门，因为外面下雨，路又滑。", "cause", "他们没有出门", "外面下雨，路又滑。"),
    ("他很累。尽管如此，他去了学校。", "concession", "他很累。", "他去了学校。"),
    ("他没有出门。这是因为外面下雨。", "cause", "他没有出门。", "外面下雨。"),
    ("因为下雨，所以他们没有出门。", "cause", "他们没有出门。", "下雨"),
    ("他们没有出门，因为外面下雨。", "cause", "他们没有出门", "外面下雨。"),
    ("外面下雨，因此他们没有出门。", "result", "外面下雨", "他们没有出门。"),
    ("外面下雨。因此，他们没有出门。", "result", "外面下雨。", "他们没有出门。"),
    ("虽然他很累，但是他去了。", "concession", "他去了。", "他很累"),
    ("他很累，但他去了。", "contrast", "他很累", "他去了。"),
    ("如果明天下雨，那么我们不去。", "condition", "我们不去。", "明天下雨"),
    ("她存钱，以便去旅行。", "purpose", "她存钱", "去旅行。"),
    ("这个很便宜，而且质量好。", "addition", "这个很便宜", "质量好。"),
    ("有些鸟会游泳。例如，企鹅游得好。", "example", "有些鸟会游泳。", "企鹅游得好。"),
    ("他是单身汉。也就是说，他没有妻子。", "restatement", "他是单身汉。", "他没有妻子。"),
    ("她关上门，然后离开了。", "succession", "她关上门", "离开了。"),
    ("快喝汤，否则没有蛋糕。", "alternative", "快喝汤", "没有蛋糕。"),
    ("它看起來很舊。事實上，它是新的。", "confirmation", "它看起來很舊。", "它是新的。"),
]
NOT_FOUND = [
    "They stayed at home because of the rain.", "He said nothing, so far.", "The so-called king is dead.",
    "Instead of tea, she drank coffee.", "In addition to tea, she drank coffee.", "Earlier forms were smaller.",
    "But for him, we had lost.", "但愿人长久，千里共婵娟。", "最后一次见面，他很累。", "我的狗很可爱。企鹅不擅长飞行。",
    "However, it rained.", "The cat sees a house. The dog sees the moon.",
    "It rained, but they went out, but she stayed.",  # a second `but` would give it away
    "他虽然很累，但是他去了。", "他因为很累，所以没有去。",  # and so would these
    "The man not only reads, but also writes.", "一方面他很累。另一方面他很高兴。",
    "Berkeley was, therefore, the first to read it.", "Both of them, if needed, are made by hand.",
    "The king, although old, went to the sea.", "It is because it rained.", "只有三个人在学校，老师没有来。",
    "He came in, and because it rained, he left.", "He has cats, dogs, and so on and so forth here.",
]  # fmt: skip


def texts_of(text: str) -> list[tuple[str, str, str]]:
    sentences = split_sentences(text)
    return [(RELATIONS[one.relation], *(sentences[n][b:e].strip() for n, b, e in (one.first, one.second)))
             for one in connected(sentences)]  # fmt: skip


@pytest.mark.parametrize(("text", "relation", "first", "second"), FOUND)
def test_a_connective_is_found_and_removed_with_what_answers_it(text, relation, first, second):
    assert texts_of(text) == [(relation, first, second)]


@pytest.mark.parametrize("text", NOT_FOUND)
def test_what_is_no_connective_or_has_no_two_texts_is_left_alone(text):
    assert texts_of(text) == []


def example(text: str, place: str) -> str:
    """A text with this connective at this place."""
    if is_chinese(text):
        first, second = "张三买书写字", "李四做饭洗衣"
        return {
            "opening": f"{first}。{text}{second}。",
            "inner": f"{first}，{text}{second}。",
            "fronted": f"{text}{first}，{NEEDED.get(text, '')}{second}。",
        }[place]
    first, second = "ann reads long books", "bob cooks old eggs"
    space = "" if text.startswith((",", ";")) else " "
    return {
        "opening": f"{first.capitalize()}. {text.capitalize()}, {second}.",
        "inner": f"{first.capitalize()}{space}{text} {second}.",
        "fronted": f"{text.capitalize()} {first}, {second}.",
    }[place]


PLACES = [
    (place, text, relation)
    for place, inventory in (("opening", OPENING_OF), ("inner", INNER_OF), ("fronted", FRONTED_OF))
    for text, relation in inventory.items()
]


def test_every_connective_of_the_inventory_is_found_with_its_relation_and_is_not_left_in_the_texts():
    assert len(PLACES) > 300
    for place, text, relation in PLACES:
        found = texts_of(example(text, place))
        assert [one[0] for one in found] == [relation], (place, text, found)
        for side in found[0][1:]:
            assert bare(text) not in side.lower(), (place, text, found)
            assert not of_relation(relation).search(side.lower())


def test_both_languages_have_every_relation():
    in_chinese = {relation for _, text, relation in PLACES if is_chinese(text)}
    in_english = {relation for _, text, relation in PLACES if not is_chinese(text)}
    assert in_chinese == in_english == set(RELATIONS)


TEXT = "\n\n".join(text for text, *_ in FOUND) + "\n\nThe cat sees a house. The dog sees the moon.\n"


def store_and_tokenizer(folder: Path, name: str = "cache"):
    path = folder / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    made = WordPiece(size=900, lowercase=True).train(TEXT.split("\n"))
    return open_store([open_corpus([path])], made, folder / name, details={"connectives"}), made


def test_rows_have_the_texts_and_the_relation_but_not_the_connective(tmp_path):
    store, made = store_and_tokenizer(tmp_path)
    plan = DiscoursePairs().plan(store, all_documents(store), 128, generator(0))
    rows = DiscoursePairs().fill(store, plan, np.arange(len(plan)), made.vocabulary, 128)
    assert len(plan) == len(FOUND)
    for row, (text, relation, first, second) in enumerate(FOUND):
        assert RELATIONS[rows.discourse[row]] == relation
        expected = [made.vocabulary.cls, *made.encode_plain(first), made.vocabulary.sep]
        expected += [*made.encode_plain(second), made.vocabulary.sep]
        assert rows.tokens[row][rows.visible[row]].tolist() == expected, text


def test_a_token_that_a_text_shares_with_the_connective_is_left_out(tmp_path):
    """SentencePiece may join 但 and 他 to one token, which would show the connective."""
    text = "他很累，但他去了。\n" * 200
    made = Unigram(size=60).train([text])
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    store = open_store([open_corpus([path])], made, tmp_path / "cache", details={"connectives"})
    plan = DiscoursePairs().plan(store, all_documents(store), 64, generator(0))
    rows = DiscoursePairs().fill(store, plan, np.arange(4), made.vocabulary, 64)
    shown = [made.decode(row.tolist()) for row in rows.tokens]
    assert len(plan) > 3 and not any("但" in one for one in shown), shown


def test_what_stands_next_to_the_connective_is_kept_where_texts_are_too_long():
    store = store_of([30, 40])
    object.__setattr__(store, "connectives", np.array([[0, 30, 32, 70, 2, 1]]))
    plan = DiscoursePairs().plan(store, np.array([0]), 23, generator(0))
    assert plan.stretches.tolist() == [[20, 30, 32, 42]]


def test_blocks_of_any_size_have_the_same_connectives_and_only_documents_that_are_read_count(tmp_path, monkeypatch):
    whole, _ = store_and_tokenizer(tmp_path)
    monkeypatch.setattr(shards, "BLOCK_CHARACTERS", 3)
    parts, _ = store_and_tokenizer(tmp_path, name="parts")
    assert np.array_equal(whole.connectives, parts.connectives)
    some = DiscoursePairs().plan(whole, np.array([3, 1, 3]), 64, generator(0))  # as often as weights repeat them
    assert [RELATIONS[label] for label in some.labels["discourse"]] == ["result", "cause", "result"]


def test_a_text_without_connectives_is_refused():
    store = store_of([5, 5], [5])
    object.__setattr__(store, "connectives", np.zeros((0, 6), dtype=np.int64))
    assert DiscoursePairs().lacks(store, np.arange(2), 64) == "no sentence has a connective that is known"
    with pytest.raises(InputError, match="none of the 2 documents has one"):
        DiscoursePairs().check(store, np.arange(2), "a.txt, line 1")


def test_connectives_are_named_once():
    assert len(set(CONNECTIVES)) == len(CONNECTIVES) > 250
