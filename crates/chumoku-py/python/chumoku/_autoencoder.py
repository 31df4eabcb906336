"""Autoencoders: transformers that write a text again from a code of few numbers."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, Iterable

from . import _chumoku
from ._embedder import Embedder
from ._inputs import check_least, texts_of
from ._predictor import chunks
from ._translator import Translation

# Texts per batch: enough to sort by length.
_CHUNK = 256


@dataclasses.dataclass(repr=False, eq=False)
class Autoencoder(Embedder):
    """An autoencoder trained by ``chumoku train --task autoencode``. Its vectors are the codes of the texts.

    >>> autoencoder = chumoku.Autoencoder(folder)                                       # doctest: +SKIP
    >>> autoencoder.transform(["482", "017"]).shape                                     # doctest: +SKIP
    (2, 16)
    >>> autoencoder.reconstruct(["482", "017"])                                         # doctest: +SKIP
    ['482', '017']

    Args:
        folder: a model folder of ``chumoku train --task autoencode``.
        prompt: must be ``None``: an autoencoder has no prompts.
        normalize: whether codes are scaled to length 1; by default they are not.
        precision: the precision of float32 products, as for :class:`Embedder`.
    """

    def _load(self, folder: pathlib.Path) -> Any:
        return _chumoku.Autoencoder.load(folder, self.precision)

    def reconstruct(self, X: Iterable[str], *, beam: int = 5) -> list[Translation]:
        """Writes each text again from its code, as ``chumoku predict`` does. A reconstruction is a string, with the
        attributes of :class:`Translation`.

        Args:
            beam: the beam size; 1 takes the most probable token at each step.

        Raises:
            TypeError: a row is not a text.
            ValueError: the folder holds no autoencoder.
        """
        check_least("beam", beam, 1)
        model, texts = self._model, texts_of(X)
        return [Translation(*found) for part in chunks(texts, _CHUNK) for found in model.reconstruct(part, beam)]

    def explain(self, text: str, target: str | None = None) -> Any:
        """Raises ValueError: the decoder sees one vector, so there is nothing to explain."""
        raise ValueError("explain: the decoder of an autoencoder sees one vector, so there is nothing to explain")

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the output columns."""
        import numpy

        return numpy.asarray([f"autoencoder{i}" for i in range(self._model.width)], object)


__all__ = ["Autoencoder"]
