"""A question about a long document: our `predict` beside Hugging Face's network, window by window."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.prediction_speed import best_batch_size
from benchmarks.shared import ENGLISH, Line, Options, learn_tokenizer, say, sides, take_turns, text_files

TITLE = (
    "Answering a question about a document of 10,000 words: plmkit beside transformers by windows; CPU time, 1 thread"
)
TARGET = 3.0
BATCH_SIZES = (1, 4, 16)
LENGTH, STRIDE, MAX_ANSWER = 384, 128, 30
QUESTION = "where did the river go?"


def run(options: Options) -> list[Line]:
    words = 300 if options.quick else 10_000
    (text,) = text_files(options, 0.2, [ENGLISH]).values()
    tokenizer = learn_tokenizer(text, 1_000 if options.quick else 21_128, options.folder / "answering-tokenizer")
    document = " ".join(text.read_text(encoding="utf-8").split()[:words])
    model = write_model(options, tokenizer, options.folder / "answering-model")
    lines = []
    with sides((make_ours, model, document), (make_theirs, model, document)) as (ours, theirs):
        ours()
        size, seconds = best_batch_size(theirs, BATCH_SIZES[:1] if options.quick else BATCH_SIZES)
        say("  transformers: " + ", ".join(f"{s:.2f} s at {b}" for b, s in seconds.items()))
        a, b = take_turns(ours, partial(theirs, size), options.rounds)
    if any(one["answer"] != two["answer"] for one, two in zip(a, b, strict=True)):
        raise RuntimeError(f"The two sides answer differently: {a[0]['answer']!r}, {b[0]['answer']!r}.")
    say(f"  both sides answer {a[0]['answer']!r}, from {b[0]['windows']} windows")
    lines.append(
        Line(
            case=f"{len(document.split()):,} words, {b[0]['windows']} windows, their batch size {size}", unit="words/s",
            ours=[words / one["seconds"] for one in a], theirs=[words / one["seconds"] for one in b], target=TARGET,
        )
    )  # fmt: skip
    return lines


def write_model(options: Options, tokenizer: Path, folder: Path) -> Path:
    """A network with random weights and a head for answers as a Hugging Face folder, which both sides read."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForQuestionAnswering

    torch.manual_seed(options.seed)
    made = AutoTokenizer.from_pretrained(tokenizer)
    shape: dict[str, Any] = (
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
        if options.quick
        else {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    )
    config = BertConfig(vocab_size=len(made), initializer_range=0.2, **shape)
    BertForQuestionAnswering(config).save_pretrained(folder)
    made.save_pretrained(folder)
    return folder


def make_ours(folder: Path, document: str) -> Callable[[], dict[str, Any]]:
    import plmkit
    from plmkit.training.device import set_threads

    set_threads(1)
    model = plmkit.load(folder, device="cpu")

    def one_round() -> dict[str, Any]:
        start = time.process_time()
        found = model.predict({"question": QUESTION, "context": document})
        return {"seconds": time.process_time() - start, "answer": found.label}

    return one_round


def make_theirs(folder: Path, document: str) -> Callable[[int], dict[str, Any]]:
    """The same windows by their tokenizer, batches of them, and the best span of each window."""
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer
    from transformers.utils import logging

    from plmkit.tasks.answering.windows import most_context, spans_of

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    asked = len(tokenizer(QUESTION, add_special_tokens=False)["input_ids"])
    overlap = LENGTH - 3 - asked - STRIDE  # they count what windows share, we what they advance by
    tokens = len(tokenizer(document, add_special_tokens=False)["input_ids"])
    spans = spans_of(tokens, LENGTH - 3 - asked, STRIDE)

    @torch.inference_mode()
    def one_round(size: int) -> dict[str, Any]:
        start = time.process_time()
        windows = tokenizer(
            QUESTION, document, truncation="only_second", max_length=LENGTH, stride=overlap, padding=True,
            return_overflowing_tokens=True, return_offsets_mapping=True, return_tensors="pt",
        )  # fmt: skip
        offsets, count = windows.pop("offset_mapping"), len(windows.pop("overflow_to_sample_mapping"))
        best_context = most_context(spans, tokens)  # as in the released code; some scripts leave it out
        best, answer = -torch.inf, ""
        for begin in range(0, count, size):
            out = model(**{name: part[begin : begin + size] for name, part in windows.items()})
            for number in range(begin, min(begin + size, count)):
                inside = torch.tensor([which == 1 for which in windows.sequence_ids(number)])
                begins = inside.clone()
                begins[inside] = torch.from_numpy(best_context[number])
                scores = out.start_logits[number - begin, :, None] + out.end_logits[number - begin]
                allowed = torch.ones_like(scores, dtype=torch.bool).triu().tril(MAX_ANSWER - 1)
                scores = scores.masked_fill(~(allowed & begins[:, None] & inside), -torch.inf)
                if float(scores.max()) > best:
                    best = float(scores.max())
                    first, last = divmod(int(scores.argmax()), scores.shape[1])
                    answer = document[offsets[number, first, 0] : offsets[number, last, 1]]
        return {"seconds": time.process_time() - start, "answer": answer, "windows": count}

    return one_round
