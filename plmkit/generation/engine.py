"""Prompts to texts: checked, in batches of similar length, decoded greedily, by sampling or by beam search."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from plmkit.architectures.contract import GeneratingModel
from plmkit.errors import InputError, SettingError
from plmkit.generation.beam_search import beam_search, search_of
from plmkit.generation.decoding import decode_with_lookup, sample
from plmkit.generation.language_model import LanguageModel
from plmkit.generation.options import GenerationOptions
from plmkit.generation.sequence import GeneratedSequence, GeneratedText, can_produce
from plmkit.language import tr
from plmkit.tokenizers.tokenizer import Tokenizer

BATCH_SIZE = 32
ROWS = 128  # of a beam search: beams of several prompts


class Engine:
    """Generates text with a language model and its tokenizer."""

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer, max_length: int | None) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.max_length = max_length  # tokens of prompt and text together; None: unlimited
        self.end: int = tokenizer.vocabulary.end
        self.uses_lookup = True  # prompt lookup decoding if one text is decoded greedily

    def generate(self, prompts: Sequence[str], options: GenerationOptions) -> list[GeneratedText]:
        """`n` texts per prompt, in order."""
        return [text for text in self.stream(prompts, options) if isinstance(text, GeneratedText)]

    def stream(self, prompts: Sequence[str], options: GenerationOptions) -> Iterator[str | GeneratedText]:
        """The pieces of each text, as soon as they are final, and then its result; one text after the other.

        All texts are decoded in batches; beam search yields nothing before the search for a prompt has ended.
        """
        self.check_stops(options)
        encoded = [self.encode(prompt) for prompt in prompts]
        if options.beams is not None:
            for text in self.search(
                [self.sequence(*row, options, 0, 0) for row in zip(prompts, encoded, strict=True)], options
            ):
                yield text.text
                yield text
            return
        sequences = [
            self.sequence(prompt, encoded[number], options, number, sample)
            for number, prompt in enumerate(prompts)
            for sample in range(options.n)
        ]
        places = {sequence: place for place, sequence in enumerate(sequences)}
        turn, emitted = 0, 0  # the text that is streamed, and the number of its pieces so far
        batches = by_prompt_length(sequences, options.tokens)
        for batch in sorted(batches, key=lambda batch: min(places[sequence] for sequence in batch)):
            for _ in self.decode(batch, options):
                while turn < len(sequences):
                    yield from sequences[turn].pieces[emitted:]
                    emitted = len(sequences[turn].pieces)
                    if sequences[turn].ended is None:
                        break
                    yield sequences[turn].result()
                    turn, emitted = turn + 1, 0

    @torch.inference_mode()
    def decode(self, batch: Sequence[GeneratedSequence], options: GenerationOptions) -> Iterator[tuple[int, str]]:
        if options.greedy and len(batch) == 1 and self.uses_lookup:
            yield from decode_with_lookup(self.model, batch[0])
        else:
            yield from decode_batch(self.model, batch, options)

    @torch.inference_mode()
    def search(self, sequences: Sequence[GeneratedSequence], options: GenerationOptions) -> Iterator[GeneratedText]:
        """The best `n` texts of each prompt, in order; prompts of the same number of tokens are searched together."""
        assert options.beams is not None
        searches = [search_of(sequence, options) for sequence in sequences]
        turn = 0
        for batch in of_one_length(sequences, max(1, ROWS // options.beams)):
            some = [sequences[number] for number in batch]
            length = max(len(sequence.prompt) + sequence.max_tokens for sequence in some)
            cache, last = self.model.prefill([sequence.prompt for sequence in some], length)
            beam_search(self.model, [searches[number] for number in batch], cache, last)
            while turn < len(searches) and searches[turn].over:
                yield from (sequence.result(score) for sequence, score in searches[turn].best)
                turn += 1

    def encode(self, prompt: str) -> list[int]:
        """The tokens of a prompt, which must not be empty or too long."""
        tokens = self.tokenizer.encode(prompt)
        if not tokens:
            new_text = (
                tr(", or {token} to begin a new text", token=self.tokenizer.vocabulary.tokens[self.end])
                if self.end >= 0
                else ""
            )
            raise InputError(tr("The prompt is empty. Give a text to continue{new_text}.", new_text=new_text))
        if self.max_length is not None and len(tokens) >= self.max_length:
            raise InputError(
                tr(
                    "The prompt has {tokens:,} tokens, but the context of this model is {max_length:,} tokens, "
                    "including new ones. Shorten the prompt.",
                    tokens=len(tokens),
                    max_length=self.max_length,
                )
            )
        return tokens

    def check_stops(self, options: GenerationOptions) -> None:
        for stop in options.stop:
            if not can_produce(self.tokenizer, stop):
                decoded = self.tokenizer.decode(self.tokenizer.encode_plain(stop))
                why = (
                    tr("this model's tokenizer reads it as {decoded!r}", decoded=decoded)
                    if decoded
                    else tr("this model's tokenizer ignores it")
                )
                raise SettingError(
                    tr("The stop string {stop!r} can never be generated: {why}. Use another.", stop=stop, why=why)
                )

    def with_cache(self, context_length: int | None, clamp: int | None) -> "Engine":
        """The same engine with another context length and another maximum distance."""
        return Engine(self.model.with_cache(context_length, clamp), self.tokenizer, self.max_length)

    def sequence(
        self, prompt: str, tokens: list[int], options: GenerationOptions, number: int, sample: int
    ) -> GeneratedSequence:
        most = options.tokens if self.max_length is None else min(options.tokens, self.max_length - len(tokens))
        return GeneratedSequence(prompt, tokens, options, self.tokenizer, max_tokens=most, key=(number, sample))


def by_prompt_length(sequences: Sequence[GeneratedSequence], tokens: int) -> Iterator[list[GeneratedSequence]]:
    """Batches of prompts of similar length: a longer prompt is still read while shorter ones are continued."""
    batch: list[GeneratedSequence] = []
    for sequence in sorted(sequences, key=lambda sequence: len(sequence.prompt)):
        if batch and (len(batch) == BATCH_SIZE or len(sequence.prompt) - len(batch[0].prompt) > tokens):
            yield batch
            batch = []
        batch.append(sequence)
    if batch:
        yield batch


def of_one_length(sequences: Sequence[GeneratedSequence], size: int) -> list[list[int]]:
    """The numbers of sequences in batches of up to `size` prompts of the same length, in the order of their first."""
    batches: list[list[int]] = []
    filling: dict[int, list[int]] = {}
    for number, sequence in enumerate(sequences):
        batch = filling.get(len(sequence.prompt))
        if batch is None or len(batch) == size:
            batch = filling[len(sequence.prompt)] = []
            batches.append(batch)
        batch.append(number)
    return batches


def decode_batch(
    model: LanguageModel, sequences: Sequence[GeneratedSequence], options: GenerationOptions
) -> Iterator[tuple[int, str]]:
    """Continue all sequences; yields the number of a sequence and its next text as soon as that is final.

    Nothing is padded: a longer prompt is still being read while a shorter one is already continued.
    """
    if options.greedy:
        model.expect(max(sequence.max_tokens for sequence in sequences))
    length = max(len(sequence.prompt) + sequence.max_tokens for sequence in sequences)
    cache, last = model.prefill([sequence.prompt for sequence in sequences], length)
    in_cache = list(range(len(sequences)))  # the sequence of each row of the cache
    while True:
        chosen = next_tokens(model, last, options, [sequences[number] for number in in_cache], cache.length)
        tokens = []
        for number, token in zip(in_cache, chosen, strict=True):
            sequence = sequences[number]
            if len(sequence.prompt) > cache.length:
                token = sequence.prompt[cache.length]
            elif sequence.ended is None:
                yield number, sequence.add(token)
            tokens.append([token])
        live = [number for number in in_cache if sequences[number].ended is None]
        if not live:
            return
        if 2 * len(live) <= len(in_cache):
            kept = [row for row, number in enumerate(in_cache) if number in live]
            cache.pick(torch.tensor(kept, device=model.device))
            in_cache, tokens = live, [tokens[row] for row in kept]
        last = model.extend(tokens, cache)[:, -1]


def next_tokens(
    model: LanguageModel, last: Tensor, options: GenerationOptions, sequences: Sequence[GeneratedSequence], length: int
) -> list[int]:
    """The next token of each sequence; one that still reads its prompt uses no random number."""
    if options.greedy:
        return model.argmax(last).tolist()
    uniform = torch.tensor([one.rng.random() if len(one.prompt) <= length else 0.0 for one in sequences])
    return sample(model.logits(last), options, uniform).tolist()


def engine_for(
    model: GeneratingModel[Any], head: nn.Module, tokenizer: Tokenizer, max_length: int | None, device: torch.device, *,
    causal: bool = False,
) -> Engine:  # fmt: skip
    """The engine of a model and its LM head; of the special tokens, it generates the end token only."""
    vocabulary = tokenizer.vocabulary
    banned = sorted(vocabulary.special - {vocabulary.end})
    return Engine(LanguageModel(model, head, len(vocabulary), banned, device, causal=causal), tokenizer, max_length)
