"""What attention is worth to a recurrent encoder–decoder: accuracy over length, with it and without it.

`python -m benchmarks.reversal` trains both on two toy languages, several seeds each, prints a table and draws a figure:
reversal (the target is the source backwards) and verb-last (another vocabulary, and the second word of every clause
comes last, as in German subordinate clauses). Decoding is greedy; a token counts if it is right at its place.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from plmkit.architectures.contract import Architecture, CacheSettings
from plmkit.architectures.recurrent_seq2seq import LuongSeq2Seq, RecurrentSeq2Seq
from plmkit.corruption.arrange.source_target import padded
from plmkit.data.batch import IGNORE, Batch, Side
from plmkit.data.vocabulary import unnamed
from plmkit.network import Network
from plmkit.objectives.translation_lm import TranslationLM

START, END, COMMA, WORDS = 0, 1, 2, 20  # words are 3 to 22, those of the other vocabulary 23 to 42
LENGTHS = (5, 10, 15, 20, 25, 30)
SHAPE = {"layers": 1, "width": 64, "cell_type": "gru", "dropout": 0.0, "initial_range": 0.2}
MODELS = {"with attention": LuongSeq2Seq(**SHAPE), "without attention": RecurrentSeq2Seq(**SHAPE)}
Task = Callable[[int, random.Random], tuple[list[int], list[int]]]  # a length → a source and its target
Curve = dict[int, float]  # accuracy by source length


def reversal(length: int, rng: random.Random) -> tuple[list[int], list[int]]:
    source = [rng.randrange(3, 3 + WORDS) for _ in range(length)]
    return source, source[::-1]


def verb_last(length: int, rng: random.Random) -> tuple[list[int], list[int]]:
    """Clauses of three or four words, each followed by a comma."""
    source, target = [], []
    while len(source) < length:
        subject, verb, *rest = (rng.randrange(3, 3 + WORDS) for _ in range(rng.choice((3, 4))))
        source += [subject, verb, *rest, COMMA]
        target += [*(word + WORDS for word in (subject, *rest, verb)), COMMA]
    return source, target


TASKS: dict[str, Task] = {"reversal": reversal, "verb-last": verb_last}


def batch_of(task: Task, lengths: list[int], rng: random.Random) -> Batch:
    pairs = [task(length, rng) for length in lengths]
    source, visible = (torch.from_numpy(part) for part in padded([[*text, END] for text, _ in pairs], START))
    read, shown = (torch.from_numpy(part) for part in padded([[START, *text] for _, text in pairs], START))
    targets = torch.from_numpy(padded([[*text, END] for _, text in pairs], IGNORE)[0])
    return Batch(source=Side(tokens=source, visible=visible), target=Side(tokens=read, visible=shown), targets=targets)


def trained(
    settings: Architecture, task: Task, steps: int, seed: int, lengths: Sequence[int] = LENGTHS, peak: float = 5e-3
) -> Network:
    """A network that has seen sources from the shortest to the longest of these lengths."""
    torch.manual_seed(seed)
    model = settings.build(unnamed(3 + 2 * WORDS))
    network = Network(model, {"translation_lm": TranslationLM(smoothing=0.0).build(model)}, {"translation_lm": 1.0})
    optimizer = torch.optim.AdamW(network.parameters(), lr=peak, weight_decay=0.0)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, steps)
    rng = random.Random(seed)
    for _ in range(steps):
        longest = rng.randint(lengths[0], lengths[-1])  # rows of like length, as in training on pairs
        near = [max(lengths[0], longest - rng.randrange(3)) for _ in range(32)]
        network(batch_of(task, near, rng)).weighted["translation_lm"].backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        rates.step()
    return network.eval()


@torch.no_grad()
def accuracy(network: Network, task: Task, length: int, rows: int = 200) -> float:
    """The share of target tokens, the end included, that greedy decoding has at their places."""
    batch = batch_of(task, [length] * rows, random.Random(10**6))
    model, head = network.model, network.heads["translation_lm"]
    assert batch.targets is not None
    steps = batch.targets.shape[1]
    cache = model.begin(CacheSettings(rows, steps, source=batch.source))
    token, found = torch.full((rows, 1), START), []
    for _ in range(steps):
        token = head.output(model.extend(token, cache)).argmax(-1)
        found.append(token)
    return float((torch.cat(found, 1) == batch.targets)[batch.predicted].float().mean())


def measure(steps: int, seeds: int, lengths: tuple[int, ...]) -> dict[str, dict[str, list[Curve]]]:
    """Task → model → the curve of each seed."""
    results: dict[str, dict[str, list[Curve]]] = {}
    for name, task in TASKS.items():
        results[name] = {kind: [] for kind in MODELS}
        for seed in range(seeds):
            for kind, settings in MODELS.items():
                begun = time.perf_counter()
                network = trained(settings, task, steps, seed)
                curve = {length: accuracy(network, task, length) for length in lengths}
                results[name][kind].append(curve)
                shown = " ".join(f"{length}: {100 * share:.0f}" for length, share in curve.items())
                printed = f"{network.parameter_count:,} parameters, {time.perf_counter() - begun:.0f} s"
                print(f"{name}, {kind}, seed {seed}: {shown} % ({printed})", flush=True)
    return results


def table(results: dict[str, dict[str, list[Curve]]]) -> str:
    lengths = list(next(iter(next(iter(results.values())).values()))[0])
    lines = [f"| task | model | {' | '.join(map(str, lengths))} |", f"|---|---|{'---:|' * len(lengths)}"]
    for task, kinds in results.items():
        for kind, curves in kinds.items():
            cells = [spread([curve[length] for curve in curves]) for length in lengths]
            lines.append(f"| {task} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(shares: list[float]) -> str:
    """Mean and standard deviation, in percent."""
    deviation = statistics.stdev(shares) if len(shares) > 1 else 0.0
    return f"{100 * statistics.mean(shares):.1f} ± {100 * deviation:.1f}"


def draw(results: dict[str, dict[str, list[Curve]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results), figsize=(4.5 * len(results), 3.2), sharey=True, squeeze=False)
    for plot, (task, kinds) in zip(axes[0], results.items(), strict=True):
        for kind, curves in kinds.items():
            lengths = list(curves[0])
            means = [100 * statistics.mean(curve[length] for curve in curves) for length in lengths]
            low, high = ([100 * pick(curve[length] for curve in curves) for length in lengths] for pick in (min, max))
            plot.plot(lengths, means, marker="o", label=kind)
            plot.fill_between(lengths, low, high, alpha=0.2)
        plot.set(title=task, xlabel="source length", ylim=(0, 103))
    axes[0][0].set_ylabel("tokens right, %")
    axes[0][-1].legend(loc="center right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures/reversal.png"))
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    results = measure(asked.steps, asked.seeds, tuple(asked.lengths))
    print(f"\n{table(results)}\n")
    draw(results, asked.out)


if __name__ == "__main__":
    main()
