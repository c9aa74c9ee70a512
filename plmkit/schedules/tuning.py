"""Fine-tuning settings of the papers."""

from dataclasses import dataclass

from plmkit.schedules.optimizers import AdamW, BertAdam


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Defaults of `plm finetune`; BERT's where a paper does not say (Devlin et al., 2018)."""

    learning_rate: float = 3e-5  # at its peak, for a width of 768
    warmup: float = 0.1  # as a share of the steps
    shape: str = "linear_over_all"
    optimizer: AdamW | BertAdam = BertAdam()
    clip: float = 1.0  # maximum gradient norm; 0: no clipping
    layer_decay: float = 1.0  # learning rate of each layer relative to the layer above
