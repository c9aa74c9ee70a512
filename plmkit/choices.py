"""The one registry: what may be named on each axis."""

from typing import Any

from plmkit.architectures.absolute_recurrence import AbsoluteRecurrence
from plmkit.architectures.bert_encoder_decoder import BertEncoderDecoder
from plmkit.architectures.captioner import Captioner
from plmkit.architectures.character_decoder import CharacterDecoder
from plmkit.architectures.co_attention import CoAttention
from plmkit.architectures.contract import Architecture
from plmkit.architectures.decoder import BandedDecoder, Decoder, PostNormDecoder
from plmkit.architectures.elmo import Elmo
from plmkit.architectures.encoder import Encoder
from plmkit.architectures.encoder_decoder import EncoderDecoder, TransformerEncoder
from plmkit.architectures.generator_discriminator import GeneratorDiscriminator
from plmkit.architectures.recurrent import Recurrent
from plmkit.architectures.recurrent_seq2seq import (
    BahdanauSeq2Seq,
    InputFeedingSeq2Seq,
    LuongSeq2Seq,
    RecurrentEncoder,
    RecurrentSeq2Seq,
)
from plmkit.architectures.segment_recurrence import SegmentRecurrence
from plmkit.architectures.shared_encoder import SharedEncoder
from plmkit.architectures.task_encoder import TaskEncoder
from plmkit.architectures.two_stream import TwoStream
from plmkit.architectures.visual_encoder import VisualEncoder
from plmkit.corruption.arrange.both_directions import BothDirections
from plmkit.corruption.arrange.captions import ImageCaptions
from plmkit.corruption.arrange.dialogue import Dialogue, DialogueAndText
from plmkit.corruption.arrange.discourse import DiscoursePairs
from plmkit.corruption.arrange.distance import DistancePairs
from plmkit.corruption.arrange.image_text import ImageText
from plmkit.corruption.arrange.packing import ContiguousSegments, DocSentences, FullSentences, SingleSegment
from plmkit.corruption.arrange.pairs import MixedPairs, OrderedPairs, SentencePairs
from plmkit.corruption.arrange.reorder import ReorderedSentences
from plmkit.corruption.arrange.reuse import ReusedText
from plmkit.corruption.arrange.source_target import SourceTarget
from plmkit.corruption.arrange.stream import ParallelStreams, Stream
from plmkit.corruption.arrange.titles import QueryTitles
from plmkit.corruption.arrange.triples import CorruptedTriples, EntityCloze, MissingEntity, MissingRelation
from plmkit.corruption.contract import Arrangement, Labelling, Masking
from plmkit.corruption.mask.labelling import Capitals, TokenDocument
from plmkit.corruption.mask.permutation import PermutedSpans
from plmkit.corruption.mask.regions import RegionMasking
from plmkit.corruption.mask.span import SpanMasking
from plmkit.corruption.mask.token import DynamicMasking, ReplacedMasking, TokenMasking
from plmkit.corruption.mask.unit import UnitMasking
from plmkit.corruption.mask.word import NgramMasking, WordMasking
from plmkit.objectives.causal_lm import AdaptiveLM, AuxiliaryLM, CausalLM
from plmkit.objectives.contract import Objective
from plmkit.objectives.direction_lm import BackwardLM, ForwardLM
from plmkit.objectives.distillation import SoftTargets
from plmkit.objectives.distillation_states import AttentionMatching, CosineStates, HiddenMatching, RelationMatching
from plmkit.objectives.doubly_stochastic_attention import DoublyStochasticAttention
from plmkit.objectives.image_match import ImageMatch
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.objectives.masked_regions import MaskedRegions
from plmkit.objectives.permuted_lm import PermutedLM
from plmkit.objectives.replaced_token import AdversarialGenerator, GeneratorLM, ReplacedToken
from plmkit.objectives.sentence_pair import NextSentence, RealDialogue, SentenceOrder
from plmkit.objectives.span_boundary import SpanBoundary
from plmkit.objectives.text_classes import DiscourseRelation, SearchRelevance, SentenceDistance, SentenceReordering
from plmkit.objectives.token_classes import CapitalPrediction, TokenDocumentRelation
from plmkit.objectives.translation_lm import TranslationLM
from plmkit.objectives.triples import EntityPrediction, RelationPrediction, TriplePlausibility
from plmkit.schedules.optimizers import Adadelta, Adagrad, Adamax, AdamW, BertAdam, Lamb, Momentum
from plmkit.tokenizers.byte_bpe import ByteBPE, StreamByteBPE
from plmkit.tokenizers.contract import TokenizerSettings
from plmkit.tokenizers.counted import Characters, SentenceWords, Words
from plmkit.tokenizers.unigram import ClosingUnigram, Unigram
from plmkit.tokenizers.word_end_bpe import WordEndBPE
from plmkit.tokenizers.wordpiece import WordPiece

TOKENIZERS: tuple[type[TokenizerSettings], ...] = (
    WordPiece, ByteBPE, StreamByteBPE, WordEndBPE, Unigram, ClosingUnigram, Characters, Words, SentenceWords,
)  # fmt: skip
ARRANGEMENTS: tuple[type[Arrangement[Any]], ...] = (
    SentencePairs, MixedPairs, OrderedPairs, SingleSegment, FullSentences, DocSentences, ContiguousSegments, Dialogue,
    DialogueAndText, Stream, ParallelStreams, ReusedText, SourceTarget, BothDirections,
    ImageCaptions, ImageText, ReorderedSentences, DistancePairs, DiscoursePairs, QueryTitles, MissingEntity,
    EntityCloze, MissingRelation, CorruptedTriples,
)  # fmt: skip
MASKINGS: tuple[type[Masking], ...] = (
    TokenMasking, DynamicMasking, ReplacedMasking, WordMasking, NgramMasking, SpanMasking, UnitMasking, PermutedSpans,
    RegionMasking,
)  # fmt: skip
LABELLINGS: tuple[type[Labelling], ...] = (Capitals, TokenDocument)
ARCHITECTURES: tuple[type[Architecture], ...] = (
    Encoder, TaskEncoder, SharedEncoder, GeneratorDiscriminator, Decoder, BandedDecoder, PostNormDecoder,
    SegmentRecurrence, AbsoluteRecurrence, Recurrent, CharacterDecoder, TwoStream, Elmo,
    EncoderDecoder, TransformerEncoder, BertEncoderDecoder, RecurrentSeq2Seq, LuongSeq2Seq, InputFeedingSeq2Seq,
    BahdanauSeq2Seq, RecurrentEncoder, Captioner, VisualEncoder, CoAttention,
)  # fmt: skip
OBJECTIVES: tuple[type[Objective], ...] = (
    MaskedLM, NextSentence, SentenceOrder, RealDialogue, SpanBoundary, GeneratorLM, ReplacedToken, AdversarialGenerator,
    AdaptiveLM, AuxiliaryLM, CausalLM, PermutedLM, ForwardLM, BackwardLM, TranslationLM, CapitalPrediction,
    TokenDocumentRelation, SentenceReordering, SentenceDistance, DiscourseRelation, SearchRelevance,
    EntityPrediction, RelationPrediction, TriplePlausibility, ImageMatch, MaskedRegions,
    DoublyStochasticAttention,
    SoftTargets, CosineStates, HiddenMatching, AttentionMatching, RelationMatching,
)  # fmt: skip
OPTIMIZERS = (Adadelta, Adagrad, Adamax, AdamW, BertAdam, Lamb, Momentum)
CHOICES: dict[str, tuple[type, ...]] = {  # what can be named in place of what a recipe has
    "tokenizer": TOKENIZERS,
    "corruption": (*ARRANGEMENTS, *MASKINGS, *LABELLINGS),
    "architecture": ARCHITECTURES,
    "objectives": OBJECTIVES,
}
