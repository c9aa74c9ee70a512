"""A paper as five choices: tokenizer, corruption, architecture, objectives, schedule."""

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

from plmkit.architectures.absolute_recurrence import AbsoluteRecurrence
from plmkit.architectures.character_decoder import CharacterDecoder
from plmkit.architectures.decoder import BandedDecoder, Decoder, PostNormDecoder
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.generator_discriminator import GeneratorDiscriminator
from plmkit.architectures.recurrent import Recurrent
from plmkit.architectures.segment_recurrence import SegmentRecurrence
from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.architectures.two_stream import TwoStream
from plmkit.corruption.alternate import DialogueAndText
from plmkit.corruption.arrange import OrderedPairs, SentencePairs
from plmkit.corruption.dialogue import Dialogue
from plmkit.corruption.mixed_pairs import MixedPairs
from plmkit.corruption.ngram import NgramMasking
from plmkit.corruption.packing import DocSentences, FullSentences, SingleSegment
from plmkit.corruption.permutation import PermutedSpans
from plmkit.corruption.reuse import ReusedText
from plmkit.corruption.segments import ContiguousSegments
from plmkit.corruption.span import SpanMasking
from plmkit.corruption.stream import ParallelStreams, Stream
from plmkit.corruption.token import DynamicMasking, ReplacedMasking, TokenMasking
from plmkit.corruption.unit import UnitMasking
from plmkit.corruption.word import WordMasking
from plmkit.data.units.choosing import SEGMENTERS
from plmkit.errors import RecipeError
from plmkit.network import Network
from plmkit.objectives.adaptive_lm import AdaptiveLM
from plmkit.objectives.adversarial_generator import AdversarialGenerator
from plmkit.objectives.auxiliary_lm import AuxiliaryLM
from plmkit.objectives.causal_lm import CausalLM
from plmkit.objectives.generator_lm import GeneratorLM
from plmkit.objectives.learned_weight import LearnedWeight
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.permuted_lm import PermutedLM
from plmkit.objectives.replaced_token import ReplacedToken
from plmkit.objectives.sentence_pair import NextSentence, RealDialogue, SentenceOrder
from plmkit.objectives.span_boundary import SpanBoundary
from plmkit.schedules.optimizers import AdamW, BertAdam, Lamb, Momentum
from plmkit.schedules.schedule import Schedule
from plmkit.schedules.tuning import Tuning
from plmkit.settings import from_json
from plmkit.tokenizers.byte_bpe import ByteBPE, StreamByteBPE
from plmkit.tokenizers.counted import Characters, Words
from plmkit.tokenizers.unigram import ClosingUnigram, Unigram
from plmkit.tokenizers.word_end_bpe import WordEndBPE
from plmkit.tokenizers.wordpiece import WordPiece

TOKENIZERS = (WordPiece, ByteBPE, StreamByteBPE, WordEndBPE, Unigram, ClosingUnigram, Characters, Words)
ARRANGEMENTS = (
    SentencePairs, MixedPairs, OrderedPairs, SingleSegment, FullSentences, DocSentences, ContiguousSegments, Dialogue,
    DialogueAndText, Stream, ParallelStreams, ReusedText,
)  # fmt: skip
HIDINGS = (
    TokenMasking, DynamicMasking, ReplacedMasking, WordMasking, NgramMasking, SpanMasking, UnitMasking, PermutedSpans,
)  # fmt: skip
ARCHITECTURES = (
    Encoder, SharedEncoder, GeneratorDiscriminator, Decoder, BandedDecoder, PostNormDecoder,
    SegmentRecurrence, AbsoluteRecurrence, Recurrent, CharacterDecoder, TwoStream,
)  # fmt: skip
OBJECTIVES = (
    MaskedLM, NextSentence, SentenceOrder, RealDialogue, SpanBoundary, GeneratorLM, ReplacedToken, AdversarialGenerator,
    AdaptiveLM, AuxiliaryLM, CausalLM, PermutedLM,
)  # fmt: skip
WEIGHTINGS = (LearnedWeight,)  # an objective around an objective
OPTIMIZERS = (AdamW, BertAdam, Lamb, Momentum)
CHOICES: dict[str, tuple[type, ...]] = {  # what can be named in place of what a recipe has
    "tokenizer": TOKENIZERS,
    "corruption": (*ARRANGEMENTS, *HIDINGS),
    "architecture": ARCHITECTURES,
    "objectives": OBJECTIVES,
}
Architecture = Any  # one of ARCHITECTURES
Tokenizer = Any  # one of TOKENIZERS


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One paper, or one size of it."""

    name: str
    paper: str
    summary: str
    notes: str = ""  # where the settings leave the paper, and why
    vocabulary: int  # tokens in the paper's own vocabulary, for parameter counts
    tokenizer: Tokenizer
    corruption: tuple[Any, ...]  # the first arranges documents into rows, the others hide
    architecture: Architecture
    objectives: tuple[Any, ...]
    schedule: Schedule
    tuning: Tuning = Tuning()  # of a model that is trained by it

    def __post_init__(self) -> None:
        check_fit(self)

    def build(self, vocabulary: Sized) -> Network:
        model = self.architecture.build(vocabulary)
        heads = {objective.name: objective.build(model) for objective in self.objectives}
        for head in heads.values():
            if hasattr(head, "meet"):  # it asks another head
                head.meet(heads)
        return Network(model, heads, {objective.name: objective.weight for objective in self.objectives})


def is_arrangement(step: Any) -> bool:
    """Whether a step of the corruption, or its class, makes rows of documents; the others hide."""
    return hasattr(step, "plan")


def check_fit(recipe: Recipe) -> None:
    """A recipe whose parts do not fit cannot be built."""
    check_corruption(recipe)
    check_objectives(recipe)
    needed, found = recipe.corruption[0].segments, getattr(recipe.architecture, "segments", None)
    if found is not None and found < needed:
        raise RecipeError(
            f"{recipe.name}: {kind_of(recipe.corruption[0])} tells {needed} segments apart, "
            f"but architecture.segments is {found}. Set architecture.segments={needed}."
        )
    if recipe.schedule.longest > recipe.architecture.longest:
        raise RecipeError(
            f"{recipe.name}: schedule.lengths asks for rows of {recipe.schedule.longest} tokens, "
            f"but architecture.longest is {recipe.architecture.longest}. Change one of them."
        )
    shares = {kind_of(part): part.reuse for part in (*recipe.corruption, recipe.architecture) if hasattr(part, "reuse")}
    if len(set(shares.values())) > 1:
        told = ", ".join(f"{name} has {share}" for name, share in shares.items())
        raise RecipeError(f"{recipe.name}: the part of a row that is read again must be one: {told}. Set all alike.")
    for step in recipe.corruption:
        stages, lengths = getattr(step, "stages", 1), len(recipe.schedule.lengths)
        if stages not in (1, lengths):
            raise RecipeError(
                f"{recipe.name}: {type(step).__name__} has {stages} stages, but schedule.lengths has {lengths}.\n"
                "Give as many entries to schedule.lengths, or one stage for the whole run."
            )


def check_corruption(recipe: Recipe) -> None:
    """One arrangement first, then steps that do not hide what another hid."""
    names = ", ".join(map(kind_of, recipe.corruption)) or "nothing"
    arrangements = [kind_of(step) for step in recipe.corruption if is_arrangement(step)]
    if len(arrangements) != 1 or not is_arrangement(recipe.corruption[0]):
        raise RecipeError(
            f"{recipe.name}: corruption begins with one arrangement of documents into rows, and steps that hide "
            f"follow; found {names}.\nArrangements: {', '.join(kind.__name__ for kind in ARRANGEMENTS)}."
        )
    for number, step in enumerate(recipe.corruption):
        for earlier in recipe.corruption[:number]:
            if both := step.writes & earlier.writes:
                raise RecipeError(
                    f"{recipe.name}: {kind_of(earlier)} and {kind_of(step)} both write {', '.join(sorted(both))}. "
                    "Choose one of them."
                )


def check_objectives(recipe: Recipe) -> None:
    """Each once, and each with what it reads."""
    if not recipe.objectives:
        raise RecipeError(f"{recipe.name}: there is no objective, so nothing to learn. Choose one or more.")
    makers = [*recipe.corruption, recipe.architecture]
    makers += [objective for objective in recipe.objectives if hasattr(objective, "writes")]
    written = frozenset().union(*(maker.writes for maker in makers))
    for number, objective in enumerate(recipe.objectives):
        if objective.name in {earlier.name for earlier in recipe.objectives[:number]}:
            raise RecipeError(f"{recipe.name}: {kind_of(objective)} is there twice. Name each objective once.")
        if missing := objective.reads - written:
            raise RecipeError(
                f"{recipe.name}: {kind_of(objective)} reads {', '.join(sorted(missing))}, "
                f"but none of {', '.join(map(kind_of, makers))} writes it.\n"
                f"Choose a corruption or architecture that does{writers_of(missing)}, or drop the objective."
            )
        if objective.weight < 0:
            raise RecipeError(
                f"{recipe.name}: objectives.{objective.name}.weight is {objective.weight}; it cannot be below 0."
            )
    if not any(objective.weight > 0 for objective in recipe.objectives):
        raise RecipeError(f"{recipe.name}: every objective has the weight 0, so nothing is learnt. Give one a weight.")


def kind_of(choice: Any) -> str:
    return type(choice).__name__


def writers_of(wanted: frozenset[str]) -> str:
    """` (A or B)`, the steps that write something of it."""
    known = [kind.__name__ for kind in (*ARRANGEMENTS, *HIDINGS) if wanted & kind.writes]
    known += ["architecture.pooler=true"] if "pooled" in wanted else []
    return f" ({' or '.join(known)})" if known else ""


def recipe_from_json(data: dict[str, Any]) -> Recipe:
    axes = (*TOKENIZERS, *ARRANGEMENTS, *HIDINGS, *ARCHITECTURES, *OBJECTIVES, *WEIGHTINGS)
    kinds = (*axes, *SEGMENTERS, *OPTIMIZERS, Schedule, Tuning, Recipe)
    return from_json(data, {kind.__name__: kind for kind in kinds})
