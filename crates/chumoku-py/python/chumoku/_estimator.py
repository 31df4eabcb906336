"""What all estimators share: parameters, training, model folders, pickling."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import json
import os
import pathlib
import sys
import tempfile
from typing import Any, Iterable, Iterator

from . import _chumoku, _files, _progress

# What a model folder holds beside the model: a run's, not the model's.
_OF_THE_RUN = ("log.jsonl", "tune.jsonl", ".chumoku-lock", "checkpoints")

# What a fitted estimator has that one to be fitted has not.
_OF_A_MODEL = ("metrics_", "classes_", "_model", "_folder", "_stamps", "_files", "_named", "_order", "_is_indicator")


class NotFittedError(ValueError, AttributeError):
    """Raised where a model is asked before it was fitted or loaded."""


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class Parameters:
    """The parameters of scikit-learn's protocol: the fields of a class that is made by ``dataclasses``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def set_params(self, **parameters: Any) -> Any:
        """Sets parameters; a name that is not one of them is an error."""
        names = list(self.get_params())
        for name, value in parameters.items():
            if name not in names:
                known = ", ".join(names)
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {known}")
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> Any:
        return type(self)(**self.get_params())

    def __repr__(self) -> str:
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        given = {name: x for name, x in self.get_params().items() if x is not usual[name] and x != usual[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={x!r}' for name, x in given.items())})"


class Estimator(Parameters):
    """A model that is trained on rows, and lives in a model folder.

    Attributes:
        metrics_: what ``metrics.json`` holds: scores on the rows that were held out; ``None`` where a folder has none.
    """

    out: str | os.PathLike[str] | None
    _files: dict[str, bytes] | None

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the model folder, which the command and ``load`` read. An existing file of another kind is not touched."""
        files = self._content()
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        strange = [path.name for path in folder.iterdir() if path.name not in files and path.name not in _OF_THE_RUN]
        if strange:
            raise ValueError(f"saving to {folder}: expected a new folder or an older model, found {', '.join(sorted(strange)[:3])}")
        for name, content in files.items():
            _files.write(folder / name, content)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], **parameters: Any) -> Any:
        """Reads a model folder that the command or ``save`` wrote. Parameters are those of a later ``fit``."""
        loaded = cls(**parameters)
        loaded._read(pathlib.Path(folder))
        return loaded

    # What a class has of its own.

    def _open(self, folder: pathlib.Path) -> Any:
        """The model in a folder."""
        raise NotImplementedError

    # What follows is for the classes themselves, for scikit-learn, pickle and notebooks.

    def _train(self, model: str, rows: Iterable[dict[str, Any]], **of_the_task: Any) -> None:
        """Trains on rows, as the command does, and reads the folder that is written."""
        with contextlib.ExitStack() as stack:
            place = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chumoku-")))
            wish = self.get_params()
            out = pathlib.Path(wish["out"]) if wish["out"] is not None else place / "model"
            file = _write(place / "rows.jsonl", rows)
            old = of_the_task.pop("old", None)
            if old is not None and not isinstance(old, str):
                old = _write(place / "old.jsonl", old)
            progress = stack.enter_context(_progress.listener(wish["progress"]))
            names = ("epochs", "seed", "precision", "tokens", "from_pretrained", "freeze", "lora", "resume")
            run = {name: wish.get(name) for name in names}
            run |= {"task": "class", "pairs": False, "class_weight": None, "hierarchy": None, "columns": [], "tune": None, "optimize": None}
            run |= {"folds": None, "settings": None} | of_the_task
            run["resume"] = bool(run["resume"])
            run["freeze"] = None if run["freeze"] is None else str(run["freeze"])
            try:
                _chumoku.train(run | {"model": model, "file": file, "old": old, "out": out}, progress)
            except ValueError as error:
                if str(place) not in str(error):
                    raise
                # The files are ours, and gone when this is read.
                raise ValueError(str(error).replace(str(file), "fit(X, y)").replace(str(place / "old.jsonl"), "old")) from None
            self._read(out)
            if self.out is None:
                self._files = self._content()

    def _read(self, folder: pathlib.Path) -> None:
        self._model = self._open(folder)
        self._folder = folder.absolute()
        self._stamps = _stamps(folder)
        self._files = None
        try:
            self.metrics_ = json.loads((folder / "metrics.json").read_bytes())
        except FileNotFoundError:
            self.metrics_ = None

    def _forget(self) -> None:
        for name in _OF_A_MODEL:
            self.__dict__.pop(name, None)

    def _fitted(self) -> Any:
        model = self.__dict__.get("_model")
        if model is None:
            raise _not_fitted()(f"this {type(self).__name__} has not been fitted: call fit(…), or load(folder)")
        return model

    def _content(self) -> dict[str, bytes]:
        """The files of the model's folder."""
        self._fitted()
        if self._files is not None:
            return self._files
        if _stamps(self._folder) != self._stamps:
            raise ValueError(f"{self._folder}: the model folder has changed since it was read: load it again")
        return {name: (self._folder / name).read_bytes() for name in self._stamps}

    @contextlib.contextmanager
    def _as_folder(self) -> Iterator[pathlib.Path]:
        """The model's folder, for a while."""
        if self._fitted() and self._files is None:
            self._content()
            yield self._folder
            return
        with tempfile.TemporaryDirectory(prefix="chumoku-") as place:
            folder = pathlib.Path(place) / type(self).__name__
            self.save(folder)
            yield folder

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        # The model's files take the place of the model.
        if state.pop("_model", None) is not None:
            state["_files"] = self._content()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if state.get("_files") is not None:
            with tempfile.TemporaryDirectory(prefix="chumoku-") as folder:
                for name, content in state["_files"].items():
                    (pathlib.Path(folder) / name).write_bytes(content)
                self._model = self._open(pathlib.Path(folder))

    def _facts(self) -> list[tuple[str, str]]:
        """What a notebook shows of a model that is fitted."""
        scores = (self.__dict__.get("metrics_") or {}).get("scores")
        numbers = scores.items() if isinstance(scores, dict) else ()
        return [(name, f"{x:.3f}" if isinstance(x, float) else f"{x}") for name, x in numbers if isinstance(x, (int, float))]

    def _repr_html_(self) -> str:
        rows = self._facts() if self.__sklearn_is_fitted__() else []
        body = "".join(f"<tr><th>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>" for a, b in rows)
        return f"<div><code>{html.escape(repr(self))}</code><table>{body}</table></div>"


def _write(file: pathlib.Path, rows: Iterable[dict[str, Any]]) -> pathlib.Path:
    """A file of rows."""
    with open(file, "w", encoding="utf-8") as written:
        for row in rows:
            json.dump(row, written)
            written.write("\n")
    return file


def _not_fitted() -> type[NotFittedError]:
    """The error, which is scikit-learn's own too where that is there: its tools look for it."""
    exceptions = sys.modules.get("sklearn.exceptions")
    if exceptions is None:
        return NotFittedError
    return type("NotFittedError", (NotFittedError, exceptions.NotFittedError), {})


def _stamps(folder: pathlib.Path) -> dict[str, tuple[int, int]]:
    """The files of a model, and when they were written."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file() and path.name not in _OF_THE_RUN)
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


__all__ = ["NotFittedError"]
