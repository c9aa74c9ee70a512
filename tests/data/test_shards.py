"""Text to tokens on disk, and what is counted on the way."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from plmkit.data import shards
from plmkit.data.corpus import open_corpus
from plmkit.data.shards import TokenStore, open_store
from plmkit.data.survey import LONG_LINE, Survey, count_scripts
from plmkit.data.vocabulary import SPECIAL_TOKENS
from plmkit.errors import InputError
from plmkit.preparation.counts import count_tokens
from plmkit.storage.manifest import MANIFEST
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.tokenizer import bert_tokenizer

WORDS = ["the", "cat", "sat", "down", "dog", "ran", "off", ".", "!", "我", "的", "狗", "。"]
TOKENIZER = bert_tokenizer([*SPECIAL_TOKENS, *WORDS], lowercase=True)
TEXT = "The cat sat down. The dog ran off!\nThe cat ran.\n\n我的狗。\n"


def write(folder: Path, content: str, name: str = "corpus.txt") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def store_of(path: Path, cache: Path, tokenizer=TOKENIZER, **settings) -> TokenStore:
    return open_store([open_corpus([path], layout="blank-lines")], tokenizer, cache, **settings)


def sentences_of(store: TokenStore) -> list[list[str]]:
    """Documents as lists of sentences, read back from the tokens."""
    text = [
        " ".join(TOKENIZER.vocabulary.names(store.tokens[first:last]))
        for first, last in zip(store.sentences[:-1], store.sentences[1:], strict=True)
    ]
    return [text[first:last] for first, last in zip(store.documents[:-1], store.documents[1:], strict=True)]


def contents(cache: Path) -> dict[str, bytes]:
    files = [path for path in cache.rglob("*") if path.is_file() and path.name != MANIFEST]  # which has their times
    return {str(path.relative_to(cache)): path.read_bytes() for path in files}


def marks(cache: Path) -> dict[str, tuple[int, int]]:
    """What changes when a file is written again."""
    files = [path for path in cache.rglob("*") if path.is_file()]
    return {str(path.relative_to(cache)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def test_tokens_sentences_and_documents_can_be_read_back(tmp_path):
    store = store_of(write(tmp_path, TEXT), tmp_path / "cache")
    assert sentences_of(store) == [
        ["the cat sat down .", "the dog ran off !", "the cat ran ."],
        ["我 的 狗 。"],
    ]
    assert store.document_tokens().tolist() == [14, 4]
    assert store.sources.tolist() == [0, 0]
    assert isinstance(store.tokens, np.memmap) and not store.tokens.flags.writeable


def test_the_space_between_sentences_stays_where_tokens_bear_it(tmp_path):
    text = "The cat sat. The dog ran!\nOff it ran.\n我的狗。我的猫。\n\nThe end.\n"
    tokenizer = ByteBPE(size=300).train([text])
    store = store_of(write(tmp_path, text), tmp_path / "cache", tokenizer)
    first, second = store.sentences[store.documents[1:]]
    assert tokenizer.decode(store.tokens[:first]) == "The cat sat. The dog ran! Off it ran.我的狗。我的猫。"
    assert tokenizer.decode(store.tokens[first:second]) == "The end."
    assert len(store.sentences) == 1 + 6


def test_sentences_remember_where_a_line_begins(tmp_path):
    text = "The cat sat down. The dog ran off!\nThe cat ran.\n\n我的狗。\n \u200b\nThe dog. The cat.\n"
    store = store_of(write(tmp_path, text), tmp_path / "cache")
    found = [sentence for document in sentences_of(store) for sentence in document]
    assert list(zip(found, store.lines.tolist(), strict=True)) == [
        ("the cat sat down .", True),
        ("the dog ran off !", False),
        ("the cat ran .", True),
        ("我 的 狗 。", True),
        ("the dog .", True),
        ("the cat .", False),
    ]


def test_documents_remember_which_corpus_they_came_from(tmp_path):
    corpora = [open_corpus([write(tmp_path, text, name)]) for name, text in (("a.txt", TEXT), ("b.txt", "the dog.\n"))]
    store = open_store(corpora, TOKENIZER, tmp_path / "cache")
    assert store.sources.tolist() == [0, 0, 1]


def test_the_same_content_is_read_once(tmp_path):
    cache = tmp_path / "cache"
    heard: list[int] = []
    first = store_of(write(tmp_path, TEXT), cache, on_progress=heard.append)
    before = marks(cache)
    assert sum(heard) == len(TEXT.encode())
    again = store_of(write(tmp_path, TEXT, "another_name.txt"), cache, on_progress=heard.append)
    assert marks(cache) == before
    assert sum(heard) == len(TEXT.encode())  # nothing more was read
    assert np.array_equal(first.tokens, again.tokens)
    assert first.survey == again.survey


@pytest.mark.parametrize(
    "change", ["one letter", "another tokenizer", "another case", "another layout", "another format"]
)
def test_anything_that_could_change_the_tokens_makes_new_ones(change, tmp_path, monkeypatch):
    cache, tokenizer, layout = tmp_path / "cache", TOKENIZER, "blank-lines"
    path = write(tmp_path, TEXT)
    old = store_of(path, cache)
    before = marks(cache)
    if change == "one letter":
        write(tmp_path, TEXT.replace("dog", "dig"))
    elif change == "another tokenizer":
        tokenizer = bert_tokenizer([*SPECIAL_TOKENS, *reversed(WORDS)], lowercase=True)
    elif change == "another case":
        tokenizer = bert_tokenizer([*SPECIAL_TOKENS, *WORDS], lowercase=False)
    elif change == "another layout":
        layout = "document-per-line"
    else:
        monkeypatch.setattr(shards, "FORMAT", shards.FORMAT + 1)
    new = open_store([open_corpus([path], layout=layout)], tokenizer, cache)
    assert len(list((cache / "tokens").iterdir())) == 2
    assert marks(cache).items() > before.items()  # the old ones stay as they are
    same = np.array_equal(old.tokens, new.tokens) and np.array_equal(old.documents, new.documents)
    assert same == (change == "another format")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, InputError])
def test_a_crash_in_the_middle_leaves_nothing_and_the_next_try_works(error, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    path = write(tmp_path, TEXT)
    tokenize, calls = shards.tokenize, []

    def fails_at_the_second(block, maker):
        calls.append(block)
        if len(calls) == 2:
            raise error("in the middle")
        return tokenize(block, maker)

    with monkeypatch.context() as patch:
        patch.setattr(shards, "BLOCK_CHARACTERS", 1)
        patch.setattr(shards, "tokenize", fails_at_the_second)
        with pytest.raises(error):
            store_of(path, cache)
    assert list((cache / "tokens").iterdir()) == []
    assert len(sentences_of(store_of(path, cache))) == 2


def test_what_a_killed_process_left_is_not_taken_for_tokens(tmp_path):
    cache = tmp_path / "cache"
    path = write(tmp_path, TEXT)
    whole = store_of(path, cache)
    (folder,) = (cache / "tokens").iterdir()
    folder.rename(folder.with_name(f".{folder.name}.0123456789abcdef0123456789abcdef.partial"))
    again = store_of(path, cache)
    assert folder.is_dir()
    assert np.array_equal(whole.tokens, again.tokens)


def test_several_that_make_the_same_tokens_at_once_do_not_disturb_each_other(tmp_path):
    path = write(tmp_path, TEXT)
    start = Barrier(4)

    def make(number: int) -> list[int]:
        corpora = [open_corpus([path])]
        start.wait()
        return open_store(corpora, TOKENIZER, tmp_path / "cache").tokens.tolist()

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(make, range(4)))
    assert made == [made[0]] * 4
    assert len(list((tmp_path / "cache" / "tokens").iterdir())) == 1


def test_blocks_of_any_size_give_the_same_tokens(tmp_path, monkeypatch):
    path = write(tmp_path, "\n\n".join(f"The cat sat. The {word} ran off!" for word in WORDS[:7] * 5))
    whole = store_of(path, tmp_path / "whole")
    monkeypatch.setattr(shards, "BLOCK_CHARACTERS", 50)
    parts = store_of(path, tmp_path / "parts")
    assert contents(tmp_path / "whole") == contents(tmp_path / "parts")
    assert whole.survey == parts.survey


@pytest.mark.slow
def test_one_process_and_two_write_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SMALL_BYTES", 0)
    monkeypatch.setattr(shards, "BLOCK_CHARACTERS", 2_000)
    rng = np.random.default_rng(0)
    documents = [" ".join(rng.choice(WORDS[:9], 30)) for _ in range(300)]
    path = write(tmp_path, "\n\n".join(documents))
    for processes in (1, 2):
        store_of(path, tmp_path / str(processes), processes=processes)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert len(contents(tmp_path / "1")) == 6


def test_documents_without_a_token_are_dropped(tmp_path):
    # control characters and a lone variation selector leave nothing when the text is cleaned
    store = store_of(write(tmp_path, "the cat.\n\n\u0001\u0002\n\nthe dog.\n"), tmp_path / "cache")
    assert sentences_of(store) == [["the cat ."], ["the dog ."]]
    assert store.survey.documents == 3
    assert store.survey.sentences == 2


def test_text_of_which_no_token_is_left_is_refused_and_nothing_is_written(tmp_path):
    path = write(tmp_path, "\u0001\u0002\n\n\u0003\n")
    with pytest.raises(InputError, match=r"corpus\.txt gives no tokens: the tokenizer drops all of its characters"):
        store_of(path, tmp_path / "cache")
    assert list((tmp_path / "cache" / "tokens").iterdir()) == []


def test_large_vocabularies_take_wider_numbers(tmp_path):
    many = bert_tokenizer([*SPECIAL_TOKENS, *(f"word{number}" for number in range(70_000))], lowercase=True)
    path = write(tmp_path, "word69999 word3\n\nword1\n")
    store = store_of(path, tmp_path / "cache", many)
    assert store.tokens.dtype == np.uint32
    assert store.tokens.tolist() == [70_004, 8, 6]
    assert store_of(path, tmp_path / "cache", TOKENIZER).tokens.dtype == np.uint16


def test_the_survey_counts_exactly(tmp_path):
    text = (
        "The cat sat down. The dog ran off!\n我的狗。\n"  # 3 sentences
        "\n"
        "the bird sat\n"  # `bird` is unknown
        "\n"
        "the cat\ufffd sat\n"  # one character was decoded wrongly
        "\n"
        "the bird sat\n"  # again
        "\n" + "dog " * 2501 + "\n"  # a line of 10,003 characters after its last space is cut off
    )
    survey = store_of(write(tmp_path, text), tmp_path / "cache").survey
    paragraphs = [line for line in (line.strip() for line in text.splitlines()) if line]
    assert survey.documents == 5
    assert survey.duplicates == 1
    assert survey.replaced == 1
    assert survey.long_lines == 1
    assert survey.longest_line == 4 * 2501 - 1 > LONG_LINE
    assert survey.longest_line_at == f"{tmp_path / 'corpus.txt'}, line 10"
    assert survey.tokens == 14 + 3 + 3 + 3 + 2501
    assert survey.unknown == 2
    assert survey.characters == sum(map(len, paragraphs)) + 1  # paragraphs of a document are joined by a line's end
    assert survey.sentences == 3 + 1 + 1 + 1 + 11  # at most a thousand characters are one sentence
    chinese, latin, other = survey.scripts
    assert (chinese, other) == (3, 0)
    assert latin == sum(letter.isascii() and letter.isalpha() for letter in text)
    assert survey.hashes == ()


def test_surveys_add_up():
    parts = [
        Survey(documents=1, tokens=5, longest_line=7, longest_line_at="a, line 1", scripts=(1, 2, 3), hashes=hashes(4)),
        Survey(
            documents=2, tokens=6, longest_line=9, longest_line_at="b, line 2", scripts=(1, 0, 0), hashes=hashes(4, 5)
        ),
    ]
    total = (parts[0] + parts[1]).closed()
    assert (total.documents, total.tokens, total.duplicates) == (3, 11, 1)
    assert (total.longest_line, total.longest_line_at) == (9, "b, line 2")
    assert total.scripts == (2, 2, 3)
    assert total.languages() == {"Chinese": 2 / 7, "Latin": 2 / 7, "other": 3 / 7}
    assert Survey().closed().languages() == {"Chinese": 0.0, "Latin": 0.0, "other": 0.0}


def hashes(*numbers: int) -> tuple[np.ndarray]:
    return (np.array(numbers, dtype=np.uint64),)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("我的狗", (3, 0, 0)),
        ("The cat, 42!", (0, 6, 0)),
        ("naïve café", (0, 9, 0)),
        ("Привет", (0, 0, 6)),
        ("ねこ 고양이", (0, 0, 5)),
        ("。，！？“”…— 、", (0, 0, 0)),
        ("𠀀😀", (1, 0, 0)),
        ("", (0, 0, 0)),
    ],
)
def test_letters_are_counted_by_script(text, counts):
    assert count_scripts(text) == counts


MEASURE = """
import json, random, resource, sys
from pathlib import Path

def main():
    from plmkit.data.corpus import open_corpus
    from plmkit.data.shards import open_store
    from plmkit.data.vocabulary import SPECIAL_TOKENS
    from plmkit.tokenizers.tokenizer import bert_tokenizer
    folder = Path(sys.argv[1])
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(30, 60))) for _ in range(5000)]
    pages = [" ".join(rng.choices(words, k=20)) + "." for _ in range(2000)]
    size = 0
    with open(folder / "corpus.txt", "w") as file:
        while size < 60_000_000:
            size += file.write("\\n".join(rng.choices(pages, k=20)) + "\\n\\n")
    tokenizer = bert_tokenizer(list(dict.fromkeys([*SPECIAL_TOKENS, *"abcdefghij.", *words[:3000]])), lowercase=True)
    store = open_store([open_corpus([folder / "corpus.txt"])], tokenizer, folder / "cache", processes=2)
    # not RUSAGE_SELF: that begins with the size of the process that started this one
    own = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    peaks = [own // 1024, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024]
    print(json.dumps({"tokens": len(store.tokens), "torch": "torch" in sys.modules, "peaks": peaks}))

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_a_corpus_larger_than_what_is_held_of_it_is_read_in_bounded_memory(tmp_path):
    script = write(tmp_path, MEASURE, "measure.py")
    reported = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, timeout=300)
    assert reported.returncode == 0, reported.stderr
    found = json.loads(reported.stdout)
    assert found["tokens"] > 1_000_000
    assert not found["torch"]  # workers would carry it, too
    own, worker = found["peaks"]  # megabytes, at their highest
    assert own + 2 * worker < 500, found


@pytest.mark.parametrize("damage", ["cut", "empty", "broken"])
def test_a_damaged_store_is_made_again(tmp_path, damage):
    corpus = write(tmp_path, "The cat sat down. The dog ran off!\n\nThe cat ran.\n")
    whole = store_of(corpus, tmp_path / "cache").tokens.tolist()
    (folder,) = (tmp_path / "cache" / "tokens").iterdir()
    if damage == "broken":
        (folder / "store.json").write_text("{")
    else:
        tokens = (folder / "tokens.bin").read_bytes()
        (folder / "tokens.bin").write_bytes(tokens[: len(tokens) // 2] if damage == "cut" else b"")
    assert store_of(corpus, tmp_path / "cache").tokens.tolist() == whole


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_pass_over_mapped_tokens_leaves_none_of_them_in_memory(tmp_path):
    (tmp_path / "tokens.bin").write_bytes(np.arange(8_000_000, dtype=np.uint16).tobytes())
    tokens = np.memmap(tmp_path / "tokens.bin", dtype=np.uint16, mode="r")

    def resident() -> int:
        """Bytes of the file that this process has in memory."""
        parts = Path("/proc/self/smaps").read_text().split("tokens.bin\n")
        return int(parts[1].split("Rss:")[1].split()[0]) * 1024

    assert count_tokens(tokens, 1 << 16).sum() == 8_000_000
    assert resident() == 0
    assert tokens[65_537] == 1
    assert resident() > 0
