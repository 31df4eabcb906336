"""Classifiers of text, with the protocol of scikit-learn and the training of the command."""

from __future__ import annotations

import dataclasses
import numbers
import pathlib
import re
from typing import Any, Iterable, Mapping, Sequence

from . import _chumoku
from ._inputs import check_as_many, check_rows
from ._labels import LabelReader, check_distinct, labels_of, own, sorted_classes
from ._predictor import LEAST, Predictor, _warn, chunks, mean, weighted

# What a row's labels are where it may have several.
_SETS = (list, tuple, set, frozenset)


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
        from_pretrained: the folder of a pretrained encoder to start from, as transformers writes it; or that of a model of your own,
            which ``fit(X, y, old=…)`` then trains further (without ``old``, one that was fine-tuned is an encoder to start from).
        freeze: with ``from_pretrained``, what stays as it is: ``"none"``, ``"embeddings"``, a number of layers, or ``"all"``
            but the head, which is then a logistic regression on the encoder's vectors; chosen from the data if absent.
        class_weight: how much the rows of each class count: ``"balanced"`` (each class as much), ``"equal"`` (each row as much), or
            a dictionary of classes and how many times as much as others. Without it rare classes count somewhat more.
        optimize: ``"macro_f1"`` chooses answers for the mean F1 of the classes, by the validation rows: rare classes are answered more
            often. Probabilities stay as they are. If absent, the answer is the most probable class.
        hierarchy: what stands between the names of labels that are paths in a tree, as ``"/"`` in ``A/B/C``; or ``"none"``. Told from
            the labels if absent.
        tune: search settings on the validation rows first: for a time, ``"30s"``, ``"10m"`` or ``"2h"``, training included, or for a number
            of trials. Only where each text has one class.
        missing: texts of labels that mean that there is none, as ``["unknown"]``. If absent, ``"NaN"``, ``"NULL"``, ``"N/A"`` and the like, as in the
            command. A missing label is an error, and so are None and NaN; ``[]`` takes all of them as they stand.
        merge_labels: labels that differ only in letter case, width, white space or hyphens (Ham, ham) are one. Without it they are classes
            of their own, with a warning.
        columns: the names of columns beside the text that are to be learnt from too, as ``["price", "shop:category"]``. X is then a
            table: a DataFrame, or a dictionary of columns.
        text: where X is a table, the name of the column of texts, or of two for pairs. If absent, the one column that is left, or that of
            the name ``text``.
        folds: judge the settings by cross-validation too; ``metrics_["folds"]`` has what was found.
        settings: what is otherwise chosen from the data, by name: ``"dropout=0.2,words=2"`` or a dictionary; an unknown name lists all.
        lora: with ``from_pretrained``, leave its matrices as they are and train products of this rank beside them.
        out: the model folder to write; a temporary one, held in memory, if absent. An interrupted ``fit`` leaves its
            checkpoints there, and ``resume=True`` goes on from them.
        resume: continue from the newest checkpoint in ``out``.
        progress: called with a dictionary for each event, whose ``"event"`` is ``"said"``, ``"ready"``, ``"step"`` or
            ``"evaluated"``; ``"auto"`` shows a bar of tqdm if that is imported, else lines on standard error; ``None`` is
            silent.

    Attributes:
        classes_: the classes, sorted, as they were given: an array of texts, numbers, booleans or times, else of objects.
        metrics_: what ``metrics.json`` holds: scores on the rows that were held out, of the whole and of its parts.
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
        """Trains on texts and their labels; a tenth of the rows is held out to choose by, and a tenth to report on.

        Args:
            X: texts: a list, an array, or a column of pandas, polars, pyarrow or datasets; or pairs of texts, each a tuple; or, with
                ``columns``, a table.
            y: as many labels: texts, numbers, booleans, dates, members of an enumeration: whatever can be hashed and has a text of its
                own. If they are lists (or tuples, sets), or an array of 0 and 1 with a column for each label, a text may have any number
                of labels.
            sample_weight: how much each row counts: numbers from 0 on, of which only the ratios matter. A weight multiplies the row's
                loss, beside ``class_weight``, in the n-grams, in the network (the mean over a batch is weighted) and in the regression
                on an encoder's vectors; and what a row counts where held-out rows choose the penalty, the best epoch, the factors
                that join and calibrate the halves, and thresholds of labels. A row of weight 0 is left out. All rows count alike in
                the choice of features, in ``class_weight="balanced"``, between fine-tuning and a regression, for ``optimize``,
                ``abstain`` and intervals, and in all of ``metrics_`` but ``metrics_["valid"]``. That holds the best epoch's score and loss on the
                validation rows (of n-grams alone, the loss), each of which counts by its weight. Old rows (``old``) count as much as the
                new ones on average.
            old: where ``from_pretrained`` is a model of your own: the rows that it was trained on, ``(texts, labels)``, which it learns
                again so that it does not forget them; or ``"none"``, to learn from the new rows alone. ``metrics_["further"]`` then says
                what became of both.

        Raises:
            TypeError: a row is no text, or a label cannot be one.
            ValueError: there are too few rows or classes, or not as many labels or weights as texts, or a weight is negative.
            KeyboardInterrupt: on Ctrl-C, after what is there was saved; with ``out`` a later fit may ``resume``.
        """
        self._forget()
        table, labels = self._rows(X), labels_of(y)
        texts, pairs = table.texts, table.pairs
        check_as_many(texts, labels, "a label")
        if len(texts) < (LEAST if old is None else 1):
            raise ValueError(f"expected at least {LEAST} rows to learn from, got {len(texts)} sample{'s' * (len(texts) != 1)}")
        labels, self._is_indicator = _sets(y, labels)
        several = self._is_indicator or any(isinstance(label, _SETS) for label in labels)
        named: dict[str, Any] = {}
        check_rows(texts, pairs)
        for row, label in enumerate(labels):
            if several and not isinstance(label, _SETS):
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
        """Labels as the command reads them, which are remembered by how they are written."""
        read, found = LabelReader(self.missing), []
        for row, label in enumerate(labels):
            of_row = [read(row, one) for one in (label if several else (label,))]
            for one in of_row:
                if named.setdefault(str(one).strip(), one) != one:
                    raise ValueError(f"labels {named[str(one).strip()]!r} and {one!r} are written alike")
            found.append(of_row if several else of_row[0])
        return found

    def _old(self, old: Any, pairs: bool, named: dict[str, Any], several: bool) -> Iterable[dict[str, Any]] | str | None:
        """The old rows as those of a file, whose labels are named too; or "none", or nothing."""

        def checked(y: Any, labels: list[Any]) -> Iterable[dict[str, Any]]:
            labels = _sets(y, labels)[0]
            for row, label in enumerate(labels):
                if several != isinstance(label, _SETS):
                    wanted = "a list of labels" if several else "a label"
                    raise TypeError(f"row {row}: expected {wanted}, got {type(label).__name__} {label!r:.40}")
            return (_label_of(label, several) for label in self._as_read(labels, several, named))

        return self._old_rows(old, pairs, "label", labels_of, checked)

    def predict_proba(self, X: Iterable[Any]) -> Any:
        """Calibrated probabilities: float32 of shape (texts, classes), in the order of ``classes_``.

        Those of a text sum to 1; if texts may have several labels, each label has a probability of its own.

        Raises:
            TypeError: a row is no text.
            ValueError: a text is empty.
        """
        return self._probabilities(self._asked(X))

    def predict_log_proba(self, X: Iterable[Any]) -> Any:
        """The natural logarithms of :meth:`predict_proba`."""
        import numpy

        with numpy.errstate(divide="ignore"):
            return numpy.log(self.predict_proba(X))

    def _probabilities(self, texts: list[str]) -> Any:
        import numpy

        from ._arrays import described

        model = self._fitted()
        found = numpy.empty((len(texts), len(self._order)), numpy.float32)
        at = 0
        for part in chunks(texts):
            model.predict(part, described("probabilities", found[at : at + len(part)])[1])
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
        """The most probable class of each text: an array of the labels' own type.

        Where classes stand in a tree (A/B/C) the answer goes from its top down, as that of the command does.

        If texts may have several labels: for each text the list of its labels, the most probable first; or scikit-learn's
        indicators, (texts, labels) of 0 and 1, if it was fitted with such.

        Args:
            X: texts, or pairs of texts.
            abstain: the share of answers that shall be right, as 0.95; of several labels, all of a text's. A text of which the model cannot
                be so sure, or that is unlike all texts of training, gets ``None``; the array is then one of objects.
            threshold: from which probability on a class is the answer, as ``{"spam": 0.8}``; else the answer is the most probable of the
                classes that have none. Of several labels a number is that of all.
            precision_at_least: the same, by the share of right answers that a class had on the validation rows from there on.

        Raises:
            TypeError: a row is no text.
            ValueError: a text is empty, the validation rows allow no such promise, or classes stand in a tree.
        """
        import numpy

        asked = threshold is not None or precision_at_least is not None
        if abstain is not None:
            if asked:
                raise ValueError("abstain: not together with threshold or precision_at_least")
            return self._sure(X, abstain)
        probabilities = self.predict_proba(X)
        thresholds = self._model.thresholds
        if asked:
            least = self._least(threshold, precision_at_least)
            if thresholds is None:
                return self.classes_[_reaching(probabilities, least)]
            thresholds = numpy.asarray(thresholds, numpy.float32)
            thresholds[self._order] = [own if x is None else x for x, own in zip(least, thresholds[self._order])]
            thresholds = self._model.raised(thresholds.tolist())
        if thresholds is None:
            if self._model.answers([]) is None:
                return self.classes_[probabilities.argmax(1)]
            place = numpy.argsort(self._order)
            return self.classes_[place[self._model.answers(probabilities[:, place].tolist())]]
        return self._several(probabilities, thresholds)

    def _several(self, probabilities: Any, thresholds: Any) -> Any:
        """The labels of each text from their probabilities."""
        import numpy

        holds = probabilities >= numpy.asarray(thresholds, numpy.float32)[self._order]
        if self._is_indicator:
            return holds.astype(int)
        order = (-probabilities).argsort(1, kind="stable")
        return [[own(self.classes_[i]) for i in best if row[i]] for best, row in zip(order, holds)]

    def _least(self, *asked: Any) -> list[float | None]:
        """From which probability on each of ``classes_`` is an answer, where that was asked for."""
        model, several = self._model, self._model.thresholds is not None
        if not several and model.has_tree():
            raise ValueError("threshold, precision_at_least: expected classes without a tree above them")
        least: list[float | None] = [None] * len(self.classes_)
        for what, given in zip(("threshold", "precision_at_least"), asked):
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
                    # Of all labels at once some may stay as they are.
                    if x is None and not isinstance(given, Mapping):
                        continue
                    if x is None:
                        raise ValueError(f"{what}: {label!r} is so often right at no probability on the validation rows: ask for less")
                if least[place] is not None:
                    raise ValueError(f"{what}: {label!r} has a threshold already")
                least[place] = float(x)
        if not several and None not in least:
            raise ValueError("threshold, precision_at_least: every class has one, so some texts would have no answer: leave one without")
        return least

    def _place(self, what: str, label: Any) -> int:
        found = [i for i, known in enumerate(self.classes_) if bool(known == label)]
        if not found:
            known = ", ".join(repr(own(known)) for known in self.classes_[:8])
            raise ValueError(f"{what}: the model has no class {label!r}; expected one of {known}")
        return found[0]

    def _sure(self, X: Iterable[Any], level: float) -> Any:
        """The classes that the model is sure enough of."""
        import numpy

        if not 0 < level < 1:
            raise ValueError(f"abstain: expected a share between 0 and 1 of answers that shall be right, got {level!r}")
        model, texts = self._fitted(), self._asked(X)
        if model.task == "labels":
            if self._is_indicator:
                raise ValueError("abstain: expected a model of lists of labels, got one of indicators, which have no row for no answer")
            told = self._several(self._probabilities(texts), model.thresholds)
            answers = numpy.empty(len(texts), object)
            sure = (is_sure for part in chunks(texts) for is_sure in model.answered(part, level))
            for row, is_sure in enumerate(sure):
                answers[row] = told[row] if is_sure else None
            return answers
        if model.has_tree():
            raise ValueError("abstain: expected classes without a tree above them, got a tree: predict without it, which answers from the top down")
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
        """The share of texts whose most probable class is their label, or all of whose labels are those predicted.

        With ``sample_weight`` each text counts as much as its weight says. Labels are read as ``fit`` reads them: with ``missing`` and
        ``merge_labels``.

        Raises:
            TypeError: a row is no text, or a label cannot be one.
            ValueError: a label is missing, or there are not as many labels or weights as texts.
        """
        labels = self._as_answered(labels_of(y))
        found = self.predict(X)
        if self._model.thresholds is not None and not self._is_indicator:
            check_as_many(found, labels, "a list of labels")
            return mean([set(a) == set(b) for a, b in zip(found, labels)], sample_weight)
        check_as_many(found, labels, "a label")
        found = found.tolist() if self._is_indicator else found
        return mean([a == b for a, b in zip(found, labels)], sample_weight)

    def _as_answered(self, labels: list[Any]) -> list[Any]:
        """Labels as ``fit`` reads them and as the model tells them: in its spelling, and in a tree with the labels above them."""
        model = self._fitted()
        if self._is_indicator:
            return labels
        # A class is never a missing label, whatever this estimator takes for one.
        read, named = LabelReader(self.missing, model.labels), self.__dict__.get("_named") or {}
        several = [[read(row, one) for one in (label if isinstance(label, _SETS) else (label,))] for row, label in enumerate(labels)]
        texts = [[str(one).strip() for one in row] for row in several]
        if self.merge_labels:
            texts = [_chumoku.merged_labels(row, model.labels) for row in texts]
        in_tree = model.tidied(texts)
        if in_tree is not None:
            found = [[named.get(text, text) for text in row] for row in in_tree]
        else:
            # What is spelled as the model spells it stays what it is: the text "1" is not the number.
            found = [[one if text == str(one) else named.get(text, text) for one, text in zip(*both)] for both in zip(several, texts)]
        return [row if isinstance(label, _SETS) else row[0] for row, label in zip(found, labels)]

    def _open(self, folder: pathlib.Path) -> Any:
        model = self._loaded(folder)
        named = self.__dict__.get("_named")
        self._is_indicator = self.__dict__.get("_is_indicator", False)
        # Names of paths lose the white space around them.
        given = [label if named is None else named.get(label, label) for label in model.labels]
        # The model's own order is that of their names.
        self.classes_, self._order = sorted_classes(given)
        return model

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        tags.target_tags.required = True
        tags.classifier_tags.multi_label = True
        return tags

    def _facts(self) -> list[tuple[str, str]]:
        named = ", ".join(map(str, self.classes_[:8])) + ("…" if len(self.classes_) > 8 else "")
        return [("classes", named), *super()._facts()]


def _sets(y: Any, labels: list[Any]) -> tuple[list[Any], bool]:
    """The labels of rows, and whether they were scikit-learn's indicators: a column for each label, whose name is its number."""
    # (`labels_of` has turned a single column into labels.)
    if getattr(y, "ndim", 1) == 2 and y.shape[1] > 1:
        return [[i for i, holds in enumerate(row) if holds] for row in labels], True
    return labels, False


def _label_of(label: Any, several: bool) -> dict[str, Any]:
    """A row's label, or labels, as a file has them."""
    return {"labels": sorted(str(one).strip() for one in label)} if several else {"label": str(label)}


def _budget(tune: str | int | None) -> int | float | None:
    """Trials, or seconds."""
    if tune is None or isinstance(tune, int) and not isinstance(tune, bool) and tune > 0:
        return tune  # type: ignore[return-value]
    found = re.fullmatch(r"([1-9]\d{0,8})([smh])", tune) if isinstance(tune, str) else None
    if found is None:
        raise ValueError(f'tune: expected a time such as "30s", "10m" or "2h", or a number of trials from 1, got {tune!r}')
    return float(int(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]])


def _reaching(probabilities: Any, least: list[float | None]) -> Any:
    """Of the classes that reach what is asked of them the most probable one; else of those of which nothing is."""
    import numpy

    bound = numpy.asarray([2.0 if x is None else x for x in least], numpy.float32)
    is_free = numpy.asarray([x is None for x in least])
    reaching = numpy.where(probabilities >= bound, probabilities, -1)
    free = numpy.where(is_free, probabilities, -1)
    return numpy.where(reaching.max(1, initial=-1) >= 0, reaching.argmax(1), free.argmax(1))


__all__ = ["TextClassifier"]
