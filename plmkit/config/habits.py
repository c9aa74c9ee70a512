"""Names that other tools use for our settings."""

from collections.abc import Collection, Mapping

MEANT = {
    "batch_size": "batch",
    "per_device_train_batch_size": "batch",
    "lr": "learning_rate",
    "num_train_epochs": "epochs",
    "num_epochs": "epochs",
    "max_steps": "steps",
    "max_length": "length",
    "max_len": "length",
    "max_seq_length": "length",
    "weight_decay": "decay",
    "warmup_ratio": "warmup",
    "warmup_proportion": "warmup",
    "lr_scheduler_type": "shape",
    "max_grad_norm": "clip",
    "optim": "optimizer",
    "freeze": "frozen",
    "output_dir": "out",
    "max_seq_len": "length",
    "seq_length": "length",
    "block_size": "length",
    "train_batch_size": "batch",
    "warmup_steps": "warmup",
    "adam_beta1": "beta1",
    "adam_beta2": "beta2",
    "adam_epsilon": "epsilon",
    "lr_scheduler": "shape",
    "scheduler": "shape",
    "gradient_clip_val": "clip",
    "gradient_accumulation_steps": "micro_batch",
    "logging_steps": "log_steps",
    "save_steps": "checkpoint_steps",
    "save_total_limit": "kept_checkpoints",
    "num_workers": "reader_workers",
}


def meant(name: str) -> str:
    """`batch` for `batch_size`; other names are returned unchanged."""
    return MEANT.get(name, name)


def homes(name: str, groups: Mapping[str, Collection[str]]) -> list[str]:
    """Our names of the setting that other tools call `name`: `schedule.learning_rate` for `lr`."""
    ours = meant(name)
    return [f"{group}.{ours}" for group, names in groups.items() if ours in names]


def option_meant(option: str, options: Collection[str], groups: Mapping[str, Collection[str]]) -> str | None:
    """Our name for `--batch-size`: an option of the command, or a setting of one of its groups."""
    name = meant(option.lstrip("-").replace("-", "_").lower())
    if f"--{name}" in options:
        return f"--{name}"
    return next((f"--set {group}.{name}=VALUE" for group, names in groups.items() if name in names), None)
