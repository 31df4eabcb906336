"""Scores a Spark DataFrame with mapInArrow. Each executor reads the model once and gets the rows as Arrow batches."""

import os
import sys

import chumoku
import chumoku.arrow
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

# A model trained on a few rows. Yours is a folder that every executor can read.
texts = [f"{'good' if i % 2 else 'bad'} food, number {i}" for i in range(40)]
labels = ["positive" if i % 2 else "negative" for i in range(40)]
chumoku.TextClassifier(model="ngrams", out="spark-model", progress=None).fit(texts, labels)

# Executors run the Python with the package, which is this one here.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = [(i, text) for i, text in enumerate(["good soup", None, "bad bread", "good fish"])]
frame = spark.createDataFrame(rows, "id long, review string")

answers = chumoku.arrow.predict("spark-model", column="review")
schema = from_arrow_schema(answers.schema(to_arrow_schema(frame.schema)))
scored = [row.asDict() for row in frame.mapInArrow(answers.batches, schema).orderBy("id").collect()]
print(*scored, sep="\n")

# The same answers as without Spark.
alone = answers(pa.table({"id": [i for i, _ in rows], "review": [text for _, text in rows]})).to_pylist()
assert scored == alone, alone
assert [row["label"] for row in scored] == ["positive", None, "negative", "positive"]
assert scored[1]["error"] == "expected a text, got nothing (null)"
spark.stop()
