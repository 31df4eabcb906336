"""Shared by all estimators: parameters, training, model folders, pickling."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import html
import inspect
import json
import os
import pathlib
import sys
import tempfile
from typing import Any, Callable, Iterable, Iterator

from . import _chumoku, _files, _progress
from ._inputs import check_least, with_rows

# Files of a training run in a model folder, which are not part of the model.
_RUN_FILES = ("log.jsonl", "tune.jsonl", ".chumoku-lock", "checkpoints")

# Attributes that exist only on a fitted estimator.
_FITTED_ATTRIBUTES = ("metrics_", "classes_", "_model", "_folder", "_stamps", "_files", "_named", "_order", "_is_indicator")
# Number of attempts to read a folder whose files are changing.
_ATTEMPTS = 5


# Methods whose arguments scikit-learn's metadata routing forwards.
_ROUTED_METHODS = ("fit", "predict", "score", "transform")

# Attributes other than parameters that a clone copies.
_CLONED_ATTRIBUTES = ("_requests", "_sklearn_output_config")


def _routable(method: Any) -> list[str]:
    """The requested arguments of a method other than X and y."""
    if method is None:
        return []
    return [name for name in inspect.signature(method).parameters if name not in ("X", "y", "texts")]


class NotFittedError(ValueError, AttributeError):
    """Raised if a model is used before it was fitted or loaded."""


class computed:  # noqa: N801
    """A computed attribute that can be set. (scikit-learn's `validate_data` sets it, which a property would refuse.)"""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else self.function(instance)


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class Parameters:
    """Parameters in scikit-learn's protocol: the fields of a dataclass."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the parameters by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def set_params(self, **parameters: Any) -> Any:
        """Sets parameters; an unknown name is an error."""
        names = list(self.get_params())
        for name, value in parameters.items():
            if name not in names:
                known = ", ".join(names)
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {known}")
            setattr(self, name, value)
        return self

    def get_metadata_routing(self) -> Any:
        """Returns the arguments that each method requests, for scikit-learn's metadata routing."""
        from sklearn.utils.metadata_routing import MetadataRequest

        requests, aliases = MetadataRequest(owner=type(self).__name__), self.__dict__.get("_requests", {})
        for method in _ROUTED_METHODS:
            for name in _routable(getattr(self, method, None)):
                getattr(requests, method).add_request(param=name, alias=aliases.get(method, {}).get(name))
        return requests

    def set_fit_request(self, **arguments: bool | str | None) -> Any:
        """Requests arguments of :meth:`fit` from scikit-learn's tools, such as ``sample_weight=True``."""
        return self._request("fit", arguments)

    def set_predict_request(self, **arguments: bool | str | None) -> Any:
        """Requests arguments of ``predict`` from scikit-learn's tools, such as ``abstain=True``."""
        return self._request("predict", arguments)

    def set_score_request(self, **arguments: bool | str | None) -> Any:
        """Requests arguments of ``score`` from scikit-learn's tools, such as ``sample_weight=True``."""
        return self._request("score", arguments)

    def _request(self, method: str, arguments: dict[str, bool | str | None]) -> Any:
        known = _routable(getattr(self, method, None))
        for name in arguments:
            if name not in known:
                raise TypeError(f"{method}: expected arguments among {', '.join(known) or 'none'}, got {name!r}")
        requests = self.__dict__.setdefault("_requests", {})
        requests[method] = requests.get(method, {}) | arguments
        return self

    def __sklearn_clone__(self) -> Any:
        made = type(self)(**self.get_params())
        # scikit-learn's clone copies these attributes too.
        made.__dict__ |= {name: copy.deepcopy(self.__dict__[name]) for name in _CLONED_ATTRIBUTES if name in self.__dict__}
        return made

    def __repr__(self) -> str:
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        given = {name: x for name, x in self.get_params().items() if x is not usual[name] and x != usual[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={x!r}' for name, x in given.items())})"


class Estimator(Parameters):
    """A model that is trained on rows and stored in a model folder.

    Attributes:
        metrics_: the content of ``metrics.json``: scores on the held-out rows; ``None`` if a folder has none.
    """

    out: str | os.PathLike[str] | None
    _files: dict[str, bytes] | None

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the model folder, which the command and ``load`` can read. It never replaces a file that is not an
        older model."""
        files = self._model_files()
        folder = pathlib.Path(folder)
        if self._files is None and folder.is_dir() and folder.samefile(self._folder):
            # These files are there, unchanged: writing them again would look like a change.
            return
        folder.mkdir(parents=True, exist_ok=True)
        strange = [path.name for path in folder.iterdir() if path.name not in files and path.name not in _RUN_FILES]
        if strange:
            raise ValueError(f"saving to {folder}: expected a new folder or an older model, found {', '.join(sorted(strange)[:3])}")
        for name, content in files.items():
            _files.write(folder / name, content, own=True)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], **parameters: Any) -> Any:
        """Reads a model folder written by the command or ``save``. Parameters apply to a later ``fit``."""
        loaded = cls(**parameters)
        loaded._read(pathlib.Path(folder))
        return loaded

    # Overridden by each class.

    def _open(self, folder: pathlib.Path) -> Any:
        """Loads the model of a folder."""
        raise NotImplementedError

    # Methods for the subclasses, scikit-learn, pickle and notebooks.

    def _train(self, model: str, rows: Iterable[dict[str, Any]], **of_the_task: Any) -> None:
        """Trains on rows, as the command does, and reads the folder that it wrote."""
        with contextlib.ExitStack() as stack:
            place = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chumoku-")))
            wish, old = self._checked(), of_the_task.pop("old", None)
            if model == "ngrams" and wish["from_pretrained"] is not None and old is None:
                raise ValueError(
                    'from_pretrained: expected a model with a network to start from it, got model="ngrams": leave one of them out, '
                    "or train your own n-gram model further with fit(X, y, old=…)"
                )
            out = pathlib.Path(wish["out"]) if wish["out"] is not None else place / "model"
            file = _write(place / "rows.jsonl", rows)
            if old is not None and not isinstance(old, str):
                old = _write(place / "old.jsonl", old)
            progress = stack.enter_context(_progress.listener(wish["progress"]))
            names = ("epochs", "seed", "precision", "tokens", "from_pretrained", "freeze", "lora", "resume")
            run = {name: wish.get(name) for name in names}
            run |= {"task": "class", "pairs": False, "class_weight": None, "hierarchy": None, "columns": [], "tune": None, "optimize": None, "merge_labels": False}
            run |= {"folds": None, "settings": None, "sample_weight": None} | of_the_task
            run["resume"] = bool(run["resume"])
            run["freeze"] = None if run["freeze"] is None else str(run["freeze"])
            try:
                _chumoku.train(run | {"model": model, "file": file, "old": old, "out": out}, progress)
            except ValueError as error:
                # The temporary files are gone when the user reads the message.
                message = with_rows(str(error), {file: "fit(X, y)", place / "old.jsonl": "old"})
                if message == str(error):
                    raise
                raise ValueError(message) from None
            self._read(out)
            if self.out is None:
                self._files = self._model_files()

    def _checked(self) -> dict[str, Any]:
        """Returns the parameters after checking their types."""
        wish = self.get_params()
        for name, least in (("epochs", 1), ("seed", 0), ("lora", 1), ("folds", 2)):
            if wish.get(name) is not None or name == "seed":
                wish[name] = check_least(name, wish.get(name), least)
        for name in ("model", "precision", "tokens", "hierarchy", "optimize"):
            x = wish.get(name)
            if not isinstance(x, str) and (x is not None or name == "model" and name in wish):
                raise TypeError(f"{name}: expected a text, got {type(x).__name__} {x!r:.40}")
        for name in ("from_pretrained", "out"):
            x = wish.get(name)
            if x is not None and not isinstance(x, (str, os.PathLike)):
                raise TypeError(f"{name}: expected a path, got {type(x).__name__} {x!r:.40}")
            if x == "":
                raise ValueError(f"{name}: expected a path, got an empty text")
        if wish.get("resume") and wish["out"] is None:
            raise ValueError("resume: expected out too, the folder of the run to continue")
        return wish

    @computed
    def n_features_in_(self) -> int:
        """The number of input columns: one."""
        self._fitted()
        return 1

    def _read(self, folder: pathlib.Path) -> None:
        # Model and metadata are read separately. They belong together if no file changed meanwhile.
        for _ in range(_ATTEMPTS):
            stamps = _stamps(folder) if folder.is_dir() else {}
            model = self._open(folder)
            try:
                metrics = json.loads((folder / "metrics.json").read_bytes())
            except FileNotFoundError:
                metrics = None
            if _stamps(folder) == stamps:
                break
        else:
            raise ValueError(f"{folder}: the model folder changed each time that it was read: load it again later")
        self._model, self._folder, self._stamps = model, folder.absolute(), stamps
        self._files, self.metrics_ = None, metrics

    def _forget(self) -> None:
        for name in _FITTED_ATTRIBUTES:
            self.__dict__.pop(name, None)

    def _fitted(self) -> Any:
        model = self.__dict__.get("_model")
        if model is None:
            raise _not_fitted()(f"this {type(self).__name__} has not been fitted: call fit(…), or load(folder)")
        return model

    def _model_files(self) -> dict[str, bytes]:
        """Returns the files of the model's folder."""
        self._fitted()
        if self._files is not None:
            return self._files
        if _stamps(self._folder) != self._stamps:
            raise ValueError(f"{self._folder}: the model folder has changed since it was read: load it again")
        return {name: (self._folder / name).read_bytes() for name in self._stamps}

    @contextlib.contextmanager
    def _as_folder(self) -> Iterator[pathlib.Path]:
        """Provides the model's folder for a limited time."""
        if self._fitted() and self._files is None:
            self._model_files()
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
        # The pickled state holds the model's files instead of the native model.
        if state.pop("_model", None) is not None:
            state["_files"] = self._model_files()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if state.get("_files") is not None:
            with tempfile.TemporaryDirectory(prefix="chumoku-") as folder:
                for name, content in state["_files"].items():
                    (pathlib.Path(folder) / name).write_bytes(content)
                self._model = self._open(pathlib.Path(folder))

    def _summary(self) -> list[tuple[str, str]]:
        """The summary of a fitted model for notebooks."""
        scores = (self.__dict__.get("metrics_") or {}).get("scores")
        numbers = scores.items() if isinstance(scores, dict) else ()
        return [(name, f"{x:.3f}" if isinstance(x, float) else f"{x}") for name, x in numbers if isinstance(x, (int, float))]

    def _repr_html_(self) -> str:
        rows = self._summary() if self.__sklearn_is_fitted__() else []
        body = "".join(f"<tr><th>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>" for a, b in rows)
        return f"<div><code>{html.escape(repr(self))}</code><table>{body}</table></div>"


def _write(file: pathlib.Path, rows: Iterable[dict[str, Any]]) -> pathlib.Path:
    """Writes rows to a temporary JSON Lines file."""
    with open(file, "w", encoding="utf-8") as written:
        for row in rows:
            json.dump(row, written)
            written.write("\n")
    return file


def _not_fitted() -> type[NotFittedError]:
    """The error class, which is also scikit-learn's own if that is installed: its tools look for it."""
    exceptions = sys.modules.get("sklearn.exceptions")
    if exceptions is None:
        return NotFittedError
    return type("NotFittedError", (NotFittedError, exceptions.NotFittedError), {})


def _stamps(folder: pathlib.Path) -> dict[str, tuple[int, int]]:
    """Returns the files of a model with their modification times."""
    stamps = {}
    for path in sorted(folder.iterdir()):
        # Another model may be replacing this one.
        with contextlib.suppress(FileNotFoundError):
            found = path.stat()
            if path.is_file() and path.name not in _RUN_FILES:
                stamps[path.name] = (found.st_size, found.st_mtime_ns)
    return stamps


__all__ = ["NotFittedError"]
