"""What the estimators share that tell something of a text: a class, labels, or a number."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any, Callable, ClassVar, Iterable, Iterator

from . import _chumoku, _files
from ._estimator import Estimator
from ._inputs import texts_or_pairs
from ._pages import Explanation

# Texts that are read at a time: enough to be sorted by length, few enough for Ctrl-C to be heard.
CHUNK = 4096

# Fewer rows cannot be learnt from and chosen by.
LEAST = 4


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class Predictor(Estimator):
    """A network and an n-gram model that read texts, or pairs of texts."""

    model: str = "transformer"
    epochs: int | None = None
    seed: int = 42
    precision: str = "medium"
    tokens: str | None = None
    from_pretrained: str | os.PathLike[str] | None = None
    freeze: str | int | None = None
    lora: int | None = None
    out: str | os.PathLike[str] | None = None
    resume: bool = False
    progress: Callable[[dict], Any] | str | None = "auto"

    # What a model of this class tells.
    _tells: ClassVar[tuple[str, ...]] = ()

    def explain(self, text: str | tuple[str, str]) -> Explanation:
        """Why this text (or pair of texts) gets its answer: the effect of each word, and the attention of every layer and head.

        Of an n-gram model ``data["ngrams"]`` has the effect of each n-gram; there is no attention.
        """
        model = self._fitted()
        if not isinstance(text, (str, tuple, list) if model.reads_pairs else str):
            raise TypeError(f"expected {'two texts' if model.reads_pairs else 'one text'}, got {type(text).__name__}")
        return Explanation(model.explain(self._asked([text])[0], type(self).__name__))

    def export(self, file: str | os.PathLike[str]) -> dict[str, Any]:
        """Writes the network as an ONNX file, as ``chumoku export`` does.

        Returns:
            what is to be known of it: its metadata, and under ``"lacks_ngrams"`` whether n-grams stand beside the network, which ONNX
            cannot compute from text. The file then answers as the network alone does.
        """
        content, lacks, metadata = self._fitted().export()
        _files.write(pathlib.Path(file), content)
        return dict(metadata) | {"lacks_ngrams": lacks}

    # What follows is for the classes themselves.

    def _asked(self, X: Iterable[Any]) -> list[str]:
        """Texts to be answered of, each pair as one text."""
        reads_pairs = self._fitted().reads_pairs
        given, pairs = texts_or_pairs(X)
        if given and pairs != reads_pairs:
            wanted, got = ("pairs of texts", "single texts") if reads_pairs else ("single texts", "pairs")
            raise TypeError(f"expected {wanted}, which this model was trained on, got {got}")
        return [_chumoku.joined(*pair) for pair in given] if pairs else given

    def _loaded(self, folder: pathlib.Path) -> Any:
        model = _chumoku.Classifier.load(folder)
        if model.task not in self._tells:
            other = {"number": "TextRegressor"}.get(model.task, "TextClassifier")
            raise ValueError(f"{folder}: expected a model for {type(self).__name__}, got one for {other}")
        return model


def written(one: Any, pairs: bool) -> dict[str, str]:
    """A text or a pair as a row of a file."""
    return {"text_1": one[0], "text_2": one[1]} if pairs else {"text": one}


def chunks(texts: list) -> Iterator[list]:
    """The texts in parts."""
    return (texts[at : at + CHUNK] for at in range(0, len(texts), CHUNK))


__all__ = ["CHUNK", "LEAST", "Predictor", "chunks", "written"]
