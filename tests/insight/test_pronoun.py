"""The animal didn't cross the street because it was too tired, or too wide: what "it" is stands after it."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plmkit.architectures.decoder import PostNormDecoder
from plmkit.architectures.encoder import Encoder
from plmkit.data.batch import Batch, Side
from plmkit.data.vocabulary import Vocabulary

ANIMALS, PLACES = ("animal", "cat", "dog", "horse"), ("street", "road", "river", "field")
OF_ANIMALS, OF_PLACES = ("tired", "afraid", "ill"), ("wide", "long", "wet")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "did", "not", "cross", "because", "it", "was", "too",
         *ANIMALS, *PLACES, *OF_ANIMALS, *OF_PLACES)  # fmt: skip
IT = 8  # its place in the sentence
SHAPE = {"layers": 2, "heads": 2, "width": 32, "inner": 64, "max_length": 12, "dropout": 0.0, "attention_dropout": 0.0}


def sentences(count: int, generator: torch.Generator) -> tuple[Batch, Tensor]:
    """Sentences, and 1 where "it" is the place, which only the last word tells."""
    labels = torch.randint(2, (count,), generator=generator)
    rows = []
    for label in labels.tolist():
        drawn = [words[int(torch.randint(len(words), (), generator=generator))]
                 for words in (ANIMALS, PLACES, OF_PLACES if label else OF_ANIMALS)]  # fmt: skip
        rows.append(f"the {drawn[0]} did not cross the {drawn[1]} because it was too {drawn[2]}".split())
    assert all(row[IT] == "it" for row in rows)
    tokens = torch.tensor([[WORDS.index(word) for word in row] for row in rows])
    return Batch(source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool))), labels


@pytest.mark.parametrize("architecture", [Encoder(**SHAPE), PostNormDecoder(**SHAPE)])
def test_a_bidirectional_state_knows_what_it_is_and_a_causal_one_cannot(architecture):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model, head = architecture.build(Vocabulary.from_tokens(WORDS)), nn.Linear(32, 2)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=2e-3)
    for _ in range(80):
        batch, labels = sentences(32, generator)
        F.cross_entropy(head(model(batch).hidden[:, IT]), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    batch, labels = sentences(400, generator)
    with torch.no_grad():
        right = (head(model.eval()(batch).hidden[:, IT]).argmax(-1) == labels).float().mean()
    if isinstance(architecture, Encoder):
        assert right >= 0.9
    else:
        assert 0.4 < right < 0.6  # as good as a coin
