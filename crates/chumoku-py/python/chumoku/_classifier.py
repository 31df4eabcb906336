"""Text classifiers with scikit-learn's API, trained as the command trains them."""

from __future__ import annotations

import dataclasses
import numbers
import pathlib
import re
from typing import Any, Iterable, Mapping, Sequence

from . import _chumoku
from ._inputs import check_as_many, check_rows, is_none, names_of
from ._labels import LabelReader, check_distinct, labels_of, own, sorted_classes
from ._predictor import MIN_ROWS, Predictor, _warn, chunks, mean, weighted

# The types of a row's labels in multi-label data.
_LABEL_SET_TYPES = (list, tuple, set, frozenset)


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class TextClassifier(Predictor):
    """A text classifier: a transformer and an n-gram model, trained as by ``chumoku train``.

    The same rows, seed and settings produce the same ``model.safetensors`` as the command.

    >>> classifier = chumoku.TextClassifier(epochs=3)                                   # doctest: +SKIP
    >>> classifier.fit(["very good", "very bad", ...], ["yes", "no", ...])              # doctest: +SKIP
    >>> classifier.predict(["quite good"])                                              # doctest: +SKIP

    A row may be a pair of texts: a tuple of two.

    Args:
        model: the network that is combined with n-grams (``"transformer"``, ``"rnn"``, ``"lstm"`` or ``"gru"``), or
            ``"ngrams"`` for n-grams only, which train in seconds.
        epochs: the maximum number of epochs; chosen from the data by default.
        seed: seed of initial weights, order and dropout.
        precision: the precision of float32 products: ``"medium"``, ``"high"`` or ``"highest"``.
        tokens: ``"subwords"``, ``"characters"`` or ``"words"``; chosen from the data by default.
        from_pretrained: the folder of a pretrained encoder to start from, in the format of transformers. Or the folder
            of your own model, which ``fit(X, y, old=…)`` trains further. Without ``old``, a fine-tuned model serves as
            an encoder to start from.
        freeze: with ``from_pretrained``, the part that stays fixed: ``"none"``, ``"embeddings"``, a number of layers,
            or ``"all"``. With ``"all"`` only the head is trained, as a logistic regression on the encoder's vectors.
            Chosen from the data by default.
        class_weight: the weights of classes in the loss: ``"balanced"`` (equal total weight for each class),
            ``"equal"`` (equal weight for each row), or a dictionary of classes and factors. By default, rare classes
            get moderately more weight.
        optimize: ``"macro_f1"`` tunes decisions for the mean F1 of the classes on the validation rows, so rare classes
            are predicted more often. Probabilities do not change. By default, the most probable class is the answer.
        hierarchy: the separator in label names that are paths in a tree, such as ``"/"`` in ``A/B/C``; or ``"none"``.
            Detected from the labels by default.
        tune: first searches for settings on the validation rows, with a time budget that includes training (``"30s"``,
            ``"10m"`` or ``"2h"``) or a number of trials. Only for one class per text.
        missing: label strings that stand for a missing label, such as ``["unknown"]``. The default is that of the
            command: ``"NaN"``, ``"NULL"``, ``"N/A"`` and similar. A missing label is an error, as are None and NaN;
            ``[]`` accepts all strings as labels.
        merge_labels: merge labels that differ only in letter case, width, white space or hyphens (Ham, ham). By
            default, they are separate classes, with a warning.
        columns: the names of feature columns, such as ``["price", "shop:category"]``. X must then be a table: a
            DataFrame or a dictionary of columns.
        text: for a table X, the name of the text column, or of two for pairs. The default is the only remaining column,
            or the one named ``text``.
        folds: also evaluate the settings by cross-validation; the results are in ``metrics_["folds"]``.
        settings: values for settings that are otherwise chosen from the data: ``"dropout=0.2,words=2"`` or a
            dictionary. An unknown name raises an error that lists all names.
        lora: with ``from_pretrained``, freeze the weight matrices and train LoRA adapters of this rank.
        out: the model folder to write; by default a temporary folder whose files are kept in memory. An interrupted
            ``fit`` leaves its checkpoints there, and ``resume=True`` continues from them.
        resume: continue from the newest checkpoint in ``out``.
        progress: a function that is called with a dictionary for each event; its key ``"event"`` is ``"message"``,
            ``"ready"``, ``"step"`` or ``"evaluated"``. ``"auto"`` shows a tqdm bar if tqdm is imported, and otherwise
            writes lines to standard error. ``None`` is silent.

    Attributes:
        classes_: the sorted classes in their original type: an array of strings, numbers, booleans or times, otherwise
            of objects.
        metrics_: the content of ``metrics.json``: scores on the held-out rows, for the model and its parts.
    """

    _estimator_type = "classifier"
    class_weight: str | Mapping[Any, float] | None = None
    optimize: str | None = None
    hierarchy: str | None = None
    tune: str | int | None = None
    missing: Sequence[str] | None = None
    merge_labels: bool = False
    _tells = ("class", "labels")

    def fit(
        self, X: Iterable[Any], y: Iterable[Any], sample_weight: Any = None, *, old: tuple[Any, Any] | str | None = None
    ) -> TextClassifier:
        """Trains on texts and their labels. A tenth of the rows is used for validation, and another tenth for testing.

        Args:
            X: the texts: a list, an array, or a column of pandas, polars, pyarrow or datasets. Or pairs of texts as
                tuples. With ``columns``, a table.
            y: one label per text: strings, numbers, booleans, dates, enum members or any other hashable objects with
                distinct string forms. Lists (or tuples, sets), or a 0/1 array or sparse matrix with one column per
                label, give a text any number of labels.
            sample_weight: the weight of each row, at least 0; only the ratios matter. A weight multiplies the row's
                loss, together with ``class_weight``, in the n-grams, in the network (as a weighted mean over a batch)
                and in the regression on an encoder's vectors. It also applies on held-out rows when they select the
                penalty, the best epoch, the blending and calibration factors, and label thresholds. Rows of weight 0
                are left out. Weights are ignored in feature selection, in ``class_weight="balanced"``, in the choice
                between fine-tuning and a regression, in ``optimize``, ``abstain`` and intervals, and in ``metrics_``
                except ``metrics_["valid"]``. That entry holds the best epoch's weighted score and loss on the
                validation rows; for n-grams only, the loss. Old rows (``old``) have the mean weight of the new ones.
            old: if ``from_pretrained`` is your own model, the rows that it was trained on, as ``(texts, labels)``. They
                are replayed so that the model does not forget them. ``"none"`` trains on the new rows only.
                ``metrics_["further"]`` then compares the model before and after.

        Raises:
            TypeError: a row is not a text, or a label has an unsupported type.
            ValueError: there are too few rows or classes, the number of labels or weights differs from the number of
                texts, a weight is negative, or an array with one column per label holds other values than 0 and 1.
            KeyboardInterrupt: on Ctrl-C, after saving the best model so far; with ``out`` a later fit can ``resume``.
        """
        self._forget()
        table, labels = self._rows(X), _labels_of(y)
        texts, pairs = table.texts, table.pairs
        check_as_many(texts, labels, "a label")
        if len(texts) < (MIN_ROWS if old is None else 1):
            raise ValueError(f"expected at least {MIN_ROWS} rows to learn from, got {len(texts)} sample{'s' * (len(texts) != 1)}")
        labels, self._is_indicator = _sets(y, labels)
        several = self._is_indicator or any(isinstance(label, _LABEL_SET_TYPES) for label in labels)
        named: dict[str, Any] = {}
        check_rows(texts, pairs)
        for row, label in enumerate(labels):
            if several and not isinstance(label, _LABEL_SET_TYPES):
                raise TypeError(f"row {row}: expected a list of labels, as in other rows, got {type(label).__name__} {label!r:.40}")
        labels = self._as_read(labels, several, named)
        before = self._old(old, pairs, named, several)
        check_distinct(named.values())
        self._named: dict[str, Any] | None = named
        if not self.merge_labels:
            note = _chumoku.label_note([str(one) for label in labels for one in (label if several else (label,))])
            if note is not None:
                _warn(note)
        table, labels, weights = weighted(table, labels, sample_weight)
        rows = self._written(table, (_label_of(label, several) for label in labels))
        weight = self.class_weight
        if weight is not None and not isinstance(weight, (str, Mapping)):
            raise TypeError(f"class_weight: expected \"balanced\", \"equal\" or a dictionary, got {weight!r:.40}")
        if isinstance(weight, Mapping):
            weight = [(str(label).strip(), float(times)) for label, times in weight.items()]  # type: ignore[assignment]
        try:
            of_task: dict[str, Any] = {"task": "labels" if several else "class", "class_weight": weight, "hierarchy": self.hierarchy, "tune": _budget(self.tune)}
            of_task |= {"optimize": self.optimize, "merge_labels": bool(self.merge_labels), "sample_weight": weights}
            self._train(self.model, rows, pairs=pairs, old=before, **of_task, **self._of_run())
        except BaseException:
            self._forget()
            raise
        return self

    def _as_read(self, labels: list[Any], several: bool, named: dict[str, Any]) -> list[Any]:
        """Reads labels as the command does, and remembers the original label of each string."""
        read, found = LabelReader(self.missing), []
        for row, label in enumerate(labels):
            of_row = [read(row, one) for one in (label if several else (label,))]
            for one in of_row:
                if named.setdefault(str(one).strip(), one) != one:
                    raise ValueError(f"labels {named[str(one).strip()]!r} and {one!r} have the same string form")
            found.append(of_row if several else of_row[0])
        return found

    def _old(self, old: Any, pairs: bool, named: dict[str, Any], several: bool) -> Iterable[dict[str, Any]] | str | None:
        """Prepares the old rows as those of a file, with their labels as strings. Returns "none" or None unchanged."""

        def checked(y: Any, labels: list[Any]) -> Iterable[dict[str, Any]]:
            labels = _sets(y, labels)[0]
            for row, label in enumerate(labels):
                if several != isinstance(label, _LABEL_SET_TYPES):
                    label_kind = "a list of labels" if several else "a label"
                    raise TypeError(f"row {row}: expected {label_kind}, got {type(label).__name__} {label!r:.40}")
            return (_label_of(label, several) for label in self._as_read(labels, several, named))

        return self._old_rows(old, pairs, "label", _labels_of, checked)

    def predict_proba(self, X: Iterable[Any]) -> Any:
        """Calibrated probabilities: float32 of shape (texts, classes), in the order of ``classes_``.

        The probabilities of a text sum to 1. For multi-label models, each label has an independent probability.

        Raises:
            TypeError: a row is not a text.
            ValueError: a text is empty.
        """
        return self._probabilities(self._prepared_texts(X))

    def predict_log_proba(self, X: Iterable[Any]) -> Any:
        """The natural logarithms of :meth:`predict_proba`."""
        import numpy

        with numpy.errstate(divide="ignore"):
            return numpy.log(self.predict_proba(X))

    def _probabilities(self, texts: Sequence[str | _chumoku.Row]) -> Any:
        import numpy

        from ._arrays import describe_array

        model = self._fitted()
        found = numpy.empty((len(texts), len(self._order)), numpy.float32)
        at = 0
        for part in chunks(texts):
            model.predict(part, describe_array("probabilities", found[at : at + len(part)])[1])
            at += len(part)
        return numpy.ascontiguousarray(found[:, self._order])

    def predict(
        self,
        X: Iterable[Any],
        *,
        abstain: float | None = None,
        threshold: Mapping[Any, float] | float | None = None,
        precision_at_least: Mapping[Any, float] | float | None = None,
    ) -> Any:
        """The most probable class of each text: an array of the labels' original type.

        If classes form a tree (A/B/C), the answer is found from the top down, as in the command.

        For multi-label models: a list of labels per text, most probable first. If the model was fitted with
        scikit-learn's indicators, a 0/1 array of shape (texts, labels).

        Args:
            X: texts, or pairs of texts.
            abstain: the target share of right answers, such as 0.95. For multi-label models, every label of an answered
                text must be right. Texts below the required confidence, or unlike all training texts, get ``None``; the
                result is then an array of objects.
            threshold: the probability from which on a class is the answer, such as ``{"spam": 0.8}``. Below it, the
                answer is the most probable class without a threshold. For multi-label models, a number applies to all
                labels.
            precision_at_least: sets the threshold of a class by the precision that it had on the validation rows.

        Raises:
            TypeError: a row is not a text.
            ValueError: a text is empty, the validation rows do not support the target, or classes form a tree.
        """
        import numpy

        has_thresholds = threshold is not None or precision_at_least is not None
        if abstain is not None:
            if has_thresholds:
                raise ValueError("abstain: cannot be combined with threshold or precision_at_least")
            return self._predict_or_abstain(X, abstain)
        probabilities = self.predict_proba(X)
        thresholds = self._model.thresholds
        if has_thresholds:
            least = self._class_thresholds(threshold, precision_at_least)
            if thresholds is None:
                return self.classes_[_choose_class(probabilities, least)]
            thresholds = numpy.asarray(thresholds, numpy.float32)
            thresholds[self._order] = [own if x is None else x for x, own in zip(least, thresholds[self._order])]
            thresholds = self._model.raised(thresholds.tolist())
        if thresholds is None:
            if self._model.answers([]) is None:
                return self.classes_[probabilities.argmax(1)]
            place = numpy.argsort(self._order)
            return self.classes_[place[self._model.answers(probabilities[:, place].tolist())]]
        return self._label_sets(probabilities, thresholds)

    def _label_sets(self, probabilities: Any, thresholds: Any) -> Any:
        """Returns the labels of each text from their probabilities."""
        import numpy

        holds = probabilities >= numpy.asarray(thresholds, numpy.float32)[self._order]
        if self._is_indicator:
            return holds.astype(int)
        order = (-probabilities).argsort(1, kind="stable")
        return [[own(self.classes_[i]) for i in best if row[i]] for best, row in zip(order, holds)]

    def _class_thresholds(self, *requested: Any) -> list[float | None]:
        """Returns the requested probability threshold of each of ``classes_``."""
        model, several = self._model, self._model.thresholds is not None
        if not several and model.has_tree():
            raise ValueError("threshold, precision_at_least: expected classes that form no tree")
        least: list[float | None] = [None] * len(self.classes_)
        for what, given in zip(("threshold", "precision_at_least"), requested):
            if given is None:
                continue
            if not isinstance(given, Mapping):
                if not several:
                    raise TypeError(f"{what}: expected a class to answer from there on, as {{{own(self.classes_[-1])!r}: {given!r}}}")
                each = dict.fromkeys(range(len(least)), given)
            else:
                each = {self._place(what, label): x for label, x in given.items()}
            for place, x in each.items():
                if not isinstance(x, numbers.Real) or isinstance(x, bool) or not 0 <= float(x) <= 1:
                    raise ValueError(f"{what}: expected a share from 0 to 1, got {x!r}")
                label = own(self.classes_[place])
                if what == "precision_at_least":
                    x = model.precise(self._order[place], float(x))
                    # A setting for all labels may leave some unchanged.
                    if x is None and not isinstance(given, Mapping):
                        continue
                    if x is None:
                        raise ValueError(f"{what}: {label!r} reaches this precision at no probability on the validation rows: ask for less")
                if least[place] is not None:
                    raise ValueError(f"{what}: {label!r} has a threshold already")
                least[place] = float(x)
        if not several and None not in least:
            raise ValueError("threshold, precision_at_least: every class has a threshold, so some texts would have no answer: leave one class without")
        return least

    def _place(self, what: str, label: Any) -> int:
        found = [i for i, known in enumerate(self.classes_) if bool(known == label)]
        if not found:
            known = ", ".join(repr(own(known)) for known in self.classes_[:8])
            raise ValueError(f"{what}: the model has no class {label!r}; expected one of {known}")
        return found[0]

    def _predict_or_abstain(self, X: Iterable[Any], level: float) -> Any:
        """Returns the predicted classes, and None for texts where the model abstains."""
        import numpy

        if not 0 < level < 1:
            raise ValueError(f"abstain: expected the target share of right answers, between 0 and 1, got {level!r}")
        model, texts = self._fitted(), self._prepared_texts(X)
        if model.task == "labels":
            if self._is_indicator:
                raise ValueError("abstain: expected a model of lists of labels, got one of indicators, which have no row for no answer")
            label_sets = self._label_sets(self._probabilities(texts), model.thresholds)
            answers = numpy.empty(len(texts), object)
            sure = (is_sure for part in chunks(texts) for is_sure in model.answered(part, level))
            for row, is_sure in enumerate(sure):
                answers[row] = label_sets[row] if is_sure else None
            return answers
        if model.has_tree():
            raise ValueError("abstain: expected classes that form no tree: predict without it, which answers from the top down")
        bounds = model.bounds(level)
        if bounds is None:
            raise ValueError(
                f"abstain: the validation rows do not suffice to promise that {100 * level:g} % of the answers are right: "
                "ask for less, or train on more rows"
            )
        probabilities = self._probabilities(texts)
        known = [share for part in chunks(texts) for share in model.known(part)]
        place = numpy.argsort(self._order)
        own_answers = model.answers(probabilities[:, place].tolist())
        best = probabilities.argmax(1) if own_answers is None else place[numpy.asarray(own_answers, int)]
        sureness = probabilities[numpy.arange(len(best)), best]
        is_sure = (sureness >= bounds[0]) & (numpy.asarray(known, numpy.float32) >= bounds[1])
        answers = numpy.empty(len(is_sure), object)
        for row in is_sure.nonzero()[0]:
            answers[row] = own(self.classes_[best[row]])
        return answers

    def score(self, X: Iterable[str], y: Iterable[Any], sample_weight: Any = None) -> float:
        """The accuracy: the share of texts whose most probable class is right or, for multi-label models, whose labels
        are all right.

        With ``sample_weight``, each text counts by its weight. Labels are read as in ``fit``, with ``missing`` and
        ``merge_labels``.

        Raises:
            TypeError: a row is not a text, or a label has an unsupported type.
            ValueError: a label is missing, or the number of labels or weights differs from the number of texts.
        """
        self._fitted()
        labels = _labels_of(y)
        if self._is_indicator:
            _sets(y, labels)
        labels = self._normalized_labels(labels)
        found = self.predict(X)
        if self._model.thresholds is not None and not self._is_indicator:
            check_as_many(found, labels, "a list of labels")
            return mean([set(a) == set(b) for a, b in zip(found, labels)], sample_weight)
        check_as_many(found, labels, "a label")
        found = found.tolist() if self._is_indicator else found
        return mean([a == b for a, b in zip(found, labels)], sample_weight)

    def _normalized_labels(self, labels: list[Any]) -> list[Any]:
        """Normalizes labels as in ``fit``: to the model's spelling and, in a tree, with all parent labels."""
        model = self._fitted()
        if self._is_indicator:
            return labels
        # A class of the model is never a missing label, whatever ``missing`` says.
        read, named = LabelReader(self.missing, model.labels), self.__dict__.get("_named") or {}
        several = [[read(row, one) for one in (label if isinstance(label, _LABEL_SET_TYPES) else (label,))] for row, label in enumerate(labels)]
        texts = [[str(one).strip() for one in row] for row in several]
        if self.merge_labels:
            texts = [_chumoku.merged_labels(row, model.labels) for row in texts]
        in_tree = model.tidied(texts)
        if in_tree is not None:
            found = [[named.get(text, text) for text in row] for row in in_tree]
        else:
            # A string in the model's spelling stays unchanged: the string "1" is not the number.
            found = [[one if text == str(one) else named.get(text, text) for one, text in zip(*both)] for both in zip(several, texts)]
        return [row if isinstance(label, _LABEL_SET_TYPES) else row[0] for row, label in zip(found, labels)]

    def _open(self, folder: pathlib.Path) -> Any:
        model = self._loaded(folder)
        named = self.__dict__.get("_named")
        self._is_indicator = self.__dict__.get("_is_indicator", False)
        # White space around names of paths is trimmed.
        given = [label if named is None else named.get(label, label) for label in model.labels]
        # The model orders its classes by name.
        self.classes_, self._order = sorted_classes(given)
        return model

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        tags.target_tags.required = True
        tags.classifier_tags.multi_label = True
        return tags

    def _summary(self) -> list[tuple[str, str]]:
        named = ", ".join(map(str, self.classes_[:8])) + ("…" if len(self.classes_) > 8 else "")
        return [("classes", named), *super()._summary()]


def _labels_of(y: Any) -> list[Any]:
    if len(names_of(y) or ()) > 1:
        remedy = "name one of its columns, or give 0/1 columns as an array"
        raise TypeError(f"expected a list, a column or an array, got a whole {type(y).__name__}: {remedy}")
    return labels_of(y)


def _sets(y: Any, labels: list[Any]) -> tuple[list[Any], bool]:
    """Returns the labels of each row, and whether they were scikit-learn's indicators. Indicators have one column per
    label, and the column number is the label."""
    # (`labels_of` has converted a single column to labels.)
    if getattr(y, "ndim", 1) == 2 and y.shape[1] > 1:
        return [[i for i, x in enumerate(values) if _holds(row, x)] for row, values in enumerate(labels)], True
    return labels, False


def _holds(row: int, x: Any) -> bool:
    if is_none(x) or x not in (0, 1):
        raise ValueError(f"row {row}: expected 0 or 1 in each column of an array of labels, got {x!r:.40}: give other labels as lists")
    return bool(x)


def _label_of(label: Any, several: bool) -> dict[str, Any]:
    """Converts a row's label or labels to the form of a file."""
    return {"labels": sorted(str(one).strip() for one in label)} if several else {"label": str(label)}


def _budget(tune: str | int | None) -> int | float | None:
    """Parses the tuning budget: trials or seconds."""
    if tune is None or isinstance(tune, int) and not isinstance(tune, bool) and tune > 0:
        return tune  # type: ignore[return-value]
    found = re.fullmatch(r"([1-9]\d{0,8})([smh])", tune) if isinstance(tune, str) else None
    if found is None:
        raise ValueError(f'tune: expected a time such as "30s", "10m" or "2h", or a number of trials from 1, got {tune!r}')
    return float(int(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]])


def _choose_class(probabilities: Any, least: list[float | None]) -> Any:
    """Returns the most probable class that reaches its threshold; otherwise the most probable class without a
    threshold."""
    import numpy

    bound = numpy.asarray([2.0 if x is None else x for x in least], numpy.float32)
    is_free = numpy.asarray([x is None for x in least])
    reaching = numpy.where(probabilities >= bound, probabilities, -1)
    free = numpy.where(is_free, probabilities, -1)
    return numpy.where(reaching.max(1, initial=-1) >= 0, reaching.argmax(1), free.argmax(1))


__all__ = ["TextClassifier"]
