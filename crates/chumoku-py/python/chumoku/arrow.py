"""Predictions for the rows of Arrow tables. Ray Data, Spark and other systems that pass Arrow batches use them.

>>> answers = chumoku.arrow.predict("model", column="review")                           # doctest: +SKIP
>>> answers(table)                        # the table, with label, probability, error   # doctest: +SKIP
>>> spark_frame.mapInArrow(answers.batches, answers.schema(arrow_schema))               # doctest: +SKIP

:func:`predict`, :func:`embed` and :func:`explain` return a function of tables. The function can be pickled and loads
its model on the first call, so it can be sent to other processes. A row's answer depends on no other row. However a
table is split into batches, the answers are the same, and equal to the command's.

A row that cannot be answered stops nothing: it stays in place, its answer is null, and ``error`` has the reason.
"""

from __future__ import annotations

import datetime
import json
import os
import re
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, cast

from . import _chumoku

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError(f"chumoku.arrow needs pyarrow: pip install pyarrow ({error})") from error

# Texts per batch: enough to sort by length.
_CHUNK = 4096
# The maximum size of a text in bytes, as in the command.
_MAX_TEXT_BYTES = 16 << 20
# Default columns that locate a row: the column that Ray's include_paths=True adds.
_DEFAULT_PLACE = ("path",)

# A single text, or a pair or a text with feature columns.
_Row = str | _chumoku.Row

_SPANS = pa.list_(
    pa.struct(
        [("start", pa.int64()), ("end", pa.int64()), ("label", pa.string()), ("text", pa.string()), ("probability", pa.float64())]
    )
)
_WORDS = pa.list_(pa.struct([("text", pa.string()), ("effect", pa.float64())]))


def predict(
    model: str | os.PathLike[str],
    *,
    column: str | tuple[str, str] = "text",
    top: int | None = None,
    abstain: float | None = None,
    threshold: Mapping[str, float] | float | None = None,
    precision_at_least: Mapping[str, float] | float | None = None,
    set: Mapping[str, Any] | None = None,
    precision: str | None = None,
    place: Sequence[str] | None = None,
) -> Answers:
    """The answers of ``chumoku predict``, as a function of tables.

    It adds the columns of the command: ``label`` and ``probability`` (with ``top`` also ``label_2``, ``probability_2``
    …). A regressor adds ``score``, ``low`` and ``high``. A multi-label model adds ``labels`` and ``probabilities``,
    which are lists. A tagger adds ``spans``, a list of ``start``, ``end``, ``label``, ``text`` and ``probability``. All
    of them add ``error``. A column whose name already exists in the table is called ``predicted_…``.

    With ``abstain`` there is also ``abstained``: the abstention reason (``unsure`` or ``unlike_training``), or null for
    an answered row. An unanswered row has null in ``label``, in ``labels`` and ``probabilities``, or in ``score``,
    ``low`` and ``high``.

    Args:
        model: the model's folder, on every machine that answers.
        column: the text column, or the two columns of pairs. The model's feature columns are found by name.
        top, abstain, threshold, precision_at_least, set, precision: as the flags of the command.
        place: columns that locate a row for ``error``, such as ``("path", "line")``; by default ``path`` if it exists.
    """
    flags = {"top": top, "abstain": abstain, "threshold": threshold, "precision_at_least": precision_at_least, "set": set, "precision": precision}
    return Answers("predict", model, column, flags, place)


def embed(
    model: str | os.PathLike[str],
    *,
    column: str = "text",
    prompt: str | None = None,
    normalize: bool | None = None,
    precision: str | None = None,
    place: Sequence[str] | None = None,
) -> Answers:
    """The vectors of :class:`chumoku.Embedder`, as a function of tables: adds ``embedding``, a list of float32, and ``error``."""
    return Answers("embed", model, column, {"prompt": prompt, "normalize": normalize, "precision": precision}, place)


def explain(
    model: str | os.PathLike[str],
    *,
    column: str | tuple[str, str] = "text",
    method: str | None = None,
    set: Mapping[str, Any] | None = None,
    precision: str | None = None,
    place: Sequence[str] | None = None,
) -> Answers:
    """The explanations of ``chumoku explain --input … --json -``, as a function of tables.

    It adds ``label``; ``words``, a list of ``text`` and ``effect``; ``explanation``, the command's full object in JSON;
    and ``error``. A tagger adds only ``explanation`` and ``error``.
    """
    return Answers("explain", model, column, {"method": method, "set": set, "precision": precision}, place)


class Answers:
    """A function of Arrow tables that adds answer columns; created by :func:`predict`, :func:`embed` and
    :func:`explain`."""

    def __init__(
        self,
        command: str,
        model: str | os.PathLike[str],
        column: str | tuple[str, str],
        flags: Mapping[str, Any],
        place: Sequence[str] | None,
    ) -> None:
        names = [column] if isinstance(column, str) else list(column)
        if not (1 <= len(names) <= 2 and all(isinstance(name, str) for name in names)):
            raise TypeError(f"column: expected the name of a column, or of the two of pairs, got {column!r:.60}")
        if isinstance(place, str):
            raise TypeError(f"place: expected a list of names, got one text: [{place!r}]")
        self._command, self._model, self._names = command, os.path.abspath(model), names
        self._flags, self._place = dict(flags), None if place is None else list(place)
        self._engine: _Model | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_engine": None}

    def load(self) -> Answers:
        """Loads the model now instead of on the first call.

        Raises:
            ValueError: the model or a flag cannot be used, or the number of columns differs from the number of texts
                that the model reads.
        """
        self._loaded
        return self

    @property
    def _loaded(self) -> _Model:
        engine = self._engine
        if engine is None:
            engine = _Embeddings(self._model, self._flags) if self._command == "embed" else _Predictions(self._command, self._model, self._flags)
            if engine.reads_pairs != (len(self._names) == 2):
                expected_columns = 'pairs of texts: name both columns, as ("premise", "hypothesis")' if engine.reads_pairs else "single texts: name one column"
                raise ValueError(f"column: this model reads {expected_columns}; got {', '.join(map(repr, self._names))}")
            self._engine = engine
        return engine

    def schema(self, given: pa.Schema) -> pa.Schema:
        """The output schema for an input schema.

        Raises:
            ValueError: a column is missing or occurs twice.
            TypeError: a column that should hold texts holds something else.
        """
        if not isinstance(given, pa.Schema):
            raise TypeError(f"expected a schema of pyarrow, got {type(given).__name__}")
        self._check_schema(given)
        for field in self._added(given):
            given = given.append(field)
        return given

    def _added(self, given: pa.Schema) -> list[pa.Field]:
        taken, fields = {name.strip().lower() for name in given.names}, []
        for field in [*self._loaded.fields, pa.field("error", pa.string())]:
            name = field.name
            number = 1
            while name.lower() in taken:
                # Names follow the command.
                name = f"predicted_{field.name}" if number == 1 else f"predicted_{field.name}_{number}"
                number += 1
            taken.add(name.lower())
            fields.append(field.with_name(name))
        return fields

    def __call__(self, table: pa.Table) -> pa.Table:
        """The table with the answer columns after its own.

        Raises:
            ValueError: a column is missing or occurs twice.
            TypeError: the value is not a table, or a column that should hold texts holds something else.
        """
        if not isinstance(table, (pa.Table, pa.RecordBatch)):
            raise TypeError(f"expected a table of Arrow (pyarrow.Table or pyarrow.RecordBatch), got {type(table).__name__}")
        engine = self._loaded
        self._check_schema(table.schema)
        texts, rows, errors = self._texts(table, engine)
        found = engine.answers(texts)
        for field, values in zip(self._added(table.schema), [*found, errors]):
            if values is not errors:
                spread: list[Any] = [None] * table.num_rows
                for row, value in zip(rows, values):
                    spread[row] = value
                values = spread
            table = table.append_column(field, pa.array(values, field.type))
        return table

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answers batch after batch, for Spark's ``mapInArrow``."""
        for batch in batches:
            yield from self(pa.Table.from_batches([batch])).to_batches()

    # Inputs of a row.

    def _texts(self, table: pa.Table, engine: _Model) -> tuple[list[_Row], list[int], list[str | None]]:
        """Returns the texts that the model can read, their rows, and for each other row the reason."""
        columns = [table[name] for name in self._names]
        beside = [[_cell(x) for x in table[name].to_pylist()] for name in engine.columns]
        places = [(name, table[name]) for name in self._places(table.column_names)]
        texts: list[_Row] = []
        rows: list[int] = []
        errors: list[str | None] = []
        for row, given in enumerate(zip(*(column.to_pylist() for column in columns))):
            error = next((error for error in map(self._problem, self._names, given) if error), None)
            if error is None:
                text = given[0] if len(given) == 1 else _chumoku.joined(*given)
                texts.append(engine.beside(text, [cells[row] for cells in beside]) if engine.has_columns else text)
                rows.append(row)
            elif places:
                where = ", ".join(_where(name, column[row].as_py()) for name, column in places)
                error = f"{where}: {error}"
            errors.append(error)
        return texts, rows, errors

    def _places(self, names: Sequence[str]) -> list[str]:
        """Returns the columns that locate a row."""
        if self._place is None:
            return [name for name in _DEFAULT_PLACE if names.count(name) == 1]
        return self._place

    def _check_schema(self, given: pa.Schema) -> None:
        """Checks that the input columns exist and that the text columns can hold texts."""
        self.check_names(given.names)
        for name in self._names:
            kind = given.field(name).type
            if not _may_be_texts(kind):
                raise TypeError(f"column {name!r}: expected texts, got {kind}: name the column of texts with column=…")

    def check_names(self, names: Sequence[str]) -> None:
        """Finds the input columns among those of a table.

        Raises:
            ValueError: a column is missing or occurs twice.
        """
        required = [("column", name) for name in self._names]
        required += [("a column that the model reads", name) for name in self._loaded.columns]
        required += [("place", name) for name in self._places(names)]
        for what, name in required:
            if name not in names:
                raise ValueError(f"{what}: the table has no column {name!r}; it has {', '.join(names[:12])}")
            if names.count(name) > 1:
                raise ValueError(f"{what}: the table has {names.count(name)} columns {name!r}: give the others another name")

    def _problem(self, name: str, x: Any) -> str | None:
        """Returns the reason why a model cannot read a value."""
        which = f"column {name!r}: " if len(self._names) == 2 else ""
        if not isinstance(x, str):
            got = "nothing (null)" if x is None else f"{type(x).__name__} {x!r:.40}"
            return f"{which}expected a text, got {got}"
        if not x.strip():
            return f"{which}expected some characters, got an empty text"
        if len(x) > _MAX_TEXT_BYTES // 4 and len(x.encode()) > _MAX_TEXT_BYTES:
            return f"{which}expected a text of at most {_MAX_TEXT_BYTES} bytes, got {len(x.encode())}"
        return None


class _Model:
    """A loaded model."""

    reads_pairs: bool
    # The feature columns that a table must have, and whether they are joined with the text.
    columns: list[str]
    has_columns: bool
    fields: list[pa.Field]
    _values: Callable[[list[_Row]], list[list[Any]]]

    def beside(self, text: _Row, cells: list[str]) -> _Row:
        return text

    def answers(self, texts: list[_Row]) -> list[list[Any]]:
        """Returns, for each field, the values of all texts."""
        found: list[list[Any]] = [[] for _ in self.fields]
        for at in range(0, len(texts), _CHUNK):
            for values, more in zip(found, self._values(texts[at : at + _CHUNK])):
                values.extend(more)
        return found


class _Predictions(_Model):
    """A model with the command's answers."""

    def __init__(self, command: str, model: str, flags: Mapping[str, Any]) -> None:
        if command == "explain":
            if _chumoku.model_kind(model) == "translator":
                raise ValueError(f"{model}: expected a model of single texts, got a translator: explain a translation with chumoku.Translator.load(folder).explain(text)")
        self._rows: _chumoku.RowPredictor | _chumoku.RowAnswerer
        try:
            if command == "explain":
                arguments = ["chumoku", command, model, *_arguments(flags), "--input", "-", "--json", "-"]
                self._rows = _chumoku.RowAnswerer.load(arguments, True)
            else:
                self._rows = _chumoku.RowPredictor.load(model, **_options(flags))
        except ValueError as error:
            raise ValueError(_as_argument(str(error), flags)) from None
        self.reads_pairs, self.columns = self._rows.reads_pairs, self._rows.columns
        self.has_columns = bool(self.columns or flags.get("set"))
        names = self._rows.names
        if command == "explain":
            has_words = _chumoku.model_kind(model) != "tagger"
            self.fields = [pa.field("label", pa.string()), pa.field("words", _WORDS)] if has_words else []
            self.fields.append(pa.field("explanation", pa.string()))
            self._values = self._explained if has_words else self._objects
        elif names is None:
            self.fields = [pa.field("labels", pa.list_(pa.string())), pa.field("probabilities", pa.list_(pa.float64()))]
            if flags.get("abstain") is not None:
                self.fields.append(pa.field("abstained", pa.string()))
            self._values = self._labels
        else:
            self.fields = [pa.field(name, _type_of(name)) for name in names]
            self._values = self._columns

    def beside(self, text: _Row, cells: list[str]) -> _Row:
        return self._rows.beside(text, cells)

    def _answers_of(self, texts: list[_Row]) -> list[Any]:
        return json.loads(self._rows.answer(texts))

    def _columns(self, texts: list[_Row]) -> list[list[Any]]:
        rows = self._answers_of(texts)
        # An empty string in the command's output stands for no answer or no reason.
        return [[None if row[i] == "" else row[i] for row in rows] for i in range(len(self.fields))]

    def _labels(self, texts: list[_Row]) -> list[list[Any]]:
        rows = self._answers_of(texts)
        each = [[row["labels"] and [one[key] for one in row["labels"]] for row in rows] for key in ("label", "probability")]
        return [*each, [row.get("why") for row in rows]]

    def _objects(self, texts: list[_Row]) -> list[list[Any]]:
        return [[json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in self._answers_of(texts)]]

    def _explained(self, texts: list[_Row]) -> list[list[Any]]:
        rows = self._answers_of(texts)
        words = [[{"text": word["text"], "effect": word["effect"]} for word in row["words"]] for row in rows]
        dumped = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
        return [[row["label"] for row in rows], words, dumped]


class _Embeddings(_Model):
    """An encoder."""

    def __init__(self, model: str, flags: Mapping[str, Any]) -> None:
        from ._embedder import Embedder

        self._embedder = Embedder(model, **flags).fit()
        self.reads_pairs, self.columns, self.has_columns = False, [], False
        self.fields = [pa.field("embedding", pa.list_(pa.float32()))]
        # Without pairs and columns, all rows are texts.
        self._values = lambda texts: [list(self._embedder.transform(cast("list[str]", texts)))]


def _type_of(name: str) -> pa.DataType:
    if name == "spans":
        return _SPANS
    is_number = name in ("score", "low", "high") or name.startswith("probability")
    return pa.float64() if is_number else pa.string()


def _may_be_texts(kind: pa.DataType) -> bool:
    """Returns true if a column of this type can hold texts: some types hold any object."""
    if pa.types.is_dictionary(kind):
        return _may_be_texts(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return True
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    return is_text or getattr(pa.types, "is_string_view", lambda kind: False)(kind)


def _as_argument(text: str, flags: Mapping[str, Any]) -> str:
    """Rewrites the command's message about a flag for a parameter."""
    for before in ("error: ", "エラー: "):
        text = text.removeprefix(before)
    for behind in ("; all options: --help", "。オプションの一覧: --help"):
        text = text.removesuffix(behind)
    name = "|".join(re.escape(flag.replace("_", "-")) for flag in flags)
    text = re.sub(rf"--({name})(?: <[^>]*>+)?(?![\w-])", lambda found: found[1].replace("-", "_"), text)
    return re.sub(r"^invalid value '(.*)' for '(\w+)'(?:: | \[possible values: )(.*?)\]?$", _invalid_value_message, text)


def _invalid_value_message(found: re.Match[str]) -> str:
    expected = found[3] if found[3].startswith("expected") else f"expected one of {found[3]}, got {found[1]}"
    return f"{found[2]}: {expected}"


def _where(name: str, x: Any) -> str:
    return str(x) if name == "path" else f"{name} {x}"


def _cell(x: Any) -> str:
    """Converts a feature value to its form in a file; an empty string if it is missing. No other row affects it."""
    if x is None or isinstance(x, float) and x != x:
        return ""
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, datetime.datetime):
        return str(x.date()) if x.time() == datetime.time() else x.strftime("%Y-%m-%d %H:%M:%S")
    return str(x)


def _options(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the options of :func:`predict` for the library: thresholds and values become pairs."""

    def thresholds(given: Any) -> list[tuple[str | None, float]]:
        if given is None:
            return []
        return list(given.items()) if isinstance(given, Mapping) else [(None, given)]

    values = [(name, _cell(x)) for name, x in (flags["set"] or {}).items()]
    return {**flags, "threshold": thresholds(flags["threshold"]), "precision_at_least": thresholds(flags["precision_at_least"]), "set": values}


def _arguments(flags: Mapping[str, Any]) -> list[str]:
    """Converts options to flags of a command line."""
    found: list[str] = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        if value is True:
            found.append(f"--{name}")
            continue
        each = [f"{key}={_cell(x)}" for key, x in value.items()] if isinstance(value, Mapping) else [_cell(value)]
        # As one argument: a value may begin with a hyphen.
        found += [f"--{name}={one}" for one in each]
    return found


__all__ = ["Answers", "embed", "explain", "predict"]
