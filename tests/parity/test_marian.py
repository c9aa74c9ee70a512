"""Our Transformer equals torch's layers and Hugging Face's Marian on copied random weights, every gradient included."""

import pytest
import torch
from copies import CLOSE, roughen
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from plmkit.architectures.encoder_decoder import EncoderDecoder, decoder_block, encoder_block
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.layers.packing import Packing
from plmkit.network import Network
from plmkit.objectives.translation_lm import TranslationLM

WIDTH, HEADS, INNER, TOKENS, START = 24, 4, 40, 61, 60
SHAPE = EncoderDecoder(
    layers=2, heads=HEADS, width=WIDTH, inner=INNER, max_length=20, dropout=0.0, attention_bias=True, epsilon=1e-5,
    positions="halves",
)  # fmt: skip


def side(*lengths: int, seed: int) -> Side:
    torch.manual_seed(seed)
    visible = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Side(tokens=torch.randint(1, START, visible.shape).where(visible, torch.tensor(0)), visible=visible)


def copy(ours: nn.Module, weights: dict[str, Tensor]) -> None:
    """Our weights by the names that they have here; those of three projections are joined."""
    ours.load_state_dict(weights)


def copied_block(theirs: nn.Module) -> dict[str, Tensor]:
    """A layer of torch under our names."""
    own = dict(theirs.state_dict())
    found = {}
    for kind in ("weight", "bias"):
        found[f"attention.query_key_value.{kind}"] = own[f"self_attn.in_proj_{kind}"]
        found[f"attention.output.{kind}"] = own[f"self_attn.out_proj.{kind}"]
        found[f"feed_forward.expand.{kind}"] = own[f"linear1.{kind}"]
        found[f"feed_forward.contract.{kind}"] = own[f"linear2.{kind}"]
        norms = ["attention_norm", "feed_forward_norm"]
        if f"multihead_attn.in_proj_{kind}" in own:
            query, keys = own[f"multihead_attn.in_proj_{kind}"].tensor_split([WIDTH])
            found |= {f"cross_attention.query.{kind}": query, f"cross_attention.key_value.{kind}": keys}
            found[f"cross_attention.output.{kind}"] = own[f"multihead_attn.out_proj.{kind}"]
            norms.insert(1, "cross_norm")
        found |= {f"{norm}.{kind}": own[f"norm{number}.{kind}"] for number, norm in enumerate(norms, start=1)}
    return found


def compare(ours: nn.Module, theirs: nn.Module, inputs: list[Tensor]) -> None:
    """Gradients of all weights, and of the inputs, are equal; the loss was backpropagated through both."""
    expected = copied_block_gradients(theirs)
    for name, weight in ours.named_parameters():
        torch.testing.assert_close(weight.grad, expected[name], msg=lambda text, name=name: f"{name}: {text}", **CLOSE)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, **CLOSE)


def copied_block_gradients(theirs: nn.Module) -> dict[str, Tensor]:
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(weight.grad)
    return copied_block(theirs)


def test_an_encoder_layer_equals_torchs():
    torch.manual_seed(0)
    theirs = roughen(nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, dropout=0.0, batch_first=True))
    ours = encoder_block(SHAPE)
    copy(ours, copied_block(theirs))
    visible = torch.arange(9) < torch.tensor([9, 6, 2])[:, None]
    hidden = torch.randn(3, 9, WIDTH)
    one, other = hidden.clone().requires_grad_(), hidden.clone().requires_grad_()
    packing = Packing(visible)
    made = packing.unpack(ours(packing.pack(one), packing))[visible]
    expected = theirs(other, src_key_padding_mask=~visible)[visible]
    torch.testing.assert_close(made, expected, **CLOSE)
    for found in (made, expected):
        found.square().sum().backward()
    compare(ours, theirs, [one, other])


def test_a_decoder_layer_equals_torchs():
    torch.manual_seed(0)
    theirs = roughen(nn.TransformerDecoderLayer(WIDTH, HEADS, INNER, dropout=0.0, batch_first=True))
    ours = decoder_block(SHAPE, bias=True)
    copy(ours, copied_block(theirs))
    seen, visible = (torch.arange(n) < torch.tensor(lengths)[:, None] for n, lengths in ((7, (3, 7)), (5, (5, 4))))
    encoded, hidden = torch.randn(2, 7, WIDTH), torch.randn(2, 5, WIDTH)
    one, other = encoded.clone().requires_grad_(), encoded.clone().requires_grad_()
    source, target = Packing(seen), Packing(visible)
    keys = ours.cross_attention.read(source.pack(one), source)
    made = target.unpack(ours(target.pack(hidden), target, keys))[visible]
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    expected = theirs(
        hidden, other, tgt_mask=causal, tgt_key_padding_mask=torch.zeros(2, 5).masked_fill(~visible, -torch.inf),
        memory_key_padding_mask=~seen,
    )[visible]  # fmt: skip
    torch.testing.assert_close(made, expected, **CLOSE)
    for found in (made, expected):
        found.square().sum().backward()
    compare(ours, theirs, [one, other])


def from_marian(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Marian's weights, or their gradients, under our names."""
    found = {"embed.tokens.weight": weights["model.shared.weight"]}
    for stack, blocks, norms in (
        ("encoder", "blocks", {"self_attn": "attention"}),
        ("decoder", "decoder", {"self_attn": "attention", "encoder_attn": "cross_attention"}),
    ):
        for layer in range(SHAPE.layers):
            theirs, own = f"model.{stack}.layers.{layer}.", f"{blocks}.{layer}."
            for kind in ("weight", "bias"):
                for their, our in norms.items():
                    part = {name: weights[f"{theirs}{their}.{name}_proj.{kind}"] for name in ("q", "k", "v", "out")}
                    if our == "attention":
                        found[f"{own}attention.query_key_value.{kind}"] = torch.cat([part["q"], part["k"], part["v"]])
                    else:
                        found[f"{own}cross_attention.query.{kind}"] = part["q"]
                        found[f"{own}cross_attention.key_value.{kind}"] = torch.cat([part["k"], part["v"]])
                    found[f"{own}{our}.output.{kind}"] = part["out"]
                    norm = "cross_norm" if our == "cross_attention" else "attention_norm"
                    found[f"{own}{norm}.{kind}"] = weights[f"{theirs}{their}_layer_norm.{kind}"]
                found[f"{own}feed_forward.expand.{kind}"] = weights[f"{theirs}fc1.{kind}"]
                found[f"{own}feed_forward.contract.{kind}"] = weights[f"{theirs}fc2.{kind}"]
                found[f"{own}feed_forward_norm.{kind}"] = weights[f"{theirs}final_layer_norm.{kind}"]
    return found


@pytest.fixture
def marian():
    torch.manual_seed(3)
    shape = {f"{stack}_{name}": value for stack in ("encoder", "decoder")
             for name, value in (("layers", 2), ("attention_heads", HEADS), ("ffn_dim", INNER))}  # fmt: skip
    config = MarianConfig(
        vocab_size=TOKENS, d_model=WIDTH, max_position_embeddings=20, activation_function="relu", dropout=0.0,
        scale_embedding=True, pad_token_id=0, decoder_start_token_id=START, eos_token_id=1, init_std=0.3, **shape,
    )  # fmt: skip
    theirs = roughen(MarianMTModel(config), ("bias", "layer_norm"))
    model = SHAPE.build(unnamed(TOKENS))
    copy(model, from_marian(theirs.state_dict()))
    return theirs, Network(model, {"translation_lm": TranslationLM().build(model)}, {"translation_lm": 1.0})


def pair() -> Batch:
    source, target = side(7, 4, 6, seed=1), side(5, 6, 2, seed=2)
    read = target.tokens.roll(1, 1)
    read[:, 0] = START
    return Batch(
        source=source,
        target=Side(tokens=read, visible=target.visible),
        targets=target.tokens.where(target.visible, torch.tensor(IGNORE)),
    )


def run_marian(theirs: MarianMTModel, batch: Batch):
    return theirs(
        input_ids=batch.source.tokens, attention_mask=batch.source.visible.long(),
        decoder_input_ids=batch.target.tokens, output_hidden_states=True, labels=batch.targets,
    )  # fmt: skip


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_states_logits_and_loss_equal_marians(marian, training):
    theirs, ours = (network.train(training) for network in marian)
    batch = pair()
    expected, states = run_marian(theirs, batch), ours.model(batch)
    seen = batch.target.visible
    torch.testing.assert_close(states.hidden[seen], expected.decoder_hidden_states[-1][seen], **CLOSE)
    logits = ours.heads["translation_lm"].answers(states, batch)
    torch.testing.assert_close(logits[seen], expected.logits[seen], **CLOSE)
    torch.testing.assert_close(ours(batch).losses["translation_lm"], expected.loss, **CLOSE)
    encoded = ours.model(Batch(source=batch.source)).hidden[batch.source.visible]
    torch.testing.assert_close(encoded, expected.encoder_hidden_states[-1][batch.source.visible], **CLOSE)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_every_gradient_equals_marians(marian, smoothing):
    theirs, ours = marian
    ours.heads["translation_lm"] = TranslationLM(smoothing=smoothing).build(ours.model)
    batch = pair()
    loss = sum(ours.train()(batch).weighted.values())
    logits = run_marian(theirs.train(), batch).logits.flatten(0, 1)
    expected = nn.functional.cross_entropy(logits, batch.targets.flatten(), label_smoothing=smoothing)
    torch.testing.assert_close(loss, expected, **CLOSE)
    for total in (loss, expected):
        total.backward()
    gradients = from_marian(
        {name: weight.grad for name, weight in theirs.named_parameters() if weight.grad is not None}
    )
    own = {name: weight.grad for name, weight in ours.model.named_parameters()}
    assert own.keys() == gradients.keys()
    for name, gradient in own.items():
        torch.testing.assert_close(gradient, gradients[name], msg=lambda text, name=name: f"{name}: {text}", **CLOSE)
