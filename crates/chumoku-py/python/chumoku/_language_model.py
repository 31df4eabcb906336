"""Language models: transformers that continue a text."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any, Callable, Iterable, Iterator, Mapping

from . import _chumoku
from ._estimator import Estimator
from ._inputs import check_least, check_text, rows_of, texts_of
from ._pages import Explanation


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class LanguageModel(Estimator):
    """A transformer that continues a text, trained on documents as by ``chumoku train --task lm``.

    The same documents, seed and settings produce the same ``model.safetensors`` as the command. :meth:`load` also reads
    published models (GPT-2, Llama and others) in the format of transformers, and ``from_pretrained`` trains them
    further.

    >>> model = chumoku.LanguageModel.load(folder)                                      # doctest: +SKIP
    >>> for piece in model.generate("Once upon a time", max_tokens=50):                 # doctest: +SKIP
    ...     print(piece, end="", flush=True)

    Args:
        epochs: the maximum number of epochs; chosen from the data by default.
        seed: seed of initial weights, order and dropout.
        precision: the precision of float32 products: ``"medium"``, ``"high"`` or ``"highest"``. The default is
            ``"medium"`` for training, and the folder's setting for a loaded model.
        tokens: ``"subwords"``, ``"characters"`` or ``"words"``; chosen from the data by default.
        from_pretrained: the folder of a language model to train further.
        freeze, lora, out, resume, progress: see :class:`TextClassifier`.

    Attributes:
        metrics_: the content of ``metrics.json``: loss and perplexities on the held-out text.
    """

    epochs: int | None = None
    seed: int = 42
    precision: str | None = None
    tokens: str | None = None
    from_pretrained: str | os.PathLike[str] | None = None
    freeze: str | int | None = None
    lora: int | None = None
    out: str | os.PathLike[str] | None = None
    resume: bool = False
    progress: Callable[[dict], Any] | str | None = "auto"

    def fit(self, X: Iterable[str] | str, y: None = None) -> LanguageModel:
        """Trains on documents, or on one long text. A tenth is used for validation.

        Raises:
            TypeError: a row is not a text.
            ValueError: there is too little text.
            KeyboardInterrupt: on Ctrl-C, after saving the best model so far; with ``out`` a later fit can ``resume``.
        """
        self._forget()
        texts = rows_of([X] if isinstance(X, str) else X, "document")
        self._train("language_model", ({"text": text} for text in texts))
        return self

    def generate(
        self,
        prompt: str = "",
        *,
        max_tokens: int = 500,
        temperature: float = 0.8,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 42,
    ) -> Iterator[str]:
        """Continues a text. Returns an iterator of pieces, each available as soon as it is generated. It need not be
        exhausted.

        After the last piece, its ``stop`` is ``"end"`` or ``"max_tokens"``. The same seed generates the same text.

        Args:
            temperature: divides the logits; 0 takes the most probable token at each step.
            top_k: sample only from this many most probable tokens; 0 for all.
            top_p: sample only from the smallest set of most probable tokens whose probabilities reach this sum.
        """
        check_text("prompt", prompt)
        for name, x in (("max_tokens", max_tokens), ("top_k", top_k), ("seed", seed)):
            check_least(name, x, 0)
        return self._fitted().generate(prompt, None, max_tokens, temperature, top_k, top_p, seed)

    def reply(
        self,
        messages: str | Iterable[Mapping[str, str]],
        *,
        max_tokens: int = 500,
        temperature: float = 0.8,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 42,
    ) -> Iterator[str]:
        """Replies to messages, ``{"role": …, "content": …}``, or to one text by a user, with the model's own chat
        template.

        Returns an iterator as :meth:`generate` does. The first read raises ValueError for a model without a chat
        template.
        """
        given = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        for name, x in (("max_tokens", max_tokens), ("top_k", top_k), ("seed", seed)):
            check_least(name, x, 0)
        pairs = []
        for at, message in enumerate(given):
            if not isinstance(message, Mapping) or {"role", "content"} - set(message):
                raise TypeError(f"message {at}: expected a dictionary with role and content, got {message!r:.60}")
            for text in (message["role"], message["content"]):
                check_text(f"message {at}", text)
            pairs.append((message["role"], message["content"]))
        return self._fitted().generate("", pairs, max_tokens, temperature, top_k, top_p, seed)

    def evaluate(self, X: Iterable[str] | str) -> dict[str, Any]:
        """Loss and perplexities of documents, as in ``chumoku eval --json``."""
        texts = texts_of([X] if isinstance(X, str) else X)
        if not texts:
            raise ValueError("evaluate: expected some documents, got none")
        return json.loads(self._fitted().score(texts))

    def score(self, X: Iterable[str] | str, y: None = None) -> float:
        """The mean log-probability (ln p) per token of these documents."""
        return -self.evaluate(X)["loss"]

    def explain(
        self, text: str, *, patch: str | None = None, align: str | None = None, lens: bool | None = None
    ) -> Explanation:
        """Explains the next token of a text: the effect of each word, and the attention of every layer and head.

        Args:
            text: the text.
            patch: another text. The values that the network computes for it replace those of ``text``, place by place, and
                ``patching`` says how far the next token moves.
            align: with ``patch``, the aligned tokens of both texts, from 1, such as ``"1-4:1-4,6:7"``. Texts with the same
                number of tokens are aligned by position.
            lens: ``True`` requires the answer after every layer, ``False`` leaves it out. By default it is there if the
                model has layers.

        Raises:
            ValueError: the texts have different numbers of tokens and no alignment, or the same next token.
        """
        for given in (text,) if patch is None else (text, patch):
            check_text("explain", given)
        return Explanation(self._fitted().explain(text, type(self).__name__, (patch, align, lens)))

    def _open(self, folder: pathlib.Path) -> Any:
        return _chumoku.Generator.load(folder, self.precision)


__all__ = ["LanguageModel"]
