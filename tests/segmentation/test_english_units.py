"""English phrases and entities, with no file that the wheel does not hold."""

import builtins
import importlib.metadata
import socket

import pytest

from plmkit.errors import InputError
from plmkit.segmentation import english
from plmkit.segmentation.english import English
from plmkit.segmentation.units import Pieces

FOX = "The quick brown fox jumped over the lazy dog in New York City yesterday."


def units(text: str, kind: str, settings: English = English()) -> list[str]:
    return [text[begin:end] for begin, end in getattr(settings.build().spans([text]), kind).tolist()]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*arguments, **named):
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_words_are_runs_of_letters_and_signs():
    assert units("Don't pay $3.50 to x86!", "words") == "Don ' t pay $ 3.50 to x86 !".split()


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        (FOX, ["The quick brown fox", "the lazy dog", "New York City yesterday"]),
        ("He saw two old houses near his brother's red car.", ["two old houses", "his brother's red car"]),
        ("She runs.", []),
        ("", []),
    ],
)
def test_phrases_are_nouns_with_what_stands_before_them(text, phrases):
    assert units(text, "phrases") == phrases


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        (FOX, ["New York City"]),
        ("Yesterday the Bank of England met J. K. Rowling.", ["Bank of England", "J. K. Rowling"]),
        ("The United States and China talked, I think.", ["United States", "China"]),
        ("Barack Obama spoke.", ["Barack Obama"]),
        ("Houses are old.", []),  # a single first word tells nothing
        ("MANY WORDS IN CAPITALS TELL NOTHING", []),
        ("", []),
    ],
)
def test_entities_are_capitalised_sequences(text, entities):
    assert units(text, "entities") == entities


def test_a_lexicon_adds_entities_and_wins(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("brown fox\nYork\n", encoding="utf-8")
    assert units(FOX, "entities", English(lexicon=str(path))) == ["brown fox", "York"]
    path.write_bytes(b"fox\n\tno name\n")
    with pytest.raises(InputError, match=r"names\.txt, line 2: no name before the tab"):
        English(lexicon=str(path)).check()


def test_places_count_on_over_several_texts():
    texts = ["a red car", "", "a red car"]
    assert English().build().spans(texts).phrases.tolist() == [[0, 9], [11, 20]]
    found = English(level="word").build().spans(texts)
    assert (len(found.words), len(found.phrases)) == (6, 0)


def test_what_each_level_finds():
    assert English().finds == ("word", "phrase", "entity")
    assert English(level="phrase").finds == ("word", "phrase")
    assert Pieces().finds == ("word",)


WORKS_NOT = (
    "plm: textblob, which finds English phrases and entities, does not work here: {}.\n"
    "Install it again: pip install --force-reinstall textblob nltk. Or find only words, without it: "
    "--set corruption.segmenter.level=word.\n"
)
BY_PHRASE = (
    "--recipe", "bert-wwm-mini", "--set", "corruption.segmenter=English", "--set", "corruption.segmenter.level=phrase",
)  # fmt: skip


@pytest.fixture
def fresh():
    """The tagger is loaded again, before and after."""
    english.parser.cache_clear()
    yield
    english.parser.cache_clear()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModuleNotFoundError("No module named 'nltk'"), "No module named 'nltk'"),
        (LookupError("\nResource punkt not found.\nPlease use the NLTK Downloader"), "Resource punkt not found."),
        (AttributeError(), "AttributeError"),
    ],
)
def test_a_half_installed_textblob_is_a_sentence(error, reason, plm, corpus, fresh, monkeypatch, tmp_path):
    usual = builtins.__import__

    def broken(name, *arguments, **named):
        if name == "textblob.en":
            raise error
        return usual(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", broken)
    ran = plm("doctor", corpus, *BY_PHRASE)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == WORKS_NOT.format(reason.removesuffix("."))
    assert list(tmp_path.iterdir()) == [corpus]
    assert plm("doctor", corpus, *BY_PHRASE[:-1], "corruption.segmenter.level=word").code == 0


def test_a_missing_textblob_is_a_sentence(plm, corpus, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("plmkit.segmentation.choosing.version", missing)
    ran = plm("doctor", corpus, *BY_PHRASE)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "plm: textblob, which finds the units of this text, is not installed. Install it: pip install textblob.\n"
    )
