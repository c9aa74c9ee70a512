import pytest
import torch

from plmkit.architectures.encoder import Encoder, EncoderModel
from plmkit.data.batch import Batch, Side


def first_attention(model: EncoderModel, tokens: torch.Tensor) -> torch.Tensor:
    """(heads, L, L) what the first block's heads read."""
    places = torch.arange(len(tokens))
    hidden = model.embed(tokens, torch.zeros_like(tokens), places)
    width, heads = model.settings.width, model.settings.heads
    query, key, _ = model.blocks[0].attention.query_key_value(hidden).split(width, dim=-1)
    query, key = (part.unflatten(-1, (heads, width // heads)).transpose(0, 1) for part in (query, key))
    return (query @ key.transpose(-1, -2) / (width // heads) ** 0.5).softmax(-1).detach()


@pytest.mark.parametrize(("width", "heads"), [(256, 4), (128, 2)])
def test_each_head_of_the_first_block_starts_at_its_own_neighbour(width, heads):
    torch.manual_seed(0)
    settings = Encoder(layers=2, heads=heads, width=width, inner=64, dropout=0.0, local_heads=True)
    model = EncoderModel(settings, 500)
    attention = first_attention(model, torch.randint(500, (60,)))
    for head, step in zip(range(heads), (-1, 1, -2, 2), strict=False):
        share = {offset: float(attention[head].diagonal(offset).mean()) for offset in range(-5, 6)}
        assert max(share, key=share.__getitem__) == step
        assert share[step] > 0.25


def test_without_it_heads_attend_to_all_tokens_equally():
    torch.manual_seed(0)
    model = EncoderModel(Encoder(layers=1, heads=4, width=256, inner=64, dropout=0.0), 500)
    assert first_attention(model, torch.randint(500, (60,))).max() < 0.05


def test_everything_may_change_from_the_first_update_on():
    torch.manual_seed(0)
    model = EncoderModel(Encoder(layers=1, heads=2, width=32, inner=64, max_length=16, local_heads=True), 20)
    tokens = torch.randint(20, (2, 16))
    batch = Batch(
        source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool), segments=torch.zeros_like(tokens))
    )
    model(batch).hidden.square().sum().backward()
    assert all(parameter.grad is not None for name, parameter in model.named_parameters() if "pooler" not in name)
    assert model.embed.positions.weight.grad.abs().sum() > 0
