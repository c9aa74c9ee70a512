"""What several heads are worth.

`python -m benchmarks.heads` trains a small Transformer with 1, 2, 4 and 8 heads of equal total width to reverse texts,
and then leaves out each head of the last layer's cross-attention in turn.
"""

import argparse
import statistics

import torch

from benchmarks.reversal import accuracy, reversal, trained
from plmkit.architectures.encoder_decoder import EncoderDecoder
from plmkit.layers.attention import without_heads
from plmkit.network import Network

LENGTHS = (5, 10)


def without_each_head(network: Network, heads: int, length: int) -> list[float]:
    """The accuracy without each head of the last layer's cross-attention."""
    attention = network.model.decoder[-1].cross_attention
    found = []
    for head in range(heads):
        with without_heads(attention, head):
            found.append(accuracy(network, reversal, length))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("| heads | tokens right | without one head of the last layer: mean | worst |\n|---:|---:|---:|---:|")
    for heads in (1, 2, 4, 8):
        settings = EncoderDecoder(layers=2, heads=heads, width=64, inner=128, max_length=32, dropout=0.0)
        whole, without = [], []
        for seed in range(asked.seeds):
            network = trained(settings, reversal, asked.steps, seed, LENGTHS, peak=2e-3)
            whole.append(accuracy(network, reversal, LENGTHS[-1]))
            without.append(without_each_head(network, heads, LENGTHS[-1]))
        mean = statistics.mean(share for shares in without for share in shares)
        worst = statistics.mean(min(shares) for shares in without)
        print(f"| {heads} | {statistics.mean(whole):.1%} | {mean:.1%} | {worst:.1%} |", flush=True)


if __name__ == "__main__":
    main()
