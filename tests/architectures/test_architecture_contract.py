"""What every architecture promises, run on each: what it declares is what it does."""

from dataclasses import fields, replace

import pytest
import torch

from plmkit.architectures.absolute_recurrence import AbsoluteRecurrence
from plmkit.architectures.bert_encoder_decoder import BertEncoderDecoder
from plmkit.architectures.captioner import Captioner
from plmkit.architectures.co_attention import CoAttention
from plmkit.architectures.contract import Architecture, CacheSettings, GeneratingModel, Model
from plmkit.architectures.decoder import BandedDecoder, Decoder
from plmkit.architectures.elmo import Elmo
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.encoder_decoder import EncoderDecoder, TransformerEncoder
from plmkit.architectures.generator_discriminator import GeneratorDiscriminator
from plmkit.architectures.recurrent_seq2seq import BahdanauSeq2Seq, LuongSeq2Seq, RecurrentEncoder
from plmkit.architectures.segment_recurrence import SegmentRecurrence
from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.architectures.two_stream import TwoStream
from plmkit.architectures.visual_encoder import VisualEncoder
from plmkit.catalogue import CATALOGUE, find
from plmkit.choices import ARCHITECTURES
from plmkit.data.batch import IGNORE, Batch, Side, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.errors import SettingError
from plmkit.objectives.causal_lm import CausalLM

LAYERS, WIDTH, TOKENS, ROWS = 3, 8, 20, 23
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}
SHAPE = {"layers": LAYERS, "heads": 2, "width": WIDTH, "inner": 16, "max_length": 16, **NO_DROPOUT}
CELLS = {"layers": LAYERS, "width": WIDTH, "max_length": 16, "dropout": 0.0}
VARIANTS = {
    "encoder": Encoder(**SHAPE),
    "encoder without pooler": Encoder(**SHAPE, pooler=False, embedding=4),
    "shared encoder": SharedEncoder(**SHAPE, embedding=4),
    "shared attention": SharedEncoder(**SHAPE, embedding=4, sharing="attention"),
    "generator and discriminator": GeneratorDiscriminator(**SHAPE, generator=0.5),
    "decoder": Decoder(**SHAPE),
    "banded decoder": BandedDecoder(**SHAPE, band=3),
    "segment recurrence": SegmentRecurrence(**SHAPE, memory=12),
    "segment recurrence in clusters": SegmentRecurrence(**SHAPE, memory=12, cutoffs=(5, 10), shrink=2),
    "segment recurrence without memory": SegmentRecurrence(**SHAPE, memory=0),
    "absolute recurrence": AbsoluteRecurrence(**SHAPE, memory=12),
    "encoder-decoder": EncoderDecoder(**SHAPE),
    "transformer encoder": TransformerEncoder(**SHAPE),
    "encoder-decoder of bert": BertEncoderDecoder(**SHAPE),
    "elmo": Elmo(**CELLS, cell=12, filters=((1, 3), (2, 4)), highways=1),
    "recurrent encoder": RecurrentEncoder(**CELLS),
    "luong in both directions": LuongSeq2Seq(**CELLS, cell_type="gru"),
    "bahdanau": BahdanauSeq2Seq(**CELLS, embedding=6),
    "captioner": Captioner(**CELLS, cell=WIDTH, features=WIDTH, image_size=16, convolutions=2),
    "visual encoder": VisualEncoder(**SHAPE, features=WIDTH, image_size=16, patch_size=4),
    "visual encoder of patches": VisualEncoder(
        **SHAPE, features=6, image_size=16, patch_size=8, region_encoder="patches"
    ),
    "co-attention": CoAttention(
        **SHAPE,
        features=WIDTH,
        image_size=16,
        patch_size=4,
        visual_layers=2,
        visual_width=12,
        visual_heads=2,
        visual_inner=10,
        joint_layers=2,
        joint_width=WIDTH,
        joint_heads=2,
    ),
    "two streams": TwoStream(**SHAPE, memory=12),
    "two streams with pooler": TwoStream(**SHAPE, memory=0, pooler=True),
}


def shrunk(kind: type[Architecture]) -> Architecture:
    """As in the first recipe that has it, but tiny: a new architecture needs no line here."""
    found = next(recipe.architecture for recipe in map(find, CATALOGUE) if type(recipe.architecture) is kind)
    return replace(found, **{name: value for name, value in SHAPE.items() if name in vars(found)})


LISTED = {type(architecture) for architecture in VARIANTS.values()}
TINY = VARIANTS | {kind.__name__: shrunk(kind) for kind in ARCHITECTURES if kind not in LISTED}
GENERATING = [name for name, architecture in TINY.items() if architecture.generates != "no"]


def vocabulary() -> Vocabulary:
    """Twenty tokens, for a token embedding of 23 rows."""
    names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(TOKENS - 5)))
    return replace(Vocabulary.from_tokens(names), padded=ROWS)


def model_of(architecture: Architecture) -> Model:
    """In float64, and with weights so large that places matter."""
    torch.manual_seed(0)
    model = architecture.build(vocabulary()).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def batch_of(lengths: tuple[int, ...] = (9, 6), last: bool = False) -> Batch:
    """Rows of these lengths, three positions predicted in each; padding after the text, or `last`: before it."""
    torch.manual_seed(1)
    places = torch.arange(max(lengths)).expand(len(lengths), -1)
    visible = places < torch.tensor(lengths)[:, None]
    visible = visible.flip(1) if last else visible
    tokens = torch.randint(5, TOKENS, visible.shape).where(visible, torch.tensor(0))
    predicted = visible & (places % 3 == 1)
    side = Side(tokens=tokens, visible=visible, segments=(places > 3).long())
    images = torch.randint(0, 256, (len(lengths), 3, 16, 16), dtype=torch.uint8)
    return Batch(source=side, targets=tokens.where(predicted, torch.tensor(IGNORE)), images=images)


def test_every_architecture_is_tested_here():
    assert {type(architecture) for architecture in TINY.values()} == set(ARCHITECTURES)
    assert all(issubclass(kind, Architecture) for kind in ARCHITECTURES)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", TINY)
def test_it_fills_the_states_that_it_declares_and_no_others(name, training):
    model = model_of(TINY[name]).train(training)
    states = model(replace(batch_of(), all_layers=True))
    filled = {field.name for field in fields(States) if getattr(states, field.name) is not None}
    assert filled == TINY[name].writes
    assert states.hidden.shape == (2, 9, WIDTH)
    assert states.pooled is None or states.pooled.shape == (2, WIDTH)


@pytest.mark.parametrize("name", TINY)
def test_all_layers_are_given_on_request_and_change_nothing(name):
    model, batch = model_of(TINY[name]), batch_of()
    states, plain = model(replace(batch, all_layers=True)), model(batch)
    assert [layer.shape for layer in states.layers] == [(2, 9, WIDTH)] * (LAYERS + 1)
    torch.testing.assert_close(states.layers[-1], states.hidden)
    torch.testing.assert_close(states.hidden, plain.hidden)
    assert plain.layers is None
    first, *others = states.layers
    assert not any(torch.allclose(first, other) for other in others)


@pytest.mark.parametrize("name", [name for name in TINY if "memory" in TINY[name].writes])
def test_what_is_remembered_of_a_batch_is_read_with_the_next_whether_all_layers_are_wanted_or_not(name):
    model, batch = model_of(TINY[name]), replace(batch_of(), targets=None)
    remembered = replace(batch, memory=model(batch).memory)
    plain, states = model(remembered), model(replace(remembered, all_layers=True))
    assert not torch.allclose(plain.hidden, model(batch).hidden)
    torch.testing.assert_close(states.hidden, plain.hidden)
    for with_layers, without in zip(states.memory, plain.memory, strict=True):
        torch.testing.assert_close(with_layers, without)


@pytest.mark.parametrize("name", TINY)
def test_gradients_are_the_same_with_all_layers(name):
    model, batch = model_of(TINY[name]).train(), batch_of()
    gradients = []
    for all_layers in (False, True):
        model.zero_grad()
        torch.manual_seed(2)
        model(replace(batch, all_layers=all_layers)).hidden.square().sum().backward()
        gradients.append(
            {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
        )
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("name", [name for name in TINY if not TINY[name].reads_characters])
def test_its_token_embedding_has_the_rows_of_the_vocabulary(name):
    architecture, model = TINY[name], model_of(TINY[name])
    assert len(vocabulary()) == TOKENS
    assert (
        architecture.vocabulary_size({f"model.{name}": weight for name, weight in model.state_dict().items()}) == ROWS
    )
    if name != "segment recurrence in clusters":
        assert model.token_embedding.num_embeddings == ROWS
        assert model.get_parameter(architecture.embedding_name.removeprefix("model.")) is model.token_embedding.weight
    assert architecture.vocabulary_size({}) == 0


@pytest.mark.parametrize("name", [name for name in TINY if not TINY[name].networks])
def test_every_weight_is_of_the_embeddings_of_a_layer_or_of_the_pooler(name):
    architecture, model = TINY[name], model_of(TINY[name])
    found = {weight: architecture.layer_of(f"model.{weight}") for weight, _ in model.named_parameters()}
    assert set(found.values()) - {None} == set(range(architecture.own_layers + 1))
    assert {weight.split(".")[0] for weight, layer in found.items() if layer is None} <= {"pooler"}
    steps = {architecture.layer_of(f"model.{weight}"): architecture.decay_steps(f"model.{weight}") for weight in found}
    inner = [steps[layer] for layer in range(1, architecture.own_layers + 1)]
    assert inner == sorted(inner, reverse=True)  # a lower layer learns no faster than a higher one


@pytest.mark.parametrize("name", [name for name in TINY if not TINY[name].describes_images])
def test_for_a_task_it_makes_one_vector_of_a_row_with_the_weights_it_had(name):
    tuned = TINY[name].for_task(0.3)
    assert tuned.dropout == 0.3
    model = model_of(tuned)
    assert model(replace(batch_of(), targets=None)).pooled.shape == (2, WIDTH)
    if not TINY[name].networks:  # of two networks only one is fine-tuned
        own = dict(model_of(TINY[name]).named_parameters())
        tuned = {weight for weight in own if TINY[name].is_tuned(f"model.{weight}")}
        assert tuned - dict(model.named_parameters()).keys() == set()


@pytest.mark.parametrize("name", TINY)
def test_it_generates_only_where_it_says_so(name):
    says = TINY[name].generates != "no" or TINY[name].translates or TINY[name].describes_images
    assert isinstance(model_of(TINY[name]), GeneratingModel) == says


@pytest.mark.parametrize("name", GENERATING)
def test_a_text_read_in_steps_has_the_states_of_a_text_read_at_once(name):
    model = model_of(TINY[name])
    tokens = batch_of((9, 9)).source.tokens
    with torch.no_grad():
        whole = model.extend(tokens, model.begin(CacheSettings(2, 9)))
        cache = model.begin(CacheSettings(2, 9))
        steps = [model.extend(part, cache) for part in tokens.split([4, 1, 1, 3], dim=1)]
    assert cache.length == 9
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)
    if TINY[name].generates == "causal":
        visible = torch.ones_like(tokens, dtype=torch.bool)
        torch.testing.assert_close(model(Batch(source=Side(tokens=tokens, visible=visible))).hidden, whole)


@pytest.mark.parametrize("name", GENERATING)
def test_rows_of_a_cache_can_be_picked_and_the_last_tokens_forgotten_where_it_says_so(name):
    model = model_of(TINY[name])
    tokens = batch_of((9, 9)).source.tokens
    with torch.no_grad():
        whole = model.extend(tokens, model.begin(CacheSettings(2, 9)))
        cache = model.begin(CacheSettings(2, 9))
        model.extend(tokens[:, :6], cache)
        cache.pick(torch.tensor([1, 1, 0]))
        if cache.can_cut:
            cache.cut(4)
            assert cache.length == 4
        else:
            with pytest.raises(NotImplementedError):
                cache.cut(4)
        picked = model.extend(tokens[[1, 1, 0]][:, cache.length :], cache)
    torch.testing.assert_close(picked, whole[[1, 1, 0]][:, -picked.shape[1] :])


@pytest.mark.parametrize("name", ["segment recurrence", "two streams"])
def test_a_text_can_be_read_with_another_context_length_than_the_models_own(name):
    model = model_of(TINY[name])
    tokens = batch_of((9, 9)).source.tokens
    longer = replace(TINY[name], memory=3)
    with torch.no_grad():
        found = model.extend(tokens, model.begin(CacheSettings(2, 9, context_length=4)))
        own = model.extend(tokens, model.begin(CacheSettings(2, 9)))
    torch.testing.assert_close(found[:, :3], own[:, :3])
    assert not torch.allclose(found[:, 6:], own[:, 6:])
    assert longer.context_length == {"segment recurrence": 3, "two streams": 3 + 16}[name]


def test_a_head_cannot_be_tied_to_an_embedding_in_clusters():
    with pytest.raises(SettingError, match="SegmentRecurrence has no single token embedding"):
        CausalLM().build(model_of(TINY["segment recurrence in clusters"]))
    assert model_of(TINY["decoder"]).adaptive_embedding is None
