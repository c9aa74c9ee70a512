"""Names of the settings, or their beginnings, that a verb reads; all others would be ignored there."""

PREPARING = (  # used in reading a corpus
    "run.reader_workers", "run.valid_share", "run.layout", "run.column", "run.image_column",
    "run.image_folder", "run.features", "run.names", "run.header", "run.weights",
)  # fmt: skip
EXAMINED = (  # settings of a recipe that `plm doctor` reads: what decides on the rows, and on the network's size
    "tokenizer", "corruption", "streams", "stages", "sentence_task", "tasks", "without", "architecture", "objectives",
    "schedule.batch",
)  # fmt: skip
FINETUNING = ("run.device", "run.dtype", "run.threads", "run.micro_batch", "run.log_steps")
