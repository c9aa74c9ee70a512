"""Boundaries on disk next to the tokens, and from there to the rows, to masks, to the screen."""

import hashlib
import io
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from rich.console import Console

from plmkit import recipe as recipe_module
from plmkit.catalogue import CATALOGUE, find
from plmkit.cli import show_doctor
from plmkit.config.machine import settle
from plmkit.config.settings import to_json
from plmkit.corruption.contract import Masking
from plmkit.data import shards
from plmkit.data.batch import IGNORE
from plmkit.data.corpus import open_corpus
from plmkit.data.rows import StretchPlan, fill
from plmkit.data.shards import FORMAT, open_store, store_key
from plmkit.data.vocabulary import SPECIAL_TOKENS
from plmkit.errors import InputError, SettingError
from plmkit.segmentation.bio import Bio
from plmkit.segmentation.chinese import Jieba
from plmkit.segmentation.choosing import SEGMENTERS, AnySegmenter, segmenter_of
from plmkit.segmentation.english import English
from plmkit.segmentation.starts import word_starts
from plmkit.segmentation.units import WORD, Pieces
from plmkit.tokenizers.tokenizer import bert_tokenizer

TEXT = "使用语言模型。预测下一个词！\n\n我爱乒乓球。我的狗很可爱。\n\n企鹅不擅长飞行。清明上河图五颜六色。\n"
CHARACTERS = sorted(set(TEXT) - {"\n"})
TOKENIZER = bert_tokenizer([*SPECIAL_TOKENS, *CHARACTERS], lowercase=True)


@dataclass(frozen=True, kw_only=True)
class WordMasking(Masking):
    """Masks every third unit of a row, all of it."""

    segmenter: AnySegmenter | None = None
    level: str = "word"
    writes: ClassVar = frozenset({"targets"})

    def for_validation(self):
        return self

    def __call__(self, rows, vocabulary, draws):
        starts = word_starts(rows, vocabulary, self.level)
        special = ~vocabulary.is_ordinary(rows.tokens) & (rows.tokens != vocabulary.unknown)
        hidden = (np.cumsum(starts, axis=1) % 3 == 0) & ~special
        return replace(
            rows,
            tokens=np.where(hidden, vocabulary.mask, rows.tokens),
            targets=np.where(hidden, rows.tokens, IGNORE),
        )


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def whole_word(monkeypatch):
    """A recipe in the catalogue that masks whole words, and names its segmenter."""

    def make():
        bert = find("bert-tiny")
        return replace(
            bert, name="word-test", streams=recipe_module.one_stream(bert.corruption[0], WordMasking(segmenter=Jieba()))
        )

    monkeypatch.setitem(CATALOGUE, "word-test", make)
    monkeypatch.setattr(recipe_module, "MASKINGS", (*recipe_module.MASKINGS, WordMasking))
    return make()


def store_of(path: Path, cache: Path, segmenter=None, **settings):
    return open_store([open_corpus([path], layout="blank-lines")], TOKENIZER, cache, segmenter=segmenter, **settings)


def words_of(store) -> list[str]:
    names = TOKENIZER.vocabulary.names(store.tokens)
    return "".join(f" {name}" if unit & WORD else name for name, unit in zip(names, store.units, strict=True)).split()


def test_units_are_stored_next_to_the_tokens_and_read_back(corpus, tmp_path):
    store = store_of(corpus, tmp_path / "cache", Jieba())
    assert isinstance(store.units, np.memmap) and store.units.dtype == np.uint8 and not store.units.flags.writeable
    assert len(store.units) == len(store.tokens)
    assert words_of(store)[:12] == "使用 语言 模型 。 预测 下 一个 词 ！ 我 爱 乒乓球".split()
    again = store_of(corpus, tmp_path / "cache", Jieba())
    assert np.array_equal(store.units, again.units)
    assert len(list((tmp_path / "cache" / "tokens").iterdir())) == 1


def test_without_a_segmenter_the_store_and_its_key_are_as_they_were(corpus, tmp_path):
    corpora = [open_corpus([corpus], layout="blank-lines")]
    parts = [f"store {FORMAT}", TOKENIZER.fingerprint(), corpora[0].fingerprint()]
    assert store_key(corpora, TOKENIZER) == hashlib.blake2b("\n".join(parts).encode(), digest_size=12).hexdigest()
    store = store_of(corpus, tmp_path / "cache")
    assert store.units is None
    (folder,) = (tmp_path / "cache" / "tokens").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == [
        "documents.npy", "lines.npy", "plmkit-manifest.json", "sentences.npy", "sources.npy", "store.json",
        "tokens.bin",
    ]  # fmt: skip


def test_the_key_follows_the_settings_and_the_content_of_the_files_not_their_names(corpus, tmp_path):
    corpora = [open_corpus([corpus], layout="blank-lines")]
    first, same, other = (tmp_path / name for name in ("a.txt", "b.txt", "c.txt"))
    first.write_text("语言模型\n", encoding="utf-8")
    same.write_text("语言模型\n", encoding="utf-8")
    other.write_text("乒乓\n", encoding="utf-8")

    def key(segmenter=None):
        return store_key(corpora, TOKENIZER, segmenter)

    assert key(Jieba(dictionary=str(first))) == key(Jieba(dictionary=str(same)))
    different = [
        None, Jieba(), Jieba(level="entity"), Jieba(unlisted=False), Jieba(dictionary=str(first)),
        Jieba(dictionary=str(other)), Jieba(lexicon=str(first)), English(), Bio(file=str(first)),
    ]  # fmt: skip
    assert len({key(segmenter) for segmenter in different}) == len(different)
    before = key(Jieba(dictionary=str(first)))
    first.write_text("语言模型 9\n", encoding="utf-8")
    assert key(Jieba(dictionary=str(first))) != before


def test_a_dictionary_changes_the_stored_words(corpus, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("语言模型\n下一个词\n", encoding="utf-8")
    found = words_of(store_of(corpus, tmp_path / "cache", Jieba(dictionary=str(path))))
    assert found[:7] == "使用 语言模型 。 预测 下一个词 ！ 我".split()


def test_blocks_of_any_size_give_the_same_units(corpus, tmp_path, monkeypatch):
    whole = store_of(corpus, tmp_path / "whole", Jieba(level="entity"))
    monkeypatch.setattr(shards, "BLOCK_CHARACTERS", 3)
    parts = store_of(corpus, tmp_path / "parts", Jieba(level="entity"))
    assert np.array_equal(whole.units, parts.units)


@pytest.mark.slow
def test_one_process_and_two_find_the_same_units(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SMALL_BYTES", 0)
    monkeypatch.setattr(shards, "BLOCK_CHARACTERS", 500)
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT * 40, encoding="utf-8")
    one, two = (store_of(path, tmp_path / str(count), Jieba(), processes=count) for count in (1, 2))
    assert np.array_equal(one.units, two.units)
    assert len(one.units) == len(one.tokens)


def test_a_file_out_of_step_leaves_nothing_behind(corpus, tmp_path):
    path = tmp_path / "units.bio"
    path.write_text("".join(f"{letter} O\n" for letter in "使用语言模型。"), encoding="utf-8")
    with pytest.raises(InputError, match="differs from the corpus"):
        store_of(corpus, tmp_path / "cache", Bio(file=str(path)))
    assert list((tmp_path / "cache" / "tokens").iterdir()) == []


def test_rows_carry_the_units_of_their_tokens_and_zero_elsewhere(corpus, tmp_path):
    store = store_of(corpus, tmp_path / "cache", Jieba())
    rows = fill(
        store,
        StretchPlan(stretches=np.array([[0, 7, 7, 14], [1, 4, 0, 0]])),
        np.array([0, 1]),
        TOKENIZER.vocabulary,
        20,
    )
    assert rows.units is not None and rows.units.dtype == np.uint8 and rows.units.shape == rows.tokens.shape
    assert rows.units[0].tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0][: len(rows.units[0])]
    assert rows.units[1].tolist() == [0, 0, 1, 0] + [0] * (len(rows.units[1]) - 4)
    plain = store_of(corpus, tmp_path / "cache")
    assert (
        fill(plain, StretchPlan(stretches=np.array([[0, 3, 0, 0]])), np.array([0]), TOKENIZER.vocabulary, 20).units
        is None
    )


# Choosing


def test_a_segmenter_is_chosen_and_set_from_the_command_line(whole_word):
    def chosen(*assignments):
        return settle(whole_word, [f"corruption.{text}" for text in assignments]).recipe.corruption[1].segmenter

    assert chosen() == Jieba()
    assert chosen("segmenter.dictionary=a.txt") == Jieba(dictionary="a.txt")
    assert chosen("segmenter=English") == English()
    assert chosen("segmenter=Bio", "segmenter.file=a.bio", "segmenter.level=phrase") == Bio(
        file="a.bio", level="phrase"
    )
    assert chosen("segmenter=none") is None
    assert chosen("word_masking.segmenter=Pieces") == Pieces()
    for assignments, says in (
        (["segmenter=Jeiba"], "Or choose one of Jieba, English, Bio, Pieces"),
        (["segmenter=none", "segmenter=Jeiba"], "takes one of Jieba, English, Bio, Pieces, or none; found 'Jeiba'"),
        (
            ["segmenter=none", "segmenter.level=word"],
            r"segmenter is none. Choose one first: --set corruption.segmenter=",
        ),
        (["segmenter.level=words"], "must be one of word, phrase, entity; found 'words'"),
        (["segmenter.dict=x"], "Did you mean 'corruption.segmenter.dictionary'"),
    ):
        with pytest.raises(SettingError, match=re.escape(says)):
            chosen(*assignments)


def test_what_a_recipe_needs_is_found_in_its_steps(whole_word):
    pairs = whole_word.corruption[0]
    assert segmenter_of((pairs, WordMasking(segmenter=Jieba()))) == Jieba()
    assert segmenter_of((pairs, WordMasking(segmenter=Pieces()))) is None
    assert segmenter_of((pairs, WordMasking())) is None
    assert segmenter_of(find("bert-tiny").corruption) is None
    with pytest.raises(SettingError, match="differ, but a corpus has one set of boundaries"):
        segmenter_of((pairs, WordMasking(segmenter=Jieba()), WordMasking(segmenter=English())))
    for segmenter in (None, Pieces(), Jieba(level="phrase")):
        with pytest.raises(
            SettingError, match=r"corruption\.word_masking\.level is entity, but .* does not find such units"
        ):
            segmenter_of((pairs, WordMasking(segmenter=segmenter, level="entity")))
    assert segmenter_of((pairs, WordMasking(segmenter=Bio(file="x"), level="entity"))) == Bio(file="x")


@pytest.mark.parametrize("kind", SEGMENTERS)
def test_every_segmenter_is_written_with_the_recipe_and_read_back(kind, whole_word):
    recipe = replace(
        whole_word, streams=recipe_module.one_stream(whole_word.corruption[0], WordMasking(segmenter=kind()))
    )
    assert recipe_module.recipe_from_json(json.loads(json.dumps(to_json(recipe)))) == recipe


# The command line


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, *CHARACTERS]) + "\n", encoding="utf-8")
    return path


def test_doctor_says_which_characters_are_hidden_unit_by_unit(plm, corpus, vocabulary, whole_word):
    found = plm("doctor", corpus, "--recipe", "word-test", "--tokenizer", vocabulary, "--json").json
    hidden = [
        [whole[begin:end] for begin, end in units]
        for (_, whole), units in zip(found["preview"], found["hidden"], strict=True)
    ]
    listed = set(words_of(store_of(corpus, corpus.parent / "c", Jieba())))
    assert all(hidden) and {unit for units in hidden for unit in units} <= listed
    assert any(len(unit) > 1 for units in hidden for unit in units)
    for (seen, _), units in zip(found["preview"], hidden, strict=True):
        assert seen.count("[MASK]") == sum(map(len, units))


def test_doctor_colours_each_hidden_unit_once_and_pipes_stay_plain(plm, corpus, vocabulary, whole_word, monkeypatch):
    command = ("doctor", corpus, "--recipe", "word-test", "--tokenizer", vocabulary)
    found = plm(*command, "--json").json
    assert "\x1b" not in plm(*command).out
    screen = io.StringIO()
    settings = {"highlight": False, "soft_wrap": True, "force_terminal": True, "color_system": "standard"}
    with monkeypatch.context() as patch:
        patch.delenv("NO_COLOR", raising=False)
        patch.setattr(show_doctor, "console", Console(file=screen, **settings))
        plm(*command)
    coloured = re.findall(r"\x1b\[[0-9;]*4([36])m([^\x1b]*)\x1b\[0m", screen.getvalue())
    hidden = [whole[b:e] for (_, whole), units in zip(found["preview"], found["hidden"], strict=True) for b, e in units]
    assert [text for _, text in coloured] == hidden


def test_a_short_run_trains_by_stored_words(plm, corpus, vocabulary, whole_word, tiny_settings, tmp_path, own_cache):
    out = tmp_path / "run"
    sets = [*tiny_settings[1::2], "run.threads=1", "corruption.segmenter.level=entity"]
    chosen = [part for one in sets if not one.startswith("tokenizer.") for part in ("--set", one)]
    ran = plm("pretrain", "word-test", corpus, "--out", out, "--steps", 2, "--tokenizer", vocabulary, *chosen)
    assert ran.code == 0, ran.err
    (stream,) = json.loads((out / "run.json").read_text())["recipe"]["streams"]
    assert stream["maskings"][0]["segmenter"]["level"] == "entity"
    assert len(list(own_cache.rglob("units.bin"))) == 1


@pytest.mark.parametrize(
    ("setting", "content", "says"),
    [
        ("dictionary", None, "does not exist"),
        ("dictionary", "语言\n".encode("gb18030"), "list.txt, line 1: not valid UTF-8"),
        ("dictionary", "语言\n模型 many n\n".encode(), "list.txt, line 2: '模型 many n' is not a dictionary entry"),
        ("lexicon", None, "does not exist"),
        ("lexicon", "语言\n".encode() + b"\xff\xfe\n", "list.txt, line 2: not valid UTF-8"),
        ("file", None, "does not exist"),
        ("file", "使 O\n用\n".encode(), "list.txt, line 2: '用' is not a token and its tag"),
        ("file", "使 O\n用 O\n语 O\n文 O\n".encode(), "list.txt, line 4: differs from the corpus"),
    ],
)
@pytest.mark.parametrize("verb", ["doctor", "pretrain"])
def test_bad_files_are_refused_and_nothing_is_written(
    verb, setting, content, says, plm, corpus, vocabulary, whole_word, tmp_path, own_cache
):
    path = tmp_path / "list.txt"
    if content is not None:
        path.write_bytes(content)
    command = {
        "doctor": ("doctor", corpus, "--recipe", "word-test"),
        "pretrain": ("pretrain", "word-test", corpus, "--out", tmp_path / "out", "--steps", 1),
    }[verb]
    choice = ("--set", "corruption.segmenter=Bio" if setting == "file" else "corruption.segmenter.level=entity")
    before = sorted(tmp_path.rglob("*"))
    ran = plm(*command, "--tokenizer", vocabulary, *choice, "--set", f"corruption.segmenter.{setting}={path}")
    assert (ran.code, ran.out) == (2, "")
    message = ran.err[ran.err.index("plm: ") :]
    assert says in message
    assert "Traceback" not in ran.err and len(message.splitlines()) <= 3
    assert sorted(tmp_path.rglob("*")) == before
    assert list(own_cache.rglob("*.bin")) == []
