"""Our heads of tasks equal those of every class of transformers on copied weights: outputs, loss, gradients, to 1e-5.

XLNet's own head for answers is in test_answering.py.
"""

import pytest
import torch
import transformers
from copies import CLOSE, VOCABULARY, gradients_of, network_of, roughen

from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.interop.families import FAMILIES
from plmkit.interop.naming import from_huggingface
from plmkit.interop.task_heads import TASK_HEADS
from plmkit.tasks.answering.heads import SpanHead
from plmkit.tasks.heads import ChoiceHead, ClassHead, NumberHead
from plmkit.tasks.tagging.heads import TagHead
from plmkit.training.checkpoint import put_weights

ROWS, LENGTH, WIDTH = 4, 12, 24
SHAPES = {
    "gpt2": {"n_embd": WIDTH, "n_layer": 2, "n_head": 4, "n_positions": 20, "pad_token_id": 0},
    "openai-gpt": {"n_embd": WIDTH, "n_layer": 2, "n_head": 4, "n_positions": 20, "pad_token_id": 0},
    "distilbert": {"dim": WIDTH, "n_layers": 2, "n_heads": 4, "hidden_dim": 40, "max_position_embeddings": 20},
    "xlnet": {"d_model": WIDTH, "n_layer": 2, "n_head": 4, "d_inner": 40, "mem_len": None},
}
ENCODER = {
    "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40,
    "max_position_embeddings": 20, "embedding_size": 16,
}  # fmt: skip
REGRESSORS = [(family, name, "number") for family in FAMILIES for name in family.CLASSES if "SequenceClass" in name]
CLASSES = [
    (family, name, head)
    for family in FAMILIES
    for name, outputs in family.CLASSES.items()
    for head in outputs
    if head in TASK_HEADS and head != "conditional_span"
]
LABELS = {
    "label": torch.tensor([2, 0, 1, 2]),
    "number": torch.tensor([0.5, -1.0, 2.0, 0.1]),
    "choice": torch.tensor([1, 0]),  # of two choices each
    "tag": torch.tensor([[IGNORE, 0, 4, IGNORE, 2, 1, 3, 3, IGNORE, 0, 1, IGNORE]] * ROWS),
    "span": torch.tensor([[3, 5], [1, 1], [0, 0], [7, 11]]),
}
OUTPUTS = {"label": 3, "number": 1, "choice": 2, "tag": 5, "span": 2}


def head_of(kind: str, architecture):
    """Ours, without dropout."""
    whole = {"width": WIDTH, "dropout": 0.0, "bias": architecture.head_bias}
    return {
        "label": lambda: ClassHead(outputs=3, **whole), "number": lambda: NumberHead(**whole),
        "choice": lambda: ChoiceHead(**whole), "tag": lambda: TagHead(width=WIDTH, tags=5, dropout=0.0),
        "span": lambda: SpanHead(width=WIDTH, n_best=4),
    }[kind]()  # fmt: skip


def rows(kind: str) -> Batch:
    """Rows without padding, which transformers' loss for answers would count as positions."""
    torch.manual_seed(5)
    tokens = torch.randint(2, VOCABULARY, (ROWS, LENGTH))  # RoBERTa counts no position for its padding, 1
    segments = (torch.arange(LENGTH) > 4).long().expand(ROWS, -1)
    words = torch.stack([torch.zeros(LENGTH, dtype=torch.long), torch.arange(LENGTH)], -1).expand(ROWS, -1, -1)
    return Batch(
        source=Side(tokens=tokens, visible=torch.ones_like(tokens, dtype=torch.bool), segments=segments),
        labels=LABELS[kind], words=words if kind == "tag" else None,
        alternatives=torch.tensor([0, 0, 1, 1]) if kind == "choice" else None,
    )  # fmt: skip


def run_theirs(network, family, batch: Batch, kind: str):
    given = {"input_ids": batch.source.tokens, "attention_mask": batch.source.visible.long()}
    if family.SEGMENTS:
        given["token_type_ids"] = batch.source.segments
    if kind == "choice":
        given = {name: value.unflatten(0, (2, 2)) for name, value in given.items()}
    if kind == "span":
        given |= dict(zip(("start_positions", "end_positions"), batch.labels.unbind(1), strict=True))
        return network(**given)
    return network(**given, labels=batch.labels)


@pytest.mark.parametrize(
    ("family", "name", "kind"), [*CLASSES, *REGRESSORS], ids=lambda given: given if isinstance(given, str) else ""
)
def test_outputs_loss_and_every_gradient_are_equal(family, name, kind):
    torch.manual_seed(3)
    made = getattr(transformers, name)
    shape = SHAPES.get(family.MODEL_TYPE, ENCODER)
    spread = {"initializer_range": 0.3, "num_labels": OUTPUTS[kind], "architectures": [name]}
    more = {"problem_type": "regression"} if kind == "number" else {}
    theirs = roughen(made(made.config_class(vocab_size=VOCABULARY, **shape, **spread, **more)), ("bias", "norm", "ln_"))
    theirs.eval()
    settings = family.architecture(theirs.config.to_dict(), where=None)
    if settings.optional_pooler:
        settings = settings.with_settings(pooler=kind in ("label", "number", "choice"))
    head = "label" if kind == "number" else kind
    ours = network_of(settings, {head: head_of(kind, settings)}).eval()
    put_weights(ours, from_huggingface(theirs.state_dict(), family, settings, name), source=None)
    batch = rows(kind)
    their = run_theirs(theirs, family, batch, kind)
    logits = their.logits if kind != "span" else torch.stack([their.start_logits, their.end_logits], -1)
    torch.testing.assert_close(ours.heads[head].logits(ours.model(batch), batch), logits, **CLOSE)
    loss = ours(batch).losses[head]
    torch.testing.assert_close(loss, their.loss, **CLOSE)
    loss.backward()
    their.loss.backward()
    own = {name: gradient for name, gradient in gradients_of(theirs).items() if gradient is not None}
    wanted = from_huggingface(own, family, settings, name)
    found = {name: gradient for name, gradient in gradients_of(ours).items() if gradient is not None}
    assert found.keys() == wanted.keys()
    for weight, gradient in found.items():
        torch.testing.assert_close(
            gradient, wanted[weight], **CLOSE, msg=lambda text, weight=weight: f"{weight}: {text}"
        )
    assert all(gradient.abs().max() > 1e-5 for weight, gradient in found.items() if not weight.endswith("bias"))
    assert f"heads.{head}.classify.weight" in found


def test_every_family_of_encoders_has_every_head():
    ends = ("SequenceClassification", "MultipleChoice", "TokenClassification", "QuestionAnswering")
    for family in FAMILIES:
        missing = {end for end in ends if not any(f"For{end}" in name for name in family.CLASSES)}
        # so does transformers; what VisualBert is fine-tuned for there reads images
        lacks = {"gpt2": {"MultipleChoice"}, "openai-gpt": set(ends[1:]), "visual_bert": set(ends)}
        assert missing == lacks.get(family.MODEL_TYPE, set())
