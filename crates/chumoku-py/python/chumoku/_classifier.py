"""Classifiers of text, with the protocol of scikit-learn and the training of the command."""

from __future__ import annotations

import contextlib
import html
import json
import os
import pathlib
import sys
import tempfile
from typing import Any, Callable, Iterable

from . import _chumoku

# What a model folder holds beside the model: a run's, not the model's.
_OF_THE_RUN = ("log.jsonl", ".chumoku-lock", "checkpoints")


class NotFittedError(ValueError, AttributeError):
    """Raised where a model is asked before it was fitted or loaded."""


def _not_fitted() -> Exception:
    # scikit-learn's own, where it is there: its tools look for that.
    exceptions = sys.modules.get("sklearn.exceptions")
    kind = NotFittedError if exceptions is None else exceptions.NotFittedError
    return kind("this TextClassifier has not been fitted: call fit(texts, labels), or TextClassifier.load(folder)")


def _listed(x: Any) -> list:
    """A list of whatever holds texts or labels: lists, arrays, columns of tables."""
    if isinstance(x, (str, bytes)):
        raise TypeError(f"expected several texts, got one {type(x).__name__}: put it into a list")
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(x, method):
            x = getattr(x, method)()
            break
    return list(x)


def _texts(x: Any) -> list[str]:
    texts = _listed(x)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            got = "nothing (None or NaN)" if text is None or text != text else f"{type(text).__name__} {text!r:.40}"
            raise TypeError(f"row {row}: expected a text, got {got}")
    return texts


def _is_unicode(x: str) -> bool:
    try:
        x.encode()
    except UnicodeEncodeError:
        return False
    return True


class Explanation:
    """Why a text got its class, as ``chumoku explain`` finds it.

    Attributes:
        data: all of it, as ``chumoku explain --json`` writes it.
        label: the class, by name.
        probabilities: of each class, by name.
        words: the words of the text, with the tokens that the model adds around it.
        effects: for each word the change of the class's log-odds when the word is removed.
    """

    def __init__(self, found: Any) -> None:
        self._found = found
        self.data: dict = json.loads(found.json())
        self.label: str = self.data["label"]
        self.probabilities = {each["label"]: each["probability"] for each in self.data["probabilities"]}
        self.words = [word["text"] for word in self.data["words"]]
        self.effects: list[float] = self.data["attribution"]["whole"] or self.data["attribution"]["scores"]

    @property
    def attention(self) -> Any:
        """The attention between words: float32 of shape (layers, heads, words, words), from row to column."""
        import numpy

        return numpy.asarray(self.data["attention"], numpy.float32)

    def page(self, lang: str = "en") -> str:
        """The page with every layer and head, as HTML that needs nothing else; ``"ja"`` is Japanese."""
        return self._found.page(lang)

    def save(self, file: str | os.PathLike[str], lang: str = "en") -> None:
        """Writes the page to a file."""
        page = self.page(lang).encode()
        beside = pathlib.Path(file).with_name(f".{pathlib.Path(file).name}.new")
        with open(beside, "wb") as written:
            written.write(page)
            written.flush()
            os.fsync(written.fileno())
        os.replace(beside, file)

    def show(self, lang: str = "en", height: int = 900) -> None:
        """Shows the page in a notebook, in a frame of its own."""
        from IPython.display import HTML, display

        source = html.escape(self.page(lang), quote=True)
        display(HTML(f'<iframe srcdoc="{source}" sandbox="allow-scripts" style="width:100%;height:{height}px;border:0"></iframe>'))

    def _repr_html_(self) -> str:
        largest = max((abs(effect) for effect in self.effects), default=0.0) or 1.0
        words = []
        for word, effect in zip(self.data["words"], self.effects):
            if word.get("special"):
                continue
            # Blue speaks for the class, orange against it; the number is there for those who see neither.
            colour = "37,99,235" if effect > 0 else "234,88,12"
            style = f"background:rgba({colour},{0.6 * abs(effect) / largest:.2f});padding:1px 2px;border-radius:3px"
            words.append(f'<span style="{style}" title="{effect:+.2f}">{html.escape(word["text"])}</span>')
        said = ", ".join(f"{html.escape(label)} {p:.1%}" for label, p in self.probabilities.items())
        return f'<div><p><b>{html.escape(self.label)}</b> ({said})</p><p style="line-height:1.8">{" ".join(words)}</p></div>'


class TextClassifier:
    """A classifier of text: a transformer and an n-gram model, trained as ``chumoku train`` does it.

    The same rows, seed and settings write the same ``model.safetensors`` as the command.

    >>> classifier = chumoku.TextClassifier(epochs=3)                                   # doctest: +SKIP
    >>> classifier.fit(["very good", "very bad", ...], ["yes", "no", ...])              # doctest: +SKIP
    >>> classifier.predict(["quite good"])                                              # doctest: +SKIP

    Args:
        epochs: at most; chosen from the data if absent.
        seed: decides initial weights, order and dropout.
        precision: of float32 products: ``"medium"``, ``"high"`` or ``"highest"``.
        from_pretrained: the folder of a pretrained encoder to start from, as transformers writes it.
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

    def __init__(
        self,
        *,
        epochs: int | None = None,
        seed: int = 42,
        precision: str = "medium",
        from_pretrained: str | os.PathLike[str] | None = None,
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: Callable[[dict], Any] | str | None = "auto",
    ) -> None:
        self.epochs = epochs
        self.seed = seed
        self.precision = precision
        self.from_pretrained = from_pretrained
        self.out = out
        self.resume = resume
        self.progress = progress

    _PARAMETERS = ("epochs", "seed", "precision", "from_pretrained", "out", "resume", "progress")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, by name."""
        return {name: getattr(self, name) for name in self._PARAMETERS}

    def set_params(self, **parameters: Any) -> TextClassifier:
        """Sets parameters; a name that is not one of them is an error."""
        for name, value in parameters.items():
            if name not in self._PARAMETERS:
                known = ", ".join(self._PARAMETERS)
                raise ValueError(f"TextClassifier has no parameter {name!r}; it has {known}")
            setattr(self, name, value)
        return self

    def fit(self, X: Iterable[str], y: Iterable[Any]) -> TextClassifier:
        """Trains on texts and their labels; a tenth of the rows is held out to choose by, and a tenth to report on.

        Args:
            X: texts: a list, an array, or a column of pandas, polars, pyarrow or datasets.
            y: as many labels, of any type.

        Raises:
            TypeError: a row is no text.
            ValueError: there are too few rows or classes, or not as many labels as texts.
            KeyboardInterrupt: on Ctrl-C, after what is there was saved; with ``out`` a later fit may ``resume``.
        """
        texts, labels = _texts(X), _listed(y)
        if len(texts) != len(labels):
            raise ValueError(f"expected a label for each of {len(texts)} texts, got {len(labels)}")
        for row, (text, label) in enumerate(zip(texts, labels)):
            if label is None or label != label:
                raise ValueError(f"row {row}: expected a label, got nothing (None or NaN)")
            for what, x in (("text", text), ("label", str(label))):
                if not x.strip():
                    raise ValueError(f"row {row}: expected some characters, got an empty {what}: leave such rows out")
                if not _is_unicode(x):
                    raise ValueError(f"row {row}: expected a {what} in Unicode, got a lone surrogate: {x!a:.40}")
        named: dict[str, Any] = {}
        for label in labels:
            if named.setdefault(str(label).strip(), label) != label:
                raise ValueError(f"labels {named[str(label).strip()]!r} and {label!r} are written alike")
        self._forget()
        with contextlib.ExitStack() as stack:
            place = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chumoku-")))
            out = pathlib.Path(self.out) if self.out is not None else place / "model"
            rows = place / "rows.jsonl"
            with open(rows, "w", encoding="utf-8") as file:
                for text, label in zip(texts, labels):
                    json.dump({"text": text, "label": str(label)}, file)
                    file.write("\n")
            progress = stack.enter_context(_progress(self.progress))
            try:
                _chumoku.train_classifier(
                    rows,
                    out,
                    epochs=self.epochs,
                    seed=self.seed,
                    precision=self.precision,
                    from_pretrained=self.from_pretrained,
                    resume=self.resume,
                    progress=progress,
                )
            except ValueError as error:
                if str(rows) not in str(error):
                    raise
                # The file is ours, and gone when this is read.
                raise ValueError(str(error).replace(str(rows), "fit(X, y)")) from None
            self._read(out, named)
        return self

    def predict_proba(self, X: Iterable[str]) -> Any:
        """Calibrated probabilities: float32 of shape (texts, classes), in the order of ``classes_``."""
        import numpy

        from ._arrays import described

        model, texts = self._fitted(), _texts(X)
        found = numpy.empty((len(texts), len(self._order)), numpy.float32)
        model.predict(texts, described("probabilities", found)[1])
        return numpy.ascontiguousarray(found[:, self._order])

    def predict(self, X: Iterable[str]) -> Any:
        """The most probable class of each text: an array of the labels' own type."""
        best = self.predict_proba(X).argmax(1) if len(self._fitted().labels) else []
        return self.classes_[best]

    def score(self, X: Iterable[str], y: Iterable[Any]) -> float:
        """The share of texts whose most probable class is their label."""
        import numpy

        labels = _listed(y)
        found = self.predict(X)
        if len(found) != len(labels):
            raise ValueError(f"expected a label for each of {len(found)} texts, got {len(labels)}")
        return float(numpy.mean([a == b for a, b in zip(found.tolist(), labels)])) if labels else float("nan")

    def explain(self, text: str) -> Explanation:
        """Why this text gets its class: the effect of each word, and the attention of every layer and head."""
        if not isinstance(text, str):
            raise TypeError(f"expected one text, got {type(text).__name__}")
        return Explanation(self._fitted().explain(text, "TextClassifier"))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the model folder, which the command and :meth:`load` read. An existing file of another kind is not touched."""
        self._fitted()
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        strange = [path.name for path in folder.iterdir() if path.name not in self._files and path.name not in _OF_THE_RUN]
        if strange:
            raise ValueError(f"saving to {folder}: expected a new folder or an older model, found {', '.join(sorted(strange)[:3])}")
        for name, content in self._files.items():
            # Beside, flushed, renamed: whoever reads meanwhile sees the old file or the new one.
            beside = folder / f".{name}.new"
            with open(beside, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, folder / name)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], **parameters: Any) -> TextClassifier:
        """Reads a model folder of a classifier, that the command or :meth:`save` wrote. Its classes are texts."""
        loaded = cls(**parameters)
        loaded._read(pathlib.Path(folder), None)
        return loaded

    # What follows is for scikit-learn, pickle and notebooks.

    def _read(self, folder: pathlib.Path, named: dict[str, Any] | None) -> None:
        import numpy

        model = _chumoku.Classifier.load(folder)
        own = [label if named is None else named[label] for label in model.labels]
        # Sorted as NumPy sorts them, which is what scikit-learn expects; the model's own order is that of their names.
        self.classes_, order = numpy.unique(_array(own), return_index=True)
        self._order = order.tolist()
        self._named = named
        self._files = {
            path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file() and path.name not in _OF_THE_RUN
        }
        metrics = self._files.get("metrics.json")
        self.metrics_ = None if metrics is None else json.loads(metrics)
        self._model = model

    def _forget(self) -> None:
        for name in ("classes_", "metrics_", "_model", "_files", "_order", "_named"):
            self.__dict__.pop(name, None)

    def _fitted(self) -> Any:
        model = self.__dict__.get("_model")
        if model is None:
            raise _not_fitted()
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    def __sklearn_clone__(self) -> TextClassifier:
        return type(self)(**self.get_params())

    def __getstate__(self) -> dict[str, Any]:
        # The model's files take the place of the model.
        return {name: x for name, x in self.__dict__.items() if name != "_model"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_files" in state:
            with tempfile.TemporaryDirectory(prefix="chumoku-") as folder:
                for name, content in self._files.items():
                    (pathlib.Path(folder) / name).write_bytes(content)
                self._read(pathlib.Path(folder), self._named)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._PARAMETERS if getattr(self, name) not in (None, False, "auto"))
        return f"TextClassifier({said})"

    def _repr_html_(self) -> str:
        rows = [("classes", ", ".join(map(str, self.classes_[:8])) + ("…" if len(self.classes_) > 8 else ""))] if self.__sklearn_is_fitted__() else []
        test = (self.__dict__.get("metrics_") or {}).get("test")
        if isinstance(test, dict):
            rows += [(name, f"{x:.3f}" if isinstance(x, float) else f"{x}") for name, x in test.items() if isinstance(x, (int, float))]
        body = "".join(f"<tr><th>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>" for a, b in rows)
        return f"<div><code>{html.escape(repr(self))}</code><table>{body}</table></div>"


def _array(labels: list) -> Any:
    """An array of labels, in their own type where they have one."""
    import numpy

    array = numpy.asarray(labels)
    return array if array.ndim == 1 and array.dtype != object else numpy.asarray([str(label) for label in labels])


@contextlib.contextmanager
def _progress(progress: Callable[[dict], Any] | str | None) -> Any:
    """What is called with each event; for "auto" a bar of tqdm, or lines on standard error."""
    if progress is None or callable(progress):
        yield progress
        return
    if progress != "auto":
        raise ValueError(f'progress: expected "auto", None or something to call, got {progress!r}')
    tqdm = sys.modules.get("tqdm")
    if tqdm is None:
        yield _tell
        return
    with tqdm.tqdm(unit="step", leave=False) as bar:

        def show(event: dict) -> None:
            if event["event"] == "ready":
                bar.total = event["steps"]
                bar.refresh()
            elif event["event"] == "step":
                bar.set_postfix(loss=f"{event['loss']:.3f}", refresh=False)
                bar.update(event["step"] - bar.n)

        yield show


def _tell(event: dict) -> None:
    if event["event"] == "ready":
        print(f"training: {event['steps']} steps, about {event['expected_seconds']:.0f} s", file=sys.stderr)
    elif event["event"] == "evaluated":
        numbers = ", ".join(f"{name} {x:.3f}" for name, x in event.items() if isinstance(x, float))
        print(f"epoch {event['epoch']}: {numbers}{' (best)' if event['is_best'] else ''}", file=sys.stderr)


__all__ = ["Explanation", "NotFittedError", "TextClassifier"]
