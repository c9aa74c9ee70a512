"""A trained model, ready to use: fill blanks, embed, predict, generate, translate, score."""

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from plmkit.data.reading.columns import Columns
from plmkit.errors import InputError, LeftOutWarning, SettingError
from plmkit.generation.beam_search import LENGTH_PENALTY
from plmkit.generation.likelihood import likelihood
from plmkit.generation.options import options_from
from plmkit.generation.sequence import GeneratedText
from plmkit.inference.arguments import count, one_text
from plmkit.inference.captioning import CAPTION_BEAMS, caption_images, given_images
from plmkit.inference.completing import complete_triple
from plmkit.inference.embedding import embed_texts
from plmkit.inference.given import given, given_texts, given_to_tasks
from plmkit.inference.masked import fill_blanks, pseudo_score
from plmkit.inference.matching import find_captions, find_images, given_image, match, with_image
from plmkit.inference.predicting import predict_rows, tasks_named
from plmkit.inference.reader import Reader, Unread, unchanged
from plmkit.inference.searching import Embedder, SearchIndex
from plmkit.inference.translating import BEAMS, Translator
from plmkit.language import comma, several, tr
from plmkit.terminal.screen import Screen

if TYPE_CHECKING:
    from plmkit.insight.attention import Attended
    from plmkit.tasks.report.report import Report


class Model(Reader):
    """A trained network with its tokenizer; `plmkit.load(DIR)` makes one.

    `fill`, `embed`, `predict`, `score`, `generate` and `translate` take one text and return one answer, or take a list
    of texts (an array, a Series, or a DataFrame with a text column) and return a list of answers in the same order.
    Texts above the maximum length are truncated, with a `TruncationWarning` that says how many; `predict` and
    `translate` also give an `UnknownTokensWarning` if the vocabulary lacks many of the tokens.

    Attributes:
        folder: Where it was loaded from.
        architecture: The settings of the network, such as `layers` and `width`.
        tokenizer: Text to tokens and back.
        tasks: The tasks of `predict` by name; empty if the model was not fine-tuned.
        classes: The classes of `predict`; empty if it predicts numbers, or nothing.
        max_length: Maximum length in tokens, special tokens included.
        device: The device it computes on.
    """

    def __repr__(self) -> str:
        size = sum(parameter.numel() for parameter in self.network.parameters())
        shape = tr("{layers} layers of width {width}", layers=self.architecture.layers, width=self.architecture.width)
        task = "; ".join(f"{name}: {task.answers}" for name, task in self.tasks.items()) or tr("pretrained")
        return tr(
            "<Model {folder}: {type}, {shape}, {size:,} parameters, vocabulary of {tokens:,} tokens, {task}>",
            folder=self.folder,
            type=type(self.architecture).__name__,
            shape=shape,
            size=size,
            tokens=len(self.tokenizer.vocabulary),
            task=task,
        )

    def fill(self, text: Any, top: int = 5, *, image: str | Path | None = None) -> Any:
        """Fill the blanks of a text.

        Args:
            text: A text with one or more [MASK] (or the tokenizer's own mask token), or a list of such texts.
            top: Number of candidates per blank.
            image: The image that the text describes, or a file with features of its regions, for a model that reads it.

        Returns:
            For each blank a list of `Candidate`, most likely first: `token`, `probability`, and `text`, the whole text
            with this blank filled. For a list of texts, a list of these.
        """
        count(top, "top")
        texts = given_texts(text)
        change = unchanged if image is None else with_image(self, image)
        return texts.answer([fill_blanks(self, one, top, change) for one in texts.rows])

    def match(self, texts: Any, images: Any) -> Any:
        """How well texts describe images.

        Args:
            texts: A text, or a list of texts.
            images: An image file, or a file with features of its regions; or a list of as many.

        Returns:
            The probability that the text describes the image, or a list of these.
        """
        given, (paths, alone) = given_texts(texts), given_images(images)
        if len(given.rows) != len(paths) or given.alone != alone:
            raise InputError(
                tr(
                    "model.match compares each text with one image: give one of each, or lists of the same length; "
                    "found {texts} and {images}.",
                    texts=several(len(given.rows), "text"),
                    images=several(len(paths), "image"),
                )
            )
        return given.answer(match(self, given.rows, paths))

    def find_images(self, text: Any, images: Sequence[str | Path], top: int = 10) -> Any:
        """The images that a text describes best; each is read together with the text.

        Args:
            text: A text, or a list of texts.
            images: Image files, or files with features of their regions.
            top: Number of images per text.

        Returns:
            A list of `ImageHit` (`rank`, `score`, `image`), best first; for a list of texts, a list of these.
        """
        texts, (paths, _) = given_texts(text), given_images(images)
        places = [given_image(self, path) for path in paths]
        return texts.answer(find_images(self, texts.rows, places, paths, count(top, "top")))

    def find_captions(self, image: Any, texts: Sequence[str], top: int = 10) -> Any:
        """The texts that describe an image best; each is read together with the image.

        Args:
            image: An image file, or a file with features of its regions; or a list of these.
            texts: The texts to choose from.
            top: Number of texts per image.

        Returns:
            A list of `CaptionHit` (`rank`, `score`, `text`), best first; for a list of images, a list of these.
        """
        paths, alone = given_images(image)
        places = [given_image(self, path) for path in paths]
        found = find_captions(self, places, given_texts(texts).rows, count(top, "top"))
        return found[0] if alone else found

    def embed(
        self, texts: Any, level: str = "sentence", *, layers: str = "last", batch_size: int | None = None,
        progress: bool = False,
    ) -> Any:  # fmt: skip
        """Turn texts into vectors.

        Args:
            texts: A text, a pair of texts as a dict with `text_a` and `text_b`, or a list of texts and pairs.
            level: "sentence" for one vector per text, as sentence-transformers computes it: with the folder's own
                pooling (`modules.json`), otherwise the mean over all tokens, special tokens included. "token" for one
                vector per token, without special tokens.
            layers: "last", "mean" for the mean of all layers and the word vectors below them, or, for tokens, "all".
            batch_size: Texts per batch. Default: batches of up to 4,096 tokens.
            progress: Show a progress bar on stderr.

        Returns:
            An array of (N, width), or of (width,) for one text; with level="token", (tokens, width) for each text,
            and (tokens, layers, width) with all layers.
        """
        if level not in ("sentence", "token"):
            raise SettingError(tr("level must be 'sentence' or 'token'; found '{level}'.", level=level))
        inputs = given(texts, self.tasks.values())
        vectors, cut = embed_texts(self, inputs.rows, level, batch_size, Screen() if progress else None, layers)
        cut.warn()
        if level == "sentence" and not inputs.alone:
            return np.stack(vectors) if vectors else np.zeros((0, self.width), dtype=np.float32)
        return inputs.answer(vectors)

    def index(self, corpus: Any, folder: str | Path | None = None, *, progress: bool = False) -> SearchIndex:
        """Embed texts once, to search them.

        Args:
            corpus: A list of texts, or the path of a file or folder, of which each row, paragraph or line is a text.
            folder: Where the vectors of a path are kept until its files or the model change. Default: the cache.
            progress: Show a progress bar on stderr.

        Returns:
            A `SearchIndex`, whose `search(query, top=10)` finds the nearest texts.
        """
        from plmkit.inference.search_index import listed_index, open_index

        embedder = Embedder(
            folder=self.folder, width=self.width, embed=lambda texts: self.embed(list(texts), progress=progress)
        )
        if isinstance(corpus, str | Path):
            return open_index(embedder, Path(corpus), Screen(quiet=True), None if folder is None else Path(folder))
        if folder is not None:
            raise SettingError(tr("model.index keeps the vectors of files only; leave out folder, or give a path."))
        return listed_index(embedder, given_texts(corpus).rows)

    @property
    def width(self) -> int:
        """Size of a sentence vector."""
        return self.pooling.outputs(self.architecture.width)

    def predict(
        self, texts: Any, task: str | None = None, *, batch_size: int | None = None, progress: bool = False
    ) -> Any:
        """Predict the class of texts with probabilities, or a number.

        Args:
            texts: A text, a row of a table as a dict (`text`; `text_a` and `text_b`; `text` and `choices`; `query`
                and `candidates`; `question` and `context`), or a list of these and of pairs of texts; or a DataFrame
                with such columns.
            task: Name of the task, if the model was fine-tuned on several. Default: all of them.
            batch_size: Texts per batch. Default: batches of up to 4,096 tokens.
            progress: Show a progress bar on stderr.

        Returns:
            A `Prediction` (`label`, `probability`, `probabilities`; of candidates also `scores` and `ranks`, of texts
            that may match `cosine`, of a question `start`, `end`, `null_probability` and `n_best`), or a list of them;
            a blank text has the label None. Of several tasks, a dict with the `Prediction` of each by its name, or a
            list of these; tasks that cannot read such rows are left out, with a `LeftOutWarning`.
        """
        tasks = tasks_named(self, task, tr("predict"))
        inputs, left_out = given_to_tasks(texts, tasks, self.folder)
        for remark in left_out:
            warnings.warn(remark, LeftOutWarning, stacklevel=2)
        rows = {name: one.rows for name, one in inputs.items()}
        most = max(map(len, rows.values()))
        with Screen(quiet=not progress).counting(tr("predicting"), most, unit=tr("rows")) as advance:
            found = predict_rows(self, rows, batch_size, lambda share: advance(share * most))
        first = next(iter(inputs.values()))
        for one in found.values():
            one.unread.warn()
        if len(tasks) == 1:
            return first.answer(found[tasks[0].name].predictions)
        lines = max([most, *(1 + place for some in rows.values() for row in some for place in row.places)])
        each = zip(
            *(self.tasks[name].by_line(found[name].predictions, rows[name], lines) for name in found), strict=True
        )
        return first.answer([dict(zip(found, predictions, strict=True)) for predictions in each])

    def evaluate(
        self, file: str | Path, task: str | None = None, *, text: str | None = None, text_a: str | None = None,
        text_b: str | None = None, label: str | None = None,
    ) -> "Report":  # fmt: skip
        """Score the task of a fine-tuned model on the labelled rows of a file.

        Args:
            file: Labelled rows, in any format that `plm evaluate` reads.
            task: Name of the task, if the model was fine-tuned on several and more than one can read the file.
            text: Name of the column of texts. Default: found by the usual names.
            text_a: Name of the column of the first texts of pairs.
            text_b: Name of the column of the second texts.
            label: Name of the column of labels.

        Returns:
            A `Report`: `scores`, `intervals` (`low`, `high`) of them, `per_class` and `means` (`precision`, `recall`,
            `f1`, `support`), `confused`, `calibration`, `agreement` of numbers, and `mistakes` (`count`, `hardest`); a
            part that does not fit the task is empty. `as_json()` gives all of it as `plm evaluate --json` does.
        """
        from plmkit.tasks.use import evaluate_file

        columns = Columns(text=text, text_a=text_a, text_b=text_b, label=label)
        found = evaluate_file(self, Path(file), Screen(quiet=True), columns, task)
        if len(found) > 1:
            raise SettingError(
                tr(
                    "Several tasks of {folder} can read {file}. Choose one with task=NAME: {tasks}.",
                    folder=self.folder,
                    file=file,
                    tasks=comma().join(found),
                )
            )
        (only,) = found.values()
        only.unread.warn()
        return only.report

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of `predict`, if there is one task and it has classes."""
        return next(iter(self.tasks.values())).classes if len(self.tasks) == 1 else ()

    def generate(self, prompts: Any, **options: Any) -> Any:
        """Continue texts.

        Args:
            prompts: A prompt, or a list of prompts.
            tokens: Maximum number of new tokens. Default: 100.
            temperature: 0 for greedy decoding, above 1 for more random text. Default: 0.8.
            top_k: Sample from this many of the most likely tokens.
            top_p: Nucleus sampling: the most likely tokens with this total probability. Default: 0.95.
            beams: Beam search with this many beams.
            length_penalty: For beam search: 0 favours short texts, 1 long ones. Default: 0.6.
            stop: One or several strings; the text ends before the first of them.
            n: Texts per prompt. Default: 1.
            seed: Random seed; the same seed gives the same texts. Default: 0.

        Returns:
            A `GeneratedText` (`prompt`, `text`, `tokens`, `ended`, `score`); with n above 1, a list of n. For a list
            of prompts, a list with n texts for each, in order.
        """
        chosen, texts = options_from(options), given_texts(prompts)
        found: list[GeneratedText] = self.engine.generate(texts.rows, chosen)
        return found if chosen.n > 1 else texts.answer(found)

    def caption(self, images: Any, *, beams: int = CAPTION_BEAMS) -> Any:
        """Describe images.

        Args:
            images: An image file, or a list of image files.
            beams: Beam search with this many beams; 1 is greedy decoding.

        Returns:
            A `Caption` (`image`, `text`, `score`, `tokens`, and `attention`, an array of (tokens, grid, grid) with the
            weight of each region of the image at each token), or a list of them.
        """
        paths, alone = given_images(images)
        found = caption_images(self, paths, count(beams, "beams"))
        return found[0] if alone else found

    def complete(
        self, *, head: str | None = None, relation: str | None = None, tail: str | None = None, top: int = 10
    ) -> Any:
        """Complete a triple, with a model that was trained on a knowledge graph.

        Args:
            head: The head: an id or a name of the graph, or any text. Default: it is to be found.
            relation: The relation, likewise.
            tail: The tail, likewise.
            top: Number of answers.

        Returns:
            For two parts, a list of `Completion` (`id`, `name`, `probability`, `known`), most likely first; for all
            three, a `Plausibility` (`probability`, `known`).
        """
        return complete_triple(self, head, relation, tail, count(top, "top"))

    def stream(self, prompt: str, **options: Any) -> Iterator[str]:
        """Continue one text, in pieces as they are generated.

        Args:
            prompt: The prompt.
            **options: Those of `generate`, except n.

        Returns:
            An iterator over the pieces.
        """
        chosen = options_from(options)
        if chosen.n != 1:
            raise SettingError(tr("model.stream generates one text; found n={n}. Use model.generate.", n=chosen.n))
        pieces = self.engine.stream([one_text(prompt, "model.stream")], chosen)
        return (piece for piece in pieces if isinstance(piece, str))

    def translate(
        self,
        texts: Any,
        *,
        beams: int = BEAMS,
        n_best: int = 1,
        length_penalty: float = LENGTH_PENALTY,
        progress: bool = False,
    ) -> Any:
        """Translate texts, or summarise them: whatever the pairs were that the encoder–decoder was trained on.

        Args:
            texts: A text, or a list of texts.
            beams: Number of beams of the beam search; 1 is greedy decoding.
            n_best: Number of translations per text.
            length_penalty: 0 favours short translations, 1 long ones.
            progress: Show a progress bar on stderr.

        Returns:
            A `Translation` (`source`, `text`, `tokens`, `ended`, `score`), or a list of them; with n_best above 1, a
            list of n_best translations for each text, best first.
        """
        options = options_from({"beams": beams, "n": n_best, "length_penalty": length_penalty})
        given = given_texts(texts)
        found, unread = self.translator.translate(given.rows, options, Screen() if progress else None)
        unread.warn()
        return given.answer(found if n_best > 1 else [best[0] for best in found])

    @cached_property
    def translator(self) -> Translator:
        """Translates; a model that is not an encoder–decoder is refused."""
        return Translator(self)

    def attend(self, text: str, second: str | None = None, target: str | None = None) -> "Attended":
        """Look at the attention of every layer and head on a text.

        Args:
            text: A text, in which a masked model may find a [MASK].
            second: The second text of a pair; a model with recurrent memory has the first one in its memory.
            target: What to attribute to the tokens: a class, a token at the [MASK], the next token. Default: the most
                likely one. For an encoder–decoder the output text; default: its own translation.

        Returns:
            An `Attended`: `tokens`, `parts` (`kind`, `queries`, `keys`, `memory`, `weights` of layers × heads, and
            `entropy`, `distance` and `diagonal` of each head), `attribution` (`output`, `scores`) and, of ELECTRA,
            `replaced`.
        """
        from plmkit.insight.attending import attend

        for one in (text, second, target):
            if one is not None:
                one_text(one, "model.attend")
        return attend(self, text, second, target)

    def score(self, text: Any, *, progress: bool = False) -> Any:
        """Score a text by its log-probability.

        Args:
            text: A text, or a list of texts.
            progress: Show a progress bar on stderr.

        Returns:
            For a causal model a `Likelihood` (`tokens`, `log_probability`, `perplexity`). For a masked model a `Score`
            (`tokens`, `pseudo_log_probability`, `pseudo_perplexity`), with each token masked in turn. For a list of
            texts, a list of these.
        """
        texts = given_texts(text)
        found: list[Any] = []
        cut = 0
        with Screen(quiet=not progress).counting(tr("scoring"), len(texts.rows)) as advance:
            for one in texts.rows:
                if self.architecture.generates != "no":
                    found.append(likelihood(self.engine, one))
                else:
                    score, was_cut = pseudo_score(self, one)
                    found.append(score)
                    cut += was_cut
                advance(1)
        Unread(cut=cut, texts=len(found), length=self.max_length).warn()
        return texts.answer(found)
