"""Text embeddings by pretrained encoders."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import sys
from typing import Any, Iterable, Iterator, NamedTuple

from . import _chumoku
from ._estimator import Parameters, computed
from ._inputs import check_least, check_text, texts_of
from ._pages import Explanation
from ._predictor import chunks

# The container formats of `transform`.
_OUTPUTS = ("default", "pandas", "polars")

# Texts per batch: enough to sort by length.
_CHUNK = 512


class Nearest(NamedTuple):
    """A search result: a text and its similarity to the query."""

    row: int
    """Its place among those that were searched, from 0."""
    text: str
    similarity: float
    """The cosine of the two."""


@dataclasses.dataclass(repr=False, eq=False)
class Embedder(Parameters):
    """A pretrained encoder that computes a vector for each text; a transformer in scikit-learn's sense.

    >>> embedder = chumoku.Embedder(folder)                                             # doctest: +SKIP
    >>> embedder.transform(["a text", "another"]).shape                                 # doctest: +SKIP
    (2, 384)
    >>> make_pipeline(embedder, LogisticRegression()).fit(texts, labels)                # doctest: +SKIP

    Vectors equal those of sentence-transformers. Pooling, prompts and normalization are read from the folder. A text's
    vector does not depend on the other texts.

    Args:
        folder: a model folder in the format of transformers or sentence-transformers.
        prompt: the name of the model's prompt that is put before each text; the model's default prompt by default.
        normalize: whether vectors have length 1; the folder's setting by default.
        precision: the precision of float32 products: ``"medium"``, ``"high"`` or ``"highest"``; the folder's setting by
            default.
    """

    folder: str | os.PathLike[str]
    _: dataclasses.KW_ONLY
    prompt: str | None = None
    normalize: bool | None = None
    precision: str | None = None

    @property
    def _model(self) -> Any:
        # Loaded on first use; clones and copies in other processes load it again.
        requested = (os.fspath(self.folder), self.precision)
        if self.__dict__.get("_loaded", (None,))[0] != requested:
            self._loaded = (requested, self._load(pathlib.Path(self.folder)))
        return self._loaded[1]

    def _load(self, folder: pathlib.Path) -> Any:
        return _chumoku.Embedder.load(folder, self.precision)

    @contextlib.contextmanager
    def _as_folder(self) -> Iterator[pathlib.Path]:
        """Provides the model's folder."""
        yield pathlib.Path(self.folder)

    def fit(self, X: Any = None, y: Any = None) -> Embedder:
        """Loads the model; there is nothing to fit."""
        self._model
        return self

    def transform(self, X: Iterable[str]) -> Any:
        """The vectors of texts: float32 of shape (texts, width).

        Raises:
            TypeError: a row is not a text.
            ValueError: the folder holds no encoder, or has no such prompt.
        """
        return self._in_container(X, self._vectors(X, self.prompt))

    def encode(self, X: Iterable[str]) -> Any:
        """Same as :meth:`transform` under sentence-transformers' name; always returns an array."""
        return self._vectors(X, self.prompt)

    def set_output(self, *, transform: str | None = None) -> Embedder:
        """Sets the container of :meth:`transform`, as in scikit-learn.

        Args:
            transform: ``"pandas"`` or ``"polars"`` for a table with named columns, ``"default"`` for an array. ``None``
                changes nothing.
        """
        if transform is not None:
            if transform not in _OUTPUTS:
                raise ValueError(f"transform: expected one of {', '.join(_OUTPUTS)}, got {transform!r}")
            self._sklearn_output_config = {"transform": transform}
        return self

    def _in_container(self, x: Any, vectors: Any) -> Any:
        """Returns vectors in the container chosen by `set_output` or by scikit-learn's configuration."""
        sklearn = sys.modules.get("sklearn")
        usual = "default" if sklearn is None else sklearn.get_config().get("transform_output", "default")
        kind = self.__dict__.get("_sklearn_output_config", {}).get("transform", usual)
        if kind == "default":
            return vectors
        names = self.get_feature_names_out().tolist()
        if kind == "polars":
            import polars

            return polars.DataFrame(vectors, schema=names, orient="row")
        import pandas

        index = getattr(x, "index", None)
        return pandas.DataFrame(vectors, columns=names, index=None if callable(index) else index)

    @computed
    def n_features_in_(self) -> int:
        """The number of input columns: one."""
        return 1

    def fit_transform(self, X: Iterable[str], y: Any = None) -> Any:
        """Same as :meth:`transform`."""
        return self.fit(X).transform(X)

    def nearest(self, queries: Iterable[str], corpus: Iterable[str], *, top: int = 10) -> list[list[Nearest]]:
        """For each query, returns the most similar texts of ``corpus`` by cosine, nearest first. The search is
        exhaustive.

        Prompts named ``query`` and ``document`` (or ``passage``, or ``corpus``) are put before queries and texts if the
        model has them, unless ``prompt`` is set.
        """
        import numpy

        texts, known = texts_of(corpus), self._model.prompts
        named = lambda *names: self.prompt or next((name for name in names if name in known), None)
        queries = texts_of(queries)
        check_least("top", top, 1)
        rows = self._vectors(texts, named("document", "passage", "corpus"), True)
        cosines = self._vectors(queries, named("query"), True) @ rows.T
        order = numpy.argsort(-cosines, axis=1, kind="stable")[:, :top]
        return [[Nearest(int(i), texts[i], float(row[i])) for i in best] for row, best in zip(cosines, order)]

    def explain(self, text: str, target: str | None = None) -> Explanation:
        """Explains the similarity of two texts; without a target, how far each word turns the text's own vector."""
        for given in (text,) if target is None else (text, target):
            check_text("explain", given)
        return Explanation(self._model.explain(text, target, pathlib.Path(self.folder).name))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the output columns."""
        import numpy

        return numpy.asarray([f"embedder{i}" for i in range(self._model.width)], object)

    def _vectors(self, x: Iterable[str], prompt: str | None, normalize: bool | None = None) -> Any:
        import numpy

        from ._arrays import describe_array

        model, texts = self._model, texts_of(x)
        found = numpy.empty((len(texts), model.width), numpy.float32)
        normalize = self.normalize if normalize is None else normalize
        # Checks the prompt even if there are no texts.
        at = 0
        for part in chunks(texts, _CHUNK) if texts else [[]]:
            model.embed(part, prompt, normalize, describe_array("vectors", found[at : at + len(part)])[1])
            at += len(part)
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
            requires_fit=False,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: x for name, x in self.__dict__.items() if name != "_loaded"}


__all__ = ["Embedder", "Nearest"]
