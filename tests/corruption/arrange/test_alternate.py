"""Dialogues and plain text in one run: which objective is trained on which, and how often each is read."""

import numpy as np
import pytest
import torch
from stores import all_documents, document_of, store_of

from plmkit.corruption.arrange.dialogue import DialogueAndText
from plmkit.data.batch import IGNORE, Batch, Side, States
from plmkit.data.randomness import generator
from plmkit.errors import InputError, SettingError
from plmkit.objectives.sentence_pair import SentencePairHead


def mixed_store(talks: int, texts: int):
    """Dialogues of six turns in the second corpus, texts of 40 tokens in the first."""
    documents = [*[[10, 10, 10, 10]] * texts, *[[3] * 6] * talks]
    lines = [1, 0, 0, 0] * texts + [1] * 6 * talks
    return store_of(*documents, lines=lines, sources=[0] * texts + [1] * talks)


def plan_of(store, **settings):
    return DialogueAndText(dialogues=(2,), **settings).plan(store, all_documents(store), 42, generator(0))


@pytest.mark.parametrize(("talks", "texts"), [(200, 900), (900, 200), (300, 600)])
@pytest.mark.parametrize("share", [0.5, 0.25])
def test_dialogues_have_their_share_of_the_rows_whichever_there_is_more_of(talks, texts, share):
    plan = plan_of(mixed_store(talks, texts), share=share)
    asked = plan.labels["mixed_dialogue"] != IGNORE
    assert asked.mean() == pytest.approx(share, abs=0.005)
    assert max(asked.sum() / (2 * talks), (~asked).sum() / texts) == pytest.approx(1, abs=0.01)  # two rows a dialogue


def test_plain_rows_are_one_text_of_one_segment_and_dialogues_are_three_turns():
    store = mixed_store(50, 50)
    plan = plan_of(store)
    stretches = plan.stretches.reshape(-1, 3, 2)
    sizes = stretches[:, :, 1] - stretches[:, :, 0]
    plain = plan.labels["mixed_dialogue"] == IGNORE
    assert (sizes[plain] == [40, 0, 0]).all()
    assert not plan.segments[plain].any()
    assert (sizes[~plain] == 3).all()
    assert (store.sources[document_of(store, stretches[~plain, :, 0].ravel())] == 1).all()  # foreign turns as well
    assert plan.labels["mixed_dialogue"][~plain].mean() == pytest.approx(0.5, abs=0.15)


def test_text_of_one_kind_alone_can_be_held_out():
    store = mixed_store(4, 4)
    plan = DialogueAndText(dialogues=(2,)).plan(store, np.arange(4), 42, generator(0))
    assert (plan.labels["mixed_dialogue"] == IGNORE).all()
    assert len(plan) == 4


def test_only_dialogues_are_judged():
    torch.manual_seed(0)
    head, hidden = SentencePairHead(8, "mixed_dialogue"), torch.randn(4, 8)
    states = States(hidden=torch.zeros(4, 1, 8), pooled=hidden)
    tokens = torch.zeros(4, 1, dtype=torch.long)
    batch = Batch(
        source=Side(tokens=tokens, visible=tokens == 0, segments=tokens),
        mixed_dialogue=torch.tensor([0, IGNORE, 1, IGNORE]),
    )
    assert head.scored(batch) == 2
    alone = Batch(
        source=Side(tokens=tokens[::2], visible=tokens[::2] == 0, segments=tokens[::2]),
        mixed_dialogue=torch.tensor([0, 1]),
    )
    same = head(States(hidden=states.hidden[::2], pooled=hidden[::2]), alone)
    assert torch.equal(head(states, batch), same)


def test_corpora_of_one_kind_are_refused():
    store = mixed_store(3, 3)
    DialogueAndText(dialogues=(2,)).check(store, all_documents(store), "talk.txt, line 1")
    for dialogues, found in (((1, 2), "no plain text"), ((3,), "no dialogue")):
        with pytest.raises(InputError, match=f"talk.txt, line 1: found {found} among the 2 corpora"):
            DialogueAndText(dialogues=dialogues).check(store, all_documents(store), "talk.txt, line 1")


@pytest.mark.parametrize(
    "settings", [{"share": 0.0}, {"share": 1.0}, {"dialogues": ()}, {"dialogues": (0,)}, {"fake": 2}]
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(SettingError):
        DialogueAndText(**settings)
