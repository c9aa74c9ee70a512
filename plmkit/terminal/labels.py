"""Names of losses, scores and scripts as people read them; files and --json have them in English."""

from plmkit.language import translated

NAMES = (
    # losses, by objective and in progress lines
    "masked_lm", "next_sentence", "sentence_order", "real_dialogue", "span_boundary", "generator_lm", "replaced_token",
    "adversarial_generator", "adaptive_lm", "auxiliary_lm", "causal_lm", "permuted_lm", "translation_lm", "smoothing",
    "forward_lm", "backward_lm", "forward", "backward", "image_match", "masked_regions", "match", "regions",
    "doubly_stochastic_attention", "coverage",
    "capital_prediction", "token_document_relation", "sentence_reordering", "sentence_distance", "discourse_relation",
    "search_relevance", "capitals", "elsewhere", "order", "distance", "discourse", "relevance",
    "entity_prediction", "relation_prediction", "triple_plausibility", "entity", "relation", "plausible",
    "soft_targets", "cosine_states", "hidden_matching", "attention_matching", "relation_matching",
    "soft", "cosine", "hidden", "attention",
    "masked", "next", "generator", "replaced", "reward", "loss",
    # scores
    "accuracy", "macro_f1", "micro_f1", "mcc", "pearson", "spearman", "mse", "mae", "exact", "f1", "rouge_l",
    "bleu", "chrf", "rouge_1", "rouge_2", "pairs",
    "precision", "recall", "strict_precision", "strict_recall", "strict_f1", "intent_accuracy", "exact_match", "words",
    "slot_precision", "slot_recall", "slot_f1", "slot_strict_precision", "slot_strict_recall", "slot_strict_f1",
    "slot_accuracy", "slot_macro_f1", "support",
    "answerable_exact", "answerable_f1", "unanswerable_exact", "unanswerable_f1", "best_exact", "best_f1", "threshold",
    "english_exact", "english_f1", "chinese_exact", "chinese_f1",
    "map", "mrr", "hits_at_1", "hits_at_3", "hits_at_10", "ndcg_at_10", "queries", "without_relevant",
    "ap", "threshold", "recall_at_1", "recall_at_5", "recall_at_10", "texts",
    "images", "captions", "match_accuracy", "text_to_image", "image_to_text",
    "probability", "error", "rank", "wrong", "beyond_threshold", "macro", "weighted",
    "rows", "tokens", "characters", "bytes", "unknown_share", "perplexity", "bits_per_character", "bits_per_byte",
    "dev", "test",
    # scripts of a corpus
    "Chinese", "Latin", "other",
)  # fmt: skip


def label(name: str) -> str:
    """`accuracy`, or 准确率 in Chinese."""
    return translated(name)


def loss_label(name: str) -> str:
    """`masked lm`, or `knowledge/masked lm` of a run with several streams, which keep their names."""
    stream, _, objective = name.replace("/", ".").rpartition(".")
    return (f"{stream}/" if stream else "") + label(objective).replace("_", " ")
