"""How a paper fine-tunes its model."""

from dataclasses import dataclass

from plmkit.schedules.optimizers import AdamW, BertAdam


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How `plm finetune` trains, by default; BERT's where a paper does not say (Devlin et al., 2018)."""

    rate: float = 3e-5  # at its peak, at a width of 768
    warmup: float = 0.1  # share of the steps
    shape: str = "linear_over_all"
    optimizer: AdamW | BertAdam = BertAdam()
    clip: float = 1.0  # norm of the whole gradient; 0 leaves it alone
    layer_decay: float = 1.0  # each layer below learns this much slower than the one above
