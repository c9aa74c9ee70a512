"""Queries and titles: as labelled in the table, and titles of other queries that were never shown."""

from pathlib import Path

import numpy as np
import pytest

from plmkit.corruption.arrange.titles import NOT_SHOWN, QueryTitles
from plmkit.data.query_corpus import open_queries
from plmkit.data.randomness import generator
from plmkit.data.shards import open_store
from plmkit.errors import InputError, SettingError
from plmkit.tokenizers.counted import Words

QUERIES = [f"q{number}" for number in range(40)]
TITLES = [f"t{number}" for number in range(12)]
TOKENIZER = Words(size=200).train([" ".join(QUERIES + TITLES)])


def write(path: Path, rows: list[tuple[str, str, int]]) -> Path:
    path.write_text("query\ttitle\tlabel\n" + "".join(f"{q}\t{t}\t{label}\n" for q, t, label in rows), "utf-8")
    return path


def store_of(folder: Path, *tables: list[tuple[str, str, int]]):
    paths = [str(write(folder / f"{number}.tsv", rows)) for number, rows in enumerate(tables)]
    return open_store(open_queries(paths), TOKENIZER, folder / "cache")


def rows_of(store, seed: int = 0, documents=None, **settings) -> list[tuple[str, str, int]]:
    some = np.arange(len(store.documents) - 1) if documents is None else np.array(documents)
    plan = QueryTitles(**settings).plan(store, some, 32, generator(seed))
    words = TOKENIZER.vocabulary.names
    return [
        (" ".join(words(store.tokens[a:b])), " ".join(words(store.tokens[c:d])), int(label))
        for (a, b, c, d), label in zip(plan.stretches.tolist(), plan.labels["relevance"], strict=True)
    ]


def logged(seed: int = 0) -> list[tuple[str, str, int]]:
    """Every query with three titles, of which it led to a click on one."""
    rng = np.random.default_rng(seed)
    return [(query, TITLES[title], int(place > 0)) for query in QUERIES
            for place, title in enumerate(rng.permutation(len(TITLES))[:3])]  # fmt: skip


def test_every_row_of_the_table_is_one_with_its_label_and_a_third_more_are_random(tmp_path):
    table = logged()
    rows = rows_of(store_of(tmp_path, table))
    assert sorted(row for row in rows if row[2] < NOT_SHOWN) == sorted(table)
    assert len([row for row in rows if row[2] == NOT_SHOWN]) == len(table) / 2


def test_a_random_title_was_never_clicked_or_shown_for_the_query(tmp_path):
    """Also where the query comes back later in the table, or in another one, or is held out."""
    first, second = logged(0), logged(1)
    store = store_of(tmp_path, first + second[:60], second[60:])
    known = {(query, title) for query, title, _ in first + second}
    for seed in range(50):
        made = [row[:2] for row in rows_of(store, seed, documents=range(0, 60, 2)) if row[2] == NOT_SHOWN]
        assert len(made) > 20
        assert not known & set(made)


def test_random_titles_are_new_in_every_epoch_and_come_again_for_the_same_seed(tmp_path):
    store = store_of(tmp_path, logged())
    assert rows_of(store, 3) == rows_of(store, 3)
    assert rows_of(store, 3) != rows_of(store, 4)


def test_rows_that_the_table_calls_not_shown_count_and_none_are_added_at_random_0(tmp_path):
    table = [("q1", "t1", 0), ("q1", "t2", 1), ("q2", "t3", 0), ("q2", "t1", 2), ("q3", "t5", 1), ("q3", "t6", 1)]
    store = store_of(tmp_path, table)
    assert sorted(rows_of(store, random=0.0)) == sorted(table)
    assert [row[2] for row in rows_of(store)].count(NOT_SHOWN) == 2  # of 5 others: 2 are a third of all


def test_where_no_title_is_left_there_is_no_random_row(tmp_path):
    store = store_of(tmp_path, [("q1", "t1", 0), ("q2", "t1", 0), ("q3", "t1", 1)])
    assert [row[2] for row in rows_of(store)] == [0, 0, 1]


def test_bad_settings_and_a_missing_table_are_refused(tmp_path):
    with pytest.raises(SettingError, match=r"corruption\.random must be a share of the rows.*found 1\.0"):
        QueryTitles(random=1.0)
    store = store_of(tmp_path, logged())
    with pytest.raises(InputError, match="Give one beside the text"):
        QueryTitles().check(store, np.array([], dtype=int), "a.txt, line 1")
    assert QueryTitles().lacks(store, np.array([], dtype=int), 64) == "no query–title table is given"
