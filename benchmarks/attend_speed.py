"""The page of `plm attend` for 128 tokens and 12 × 12 heads: time to write it, its size, and how fast it answers.

There is no other side: each line compares what was measured with the limit that is promised.
"""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.shared import ENGLISH, Line, Options, learn_tokenizer, say, text_files
from plmkit.architectures.encoder import Encoder
from plmkit.inference.model import Model
from plmkit.insight.page import page
from plmkit.network import Network
from plmkit.objectives.masked_lm import MaskedLM
from plmkit.tokenizers.tokenizer import load_tokenizer
from plmkit.training.threads import Threads

TITLE = "The page of plm attend against its limits: 2 s, 3 MB, 50 ms"
SECONDS, MEGABYTES, MILLISECONDS = 2.0, 3.0, 50.0
TOKENS, HOVERS = 128, 40
HOVER = """<script>
(async () => {
  const frame = () => new Promise(requestAnimationFrame);
  while (!document.body.dataset.ready) await new Promise((next) => setTimeout(next, 50));
  const times = [];
  for (let number = 0; number < HOVERS; number++) {
    const items = document.querySelectorAll("ol.from li"), item = items[(7 * number) % items.length];
    await frame();
    const start = performance.now();
    item.dispatchEvent(new MouseEvent("mouseenter"));
    item.offsetHeight; // what the browser has to lay out again counts too
    times.push(performance.now() - start);
    item.dispatchEvent(new MouseEvent("mouseleave"));
  }
  console.log("hovers " + times.sort((a, b) => a - b).map((time) => time.toFixed(2)).join(" "));
})();
</script></body>"""


def run(options: Options) -> list[Line]:
    model, text = model_of(options), text_of(options)
    Threads(None, say)  # as many as there are free cores, as in the command
    model.attend(text)  # warms up
    file = options.folder / "page.html"
    seconds, sizes, hovers = [], [], []
    for number in range(options.rounds):
        say(f"attend: round {number + 1}")
        start = time.perf_counter()
        file.write_text(page([[model.attend(text)]]), encoding="utf-8")
        seconds.append(time.perf_counter() - start)
        sizes.append(file.stat().st_size / 1e6)
        hovers += [times[len(times) * 9 // 10] for times in hover_times(file)]
    lines = [
        Line(case="pages per second", unit="pages/s", ours=[1 / value for value in seconds],
             theirs=[1 / SECONDS] * len(seconds), target=1.0),
        Line(case="pages per MB", unit="pages/MB", ours=[1 / value for value in sizes],
             theirs=[1 / MEGABYTES] * len(sizes), target=1.0),
    ]  # fmt: skip
    if hovers:
        ours = [1000 / value for value in hovers]
        lines.append(Line(case="hovers per second, the slowest tenth", unit="hovers/s", ours=ours,
                          theirs=[1000 / MILLISECONDS] * len(ours), target=1.0))  # fmt: skip
    return lines


def model_of(options: Options) -> Model:
    """BERT-base with random weights, whose first layers attend unevenly."""
    shape = {"layers": 2, "heads": 2, "width": 32, "inner": 64} if options.quick else {
        "layers": 12, "heads": 12, "width": 768, "inner": 3072,
    }  # fmt: skip
    text = next(iter(text_files(options, 0.2, [ENGLISH]).values()))
    tokenizer = load_tokenizer(learn_tokenizer(text, 2_000, options.folder / "tokenizer"))
    architecture = Encoder(**shape, max_length=TOKENS)
    torch.manual_seed(options.seed)
    network = architecture.build(tokenizer.vocabulary)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.08 * torch.randn_like(parameter))
    heads = {"masked_lm": MaskedLM().build(network)}
    return Model(
        network=Network(network, heads, {"masked_lm": 1.0}), architecture=architecture, tokenizer=tokenizer,
        folder=Path("base"),
    )  # fmt: skip


def text_of(options: Options) -> str:
    """A text of exactly 126 tokens, which become 128."""
    tokenizer = load_tokenizer(options.folder / "tokenizer")
    text = next(iter(text_files(options, 0.2, [ENGLISH]).values())).read_text(encoding="utf-8")[:4000]
    ends = tokenizer.offsets(text)
    return text[: ends[TOKENS - 3][1]]


def hover_times(file: Path) -> Iterator[list[float]]:
    """Milliseconds until each token's attention is drawn in Chromium, fastest first; nothing without Chromium."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        return
    probed = file.with_name("probed.html")
    text = file.read_text(encoding="utf-8").replace("</body>", HOVER.replace("HOVERS", str(HOVERS)))
    probed.write_text(text, encoding="utf-8")
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--enable-logging=stderr", f"--user-data-dir={file.with_name('profile')}", probed.as_uri(),
    ]  # fmt: skip
    browser = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert browser.stderr is not None
        for line in browser.stderr:
            if found := re.search(r'"hovers ([\d. ]+)"', line):
                yield [float(value) for value in found[1].split()]
                return
    finally:
        browser.terminate()
        browser.communicate()
