"""Classifiers of text, with the protocol of scikit-learn and the training of the command."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, Iterable, Mapping

from ._inputs import check_as_many, check_row, check_rows, is_none, listed, texts_or_pairs
from ._predictor import CHUNK, LEAST, Predictor, chunks, written


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class TextClassifier(Predictor):
    """A classifier of text: a transformer and an n-gram model, trained as ``chumoku train`` does it.

    The same rows, seed and settings write the same ``model.safetensors`` as the command.

    >>> classifier = chumoku.TextClassifier(epochs=3)                                   # doctest: +SKIP
    >>> classifier.fit(["very good", "very bad", ...], ["yes", "no", ...])              # doctest: +SKIP
    >>> classifier.predict(["quite good"])                                              # doctest: +SKIP

    A row may be a pair of texts: a tuple of two.

    Args:
        model: ``"transformer"``, ``"rnn"``, ``"lstm"`` or ``"gru"`` beside n-grams, or ``"ngrams"`` alone, which is trained in
            seconds.
        epochs: at most; chosen from the data if absent.
        seed: decides initial weights, order and dropout.
        precision: of float32 products: ``"medium"``, ``"high"`` or ``"highest"``.
        tokens: ``"subwords"``, ``"characters"`` or ``"words"``; chosen from the data if absent.
        from_pretrained: the folder of a pretrained encoder to start from, as transformers writes it.
        freeze: with ``from_pretrained``, what stays as it is: ``"none"``, ``"embeddings"``, a number of layers, or ``"all"``
            but the head; chosen from the data if absent.
        class_weight: how much the rows of each class count: ``"balanced"`` (each class as much), ``"equal"`` (each row as much), or
            a dictionary of classes and how many times as much as others. Without it rare classes count somewhat more.
        hierarchy: what stands between the names of labels that are paths in a tree, as ``"/"`` in ``A/B/C``; or ``"none"``. Told from
            the labels if absent.
        lora: with ``from_pretrained``, leave its matrices as they are and train products of this rank beside them.
        out: the model folder to write; a temporary one, held in memory, if absent. An interrupted ``fit`` leaves its
            checkpoints there, and ``resume=True`` goes on from them.
        resume: continue from the newest checkpoint in ``out``.
        progress: called with a dictionary for each event, whose ``"event"`` is ``"said"``, ``"ready"``, ``"step"`` or
            ``"evaluated"``; ``"auto"`` shows a bar of tqdm if that is imported, else lines on standard error; ``None`` is
            silent.

    Attributes:
        classes_: the classes, sorted, as they were given.
        metrics_: what ``metrics.json`` holds: scores on the rows that were held out, of the whole and of its parts.
    """

    _estimator_type = "classifier"
    class_weight: str | Mapping[Any, float] | None = None
    hierarchy: str | None = None
    _tells = ("class", "labels")

    def fit(self, X: Iterable[Any], y: Iterable[Any]) -> TextClassifier:
        """Trains on texts and their labels; a tenth of the rows is held out to choose by, and a tenth to report on.

        Args:
            X: texts: a list, an array, or a column of pandas, polars, pyarrow or datasets; or pairs of texts, each a tuple.
            y: as many labels: texts, numbers or booleans. If they are lists (or tuples, sets), or an array of 0 and 1 with a column for each
                label, a text may have any number of labels.

        Raises:
            TypeError: a row is no text.
            ValueError: there are too few rows or classes, or not as many labels as texts.
            KeyboardInterrupt: on Ctrl-C, after what is there was saved; with ``out`` a later fit may ``resume``.
        """
        self._forget()
        (texts, pairs), labels = texts_or_pairs(X), listed(y)
        check_as_many(texts, labels, "a label")
        if len(texts) < LEAST:
            raise ValueError(f"expected at least {LEAST} rows to learn from, got {len(texts)} sample{'s' * (len(texts) != 1)}")
        # Of arrays of two dimensions a column alone is as one dimension.
        columns = y.shape[1] if getattr(y, "ndim", 1) == 2 else 0  # type: ignore[attr-defined]
        if columns == 1:
            labels = [row[0] for row in labels]
        self._is_indicator = columns > 1
        if self._is_indicator:
            # scikit-learn's indicators: a column for each label, whose name is its number.
            labels = [[i for i, holds in enumerate(row) if holds] for row in labels]
        several = self._is_indicator or any(isinstance(label, (list, tuple, set, frozenset)) for label in labels)
        named: dict[str, Any] = {}
        check_rows(texts, pairs)
        for row, label in enumerate(labels):
            if several and not isinstance(label, (list, tuple, set, frozenset)):
                raise TypeError(f"row {row}: expected a list of labels, as in other rows, got {type(label).__name__} {label!r:.40}")
            for one in label if several else (label,):
                if is_none(one):
                    raise ValueError(f"row {row}: expected a label, got nothing (None or NaN)")
                check_row(row, "label", str(one))
                if named.setdefault(str(one).strip(), one) != one:
                    raise ValueError(f"labels {named[str(one).strip()]!r} and {one!r} are written alike")
        self._named: dict[str, Any] | None = named
        rows = (
            written(text, pairs)
            | ({"labels": sorted(str(one).strip() for one in label)} if several else {"label": str(label)})
            for text, label in zip(texts, labels)
        )
        weight = self.class_weight
        if weight is not None and not isinstance(weight, (str, Mapping)):
            raise TypeError(f"class_weight: expected \"balanced\", \"equal\" or a dictionary, got {weight!r:.40}")
        if isinstance(weight, Mapping):
            weight = [(str(label).strip(), float(times)) for label, times in weight.items()]  # type: ignore[assignment]
        try:
            self._train(self.model, rows, task="labels" if several else "class", pairs=pairs, class_weight=weight, hierarchy=self.hierarchy)
        except BaseException:
            self._forget()
            raise
        return self

    def predict_proba(self, X: Iterable[Any]) -> Any:
        """Calibrated probabilities: float32 of shape (texts, classes), in the order of ``classes_``.

        Those of a text sum to 1; if texts may have several labels, each label has a probability of its own.
        """
        import numpy

        from ._arrays import described

        model, texts = self._fitted(), self._asked(X)
        found = numpy.empty((len(texts), len(self._order)), numpy.float32)
        # In parts, so that Ctrl-C is heard between them.
        for at in range(0, len(texts), CHUNK):
            model.predict(texts[at : at + CHUNK], described("probabilities", found[at : at + CHUNK])[1])
        return numpy.ascontiguousarray(found[:, self._order])

    def predict(self, X: Iterable[Any], *, abstain: float | None = None) -> Any:
        """The most probable class of each text: an array of the labels' own type.

        Where classes stand in a tree (A/B/C) the answer goes from its top down, as that of the command does.

        If texts may have several labels: for each text the list of its labels, the most probable first; or scikit-learn's
        indicators, (texts, labels) of 0 and 1, if it was fitted with such.

        Args:
            X: texts, or pairs of texts.
            abstain: the share of answers that shall be right, as 0.95. A text of which the model cannot be so sure, or that is unlike
                all texts of training, gets ``None``; the array is then one of objects.

        Raises:
            ValueError: the validation rows allow no such promise, or the model tells no single class.
        """
        import numpy

        if abstain is not None:
            return self._sure(X, abstain)
        probabilities = self.predict_proba(X)
        thresholds = self._model.thresholds
        if thresholds is None:
            if self._model.answers([]) is None:
                return self.classes_[probabilities.argmax(1)]
            place = numpy.argsort(self._order)
            return self.classes_[place[self._model.answers(probabilities[:, place].tolist())]]
        holds = probabilities >= numpy.asarray(thresholds, numpy.float32)[self._order]
        if self._is_indicator:
            return holds.astype(int)
        order = (-probabilities).argsort(1, kind="stable")
        return [[self.classes_[i].item() for i in best if row[i]] for best, row in zip(order, holds)]

    def _sure(self, X: Iterable[Any], level: float) -> Any:
        """The classes that the model is sure enough of."""
        import numpy

        if not 0 < level < 1:
            raise ValueError(f"abstain: expected a share between 0 and 1 of answers that shall be right, got {level!r}")
        model, given = self._fitted(), listed(X)
        if model.task != "class":
            raise ValueError("abstain: expected a model of one class a text, got one of labels, which have thresholds of their own")
        if model.answers([]) is not None:
            raise ValueError("abstain: expected classes without a tree above them; `chumoku predict --abstain` answers down to a level")
        bounds = model.bounds(level)
        if bounds is None:
            raise ValueError(
                f"abstain: the validation rows do not suffice to promise that {100 * level:g} % of the answers are right: "
                "ask for less, or train on more rows"
            )
        probabilities = self.predict_proba(given)
        known = [share for part in chunks(self._asked(given)) for share in model.known(part)]
        is_sure = (probabilities.max(1, initial=0) >= bounds[0]) & (numpy.asarray(known, numpy.float32) >= bounds[1])
        answers = self.classes_[probabilities.argmax(1)].astype(object)
        answers[~is_sure] = None
        return answers

    def score(self, X: Iterable[str], y: Iterable[Any]) -> float:
        """The share of texts whose most probable class is their label, or all of whose labels are those predicted."""
        import numpy

        labels = listed(y)
        found = self.predict(X)
        if self._model.thresholds is not None and not self._is_indicator:
            check_as_many(found, labels, "a list of labels")
            return float(numpy.mean([set(a) == set(b) for a, b in zip(found, labels)])) if labels else float("nan")
        check_as_many(found, labels, "a label")
        return float(numpy.mean([a == b for a, b in zip(found.tolist(), labels)])) if labels else float("nan")

    def _open(self, folder: pathlib.Path) -> Any:
        import numpy

        model = self._loaded(folder)
        named = self.__dict__.get("_named")
        self._is_indicator = self.__dict__.get("_is_indicator", False)
        # Names of paths lose the white space around them.
        own = [label if named is None else named.get(label, label) for label in model.labels]
        # Sorted as NumPy sorts them, which is what scikit-learn expects; the model's own order is that of their names.
        self.classes_, order = numpy.unique(_array(own), return_index=True)
        self._order = order.tolist()
        return model

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        tags.target_tags.required = True
        tags.classifier_tags.multi_label = self.model != "ngrams"
        return tags

    def _facts(self) -> list[tuple[str, str]]:
        named = ", ".join(map(str, self.classes_[:8])) + ("…" if len(self.classes_) > 8 else "")
        return [("classes", named), *super()._facts()]


def _array(labels: list) -> Any:
    """An array of labels, in their own type where they have one."""
    import numpy

    array = numpy.asarray(labels)
    return array if array.ndim == 1 and array.dtype != object else numpy.asarray([str(label) for label in labels])


__all__ = ["TextClassifier"]
