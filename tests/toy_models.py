"""Two left-to-right models: one whose choices depend on all that it has read, one whose shares are written down."""

import torch
from torch import Tensor, nn

from plmkit.architectures.contract import CacheSettings
from plmkit.generation.engine import Engine, engine_for
from plmkit.layers.cache import Cache
from plmkit.tokenizers.byte_bpe import ByteBPE
from plmkit.tokenizers.counted import Characters
from plmkit.tokenizers.tokenizer import Tokenizer
from plmkit.tokenizers.word_end_bpe import WordEndBPE
from plmkit.tokenizers.wordpiece import WordPiece

LINES = [
    "the cat sees a house.", "a bird hears the moon.", "it's a well-known song, isn't it?", "the king doesn't sing.",
    "潮水退了，就知道谁没穿裤子。", "我的狗很可爱。", "企鹅不擅长飞行。",
]  # fmt: skip


class ToyCache(Cache):
    def __init__(self, rows: int, width: int) -> None:
        self.length = 0
        self.total = torch.zeros(rows, width)

    def pick(self, rows: Tensor) -> None:
        self.total = self.total[rows]


class Toy(nn.Module):
    """What follows depends on the sum of sines of everything before, each at its place."""

    def __init__(self, size: int, width: int = 16) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(size, width)
        self.head = nn.Linear(width, size)
        self.head.weight.data.mul_(3)

    def begin(self, given: CacheSettings) -> ToyCache:
        return ToyCache(given.rows, self.table.embedding_dim)

    def extend(self, tokens: Tensor, cache: ToyCache) -> Tensor:
        places = 1.0 + cache.length + torch.arange(tokens.shape[1])
        summed = cache.total[:, None] + (self.table(tokens) * places[:, None].sqrt()).sin().cumsum(1)
        cache.total = summed[:, -1]
        cache.length += tokens.shape[1]
        return summed


def tokenizer(kind: str = "bytes", size: int = 300) -> Tokenizer:
    kinds = {"bytes": ByteBPE(size=size), "words": WordPiece(size=size), "word ends": WordEndBPE(size=size)}
    return kinds[kind].train(LINES * 5)


def toy(kind: str = "bytes", max_length: int | None = None) -> Engine:
    made = tokenizer(kind)
    model = Toy(len(made.vocabulary)).eval()
    return engine_for(model, model.head, made, max_length, torch.device("cpu"))


END = "."  # in written shares: the text ends here


class SharesCache(Cache):
    """What each row has read."""

    def __init__(self, rows: int) -> None:
        self.read: list[tuple[int, ...]] = [()] * rows

    @property
    def length(self) -> int:
        return len(self.read[0])

    def pick(self, rows: Tensor) -> None:
        self.read = [self.read[row] for row in rows.tolist()]


class Shares(nn.Module):
    """What follows a text is written down, `{"a": {"b": 0.7, END: 0.3}}`; other characters have no chance."""

    def __init__(self, tokenizer: Tokenizer, shares: dict[str, dict[str, float]]) -> None:
        super().__init__()
        self.tokenizer, self.shares = tokenizer, shares

    def begin(self, given: CacheSettings) -> SharesCache:
        return SharesCache(given.rows)

    def extend(self, tokens: Tensor, cache: SharesCache) -> Tensor:
        found = torch.zeros(*tokens.shape, len(self.tokenizer.vocabulary))
        for row, new in enumerate(tokens.tolist()):
            for place, token in enumerate(new):
                cache.read[row] += (token,)
                for follower, share in self.shares.get(self.tokenizer.decode(cache.read[row]), {}).items():
                    found[row, place, self.number(follower)] = share
        return found.log()

    def number(self, character: str) -> int:
        return self.tokenizer.vocabulary.end if character == END else self.tokenizer.encode(character)[0]


def written_shares(shares: dict[str, dict[str, float]]) -> Engine:
    """An engine that follows them; every character is a token, and shares of a row add up to 1."""
    assert all(abs(sum(row.values()) - 1) < 1e-9 for row in shares.values()), shares
    made = Characters().train(["".join(shares) + "".join(c for row in shares.values() for c in row if c != END)])
    return engine_for(Shares(made, shares), nn.Identity(), made, None, torch.device("cpu"))


@torch.inference_mode()
def greedy_by_hand(engine: Engine, prompt: str, tokens: int) -> list[int]:
    """Without a cache: everything is read again for each token."""
    read = engine.tokenizer.encode(prompt)
    written: list[int] = []
    for _ in range(tokens):
        cache = engine.model.model.begin(CacheSettings(1, 0))
        hidden = engine.model.model.extend(torch.tensor([read + written]), cache)[:, -1]
        token = int(engine.model.logits(hidden).argmax())
        if token == engine.tokenizer.vocabulary.end:
            break
        written.append(token)
    return written
