"""Names of losses, scores and scripts as people read them; files and --json have them in English."""

from plmkit.language import translated

NAMES = (
    # losses, by objective and in progress lines
    "masked_lm", "next_sentence", "sentence_order", "real_dialogue", "span_boundary", "generator_lm", "replaced_token",
    "adversarial_generator", "adaptive_lm", "auxiliary_lm", "causal_lm", "permuted_lm", "translation_lm", "smoothing",
    "forward_lm", "backward_lm", "forward", "backward",
    "masked", "next", "generator", "replaced", "reward", "loss",
    # scores
    "accuracy", "macro_f1", "mcc", "pearson", "spearman", "mse", "exact", "f1", "rouge_l", "bleu", "chrf",
    "rouge_1", "rouge_2", "pairs",
    "rows", "tokens", "characters", "bytes", "unknown_share", "perplexity", "bits_per_character", "bits_per_byte",
    "dev", "test",
    # scripts of a corpus
    "Chinese", "Latin", "other",
)  # fmt: skip


def label(name: str) -> str:
    """`accuracy`, or 准确率 in Chinese."""
    return translated(name)
