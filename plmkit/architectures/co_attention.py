"""Text and image in two streams that attend to each other (Lu et al., 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from plmkit.architectures.checks import check_heads, check_sizes
from plmkit.architectures.encoder import EncoderModel
from plmkit.architectures.seeing import SeeingEncoder, Seen, eye_of, look_at
from plmkit.data.batch import Batch, States
from plmkit.data.vocabulary import Vocabulary
from plmkit.initialisation.weights import INITIALISERS
from plmkit.layers.attention import CrossAttention, SelfAttention
from plmkit.layers.packing import Packing
from plmkit.layers.transformer import Dropout, FeedForward, PostNormBlock

BOX = 5  # left, top, right, bottom and area


@dataclass(frozen=True, kw_only=True)
class CoAttention(SeeingEncoder):
    """A BERT for the text and one for image regions, joined by co-attention blocks (Lu et al., 2019).

    Each co-attention block comes before one of the last layers of either stream.
    """

    visual_layers: int = 6  # of the stream of regions
    visual_width: int = 1024  # of its hidden states
    visual_heads: int = 8  # its attention heads per layer
    visual_inner: int = 1024  # width inside its feed-forward sublayers
    joint_layers: int = 6  # co-attention blocks
    joint_width: int = 1024  # of their queries, keys and values, and of the vectors that are compared
    joint_heads: int = 8  # their attention heads

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, "visual_layers", "visual_inner", "joint_layers")
        check_heads(self.visual_width, self.visual_heads)
        check_heads(self.joint_width, self.joint_heads)

    @property
    def writes(self) -> frozenset[str]:
        return frozenset({"hidden", "layers", "pooled", "region_hidden", "region_inputs", "region_visible"})

    @property
    def pooled_width(self) -> int:
        return self.joint_width

    def before(self, layers: int, number: int) -> int:
        """The layer of a stream that a co-attention block comes before."""
        return max(0, layers - self.joint_layers + number)

    def layer_of(self, name: str) -> int | None:
        part, *rest = name.removeprefix("model.").split(".")
        if part == "visual_blocks":
            return min(self.layers, 1 + self.layers - self.visual_layers + int(rest[0])) if self.layers else 0
        if part == "joint":
            return 1 + min(self.layers - 1, self.before(self.layers, int(rest[0])))
        return super().layer_of(name)

    def is_tuned(self, name: str) -> bool:
        return not name.removeprefix("model.").startswith(("eye.", "visual", "joint.", "text_pooler."))

    def build(self, vocabulary: Vocabulary) -> "CoAttentionModel":
        return CoAttentionModel(self, vocabulary.rows)


class CoAttentionModel(EncoderModel):
    def __init__(self, settings: CoAttention, vocabulary_size: int) -> None:
        super().__init__(replace(settings, pooler=False), vocabulary_size)
        self.settings = settings
        self.visual = RegionEmbedding(settings)
        self.visual_blocks = nn.ModuleList(visual_block(settings) for _ in range(settings.visual_layers))
        self.joint = nn.ModuleList(CoAttentionBlock(settings) for _ in range(settings.joint_layers))
        self.text_pooler = nn.Linear(settings.width, settings.joint_width)
        self.visual_pooler = nn.Linear(settings.visual_width, settings.joint_width)
        self.pooled_dropout = Dropout(settings.dropout)
        for part in (self.visual, self.visual_blocks, self.joint, self.text_pooler, self.visual_pooler):
            INITIALISERS[settings.initialiser](part)
        self.eye = eye_of(settings)

    def forward(self, batch: Batch) -> States:
        seen = look_at(batch, self.eye, self.settings)
        if seen is None:
            return super().forward(batch)
        settings = self.settings
        texts, images = Packing(batch.source.visible), Packing(whole_image(seen.visible))
        tokens, segments = texts.pack(batch.source.tokens), texts.pack(batch.source.segment_ids)
        text = self.embed(tokens, segments, settings.first + texts.positions())
        if self.project is not None:
            text = self.project(text)
        image = images.pack(self.visual(seen))
        inputs = [text]
        begin, seen_to = 0, 0
        for number, joint in enumerate(self.joint):
            end, see_to = settings.before(settings.layers, number), settings.before(settings.visual_layers, number)
            text = through(self.blocks[begin:end], text, texts, inputs)
            image = through(self.visual_blocks[seen_to:see_to], image, images)
            text, image = joint(text, texts, image, images)
            begin, seen_to = end, see_to
        text = through(self.blocks[begin:], text, texts, inputs)
        image = through(self.visual_blocks[seen_to:], image, images)
        both = self.text_pooler(text[texts.first]).relu() * self.visual_pooler(image[images.first]).relu()
        return States(
            hidden=texts.unpack(text),
            layers=tuple(map(texts.unpack, inputs)) if batch.all_layers else None,
            pooled=self.pooled_dropout(both),
            region_hidden=images.unpack(image)[:, 1:],
            region_inputs=seen.inputs,
            region_visible=seen.visible,
        )


def whole_image(visible: Tensor) -> Tensor:
    """(B, 1 + R): the image as a whole comes before its regions."""
    return torch.cat([torch.ones_like(visible[:, :1]), visible], 1)


def through(
    blocks: nn.ModuleList | Sequence[nn.Module], hidden: Tensor, packing: Packing, kept: list[Tensor] | None = None
) -> Tensor:
    """Hidden states after these blocks; `kept` gets those after each."""
    for block in blocks:
        hidden = block(hidden, packing)
        if kept is not None:
            kept.append(hidden)
    return hidden


def visual_block(settings: CoAttention) -> PostNormBlock:
    return PostNormBlock(
        SelfAttention(settings.visual_width, settings.visual_heads, settings.attention_dropout),
        FeedForward(settings.visual_width, settings.visual_inner, settings.activation),
        width=settings.visual_width,
        dropout=settings.dropout,
        epsilon=settings.epsilon,
    )


class RegionEmbedding(nn.Module):
    """Features and boxes of regions, after those of the image as a whole: the mean of all that are not masked."""

    def __init__(self, settings: CoAttention) -> None:
        super().__init__()
        self.features = nn.Linear(settings.features, settings.visual_width)
        self.boxes = nn.Linear(BOX, settings.visual_width)
        self.norm = nn.LayerNorm(settings.visual_width, eps=settings.epsilon)
        self.dropout = Dropout(settings.dropout)

    def forward(self, seen: Seen) -> Tensor:
        shown = seen.shown[..., None].to(seen.features.dtype)
        mean = (seen.features * shown).sum(1, keepdim=True) / shown.sum(1, keepdim=True).clamp(min=1)
        features = torch.cat([mean, seen.features], 1)
        all_of_it = seen.boxes.new_tensor([0.0, 0.0, 1.0, 1.0]).expand(len(seen.boxes), 1, 4)
        boxes = with_area(torch.cat([all_of_it, seen.boxes], 1))
        return self.dropout(self.norm(self.features(features) + self.boxes(boxes)))


def with_area(boxes: Tensor) -> Tensor:
    """(..., 4) → (..., 5): left, top, right, bottom, and the share of the image that is inside."""
    left, top, right, bottom = boxes.unbind(-1)
    return torch.cat([boxes, ((right - left) * (bottom - top))[..., None]], -1)


class CoAttentionBlock(nn.Module):
    """Queries of each stream attend to keys and values of the other alone; then each has a feed-forward sublayer."""

    def __init__(self, settings: CoAttention) -> None:
        super().__init__()
        width, visual, joint = settings.width, settings.visual_width, settings.joint_width
        heads, share = settings.joint_heads, settings.attention_dropout
        self.to_image = CrossAttention(width, heads, share, source_width=visual, inside=joint)
        self.to_text = CrossAttention(visual, heads, share, source_width=width, inside=joint)
        self.text = Sublayers(width, settings.inner, settings)
        self.image = Sublayers(visual, settings.visual_inner, settings)

    def forward(self, text: Tensor, texts: Packing, image: Tensor, images: Packing) -> tuple[Tensor, Tensor]:
        to_text = self.to_image(text, texts, self.to_image.read(image, images))
        to_image = self.to_text(image, images, self.to_text.read(text, texts))
        return self.text(text, to_text), self.image(image, to_image)


class Sublayers(nn.Module):
    """What a stream makes of what it read in the other: norm(x + read), then norm(x + feed_forward(x))."""

    def __init__(self, width: int, inner: int, settings: CoAttention) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, eps=settings.epsilon)
        self.feed_forward = FeedForward(width, inner, settings.activation)
        self.feed_forward_norm = nn.LayerNorm(width, eps=settings.epsilon)
        self.dropout = Dropout(settings.dropout)

    def forward(self, hidden: Tensor, read: Tensor) -> Tensor:
        hidden = self.attention_norm(self.dropout.add(hidden, read))
        return self.feed_forward_norm(self.dropout.add(hidden, self.feed_forward(hidden)))
