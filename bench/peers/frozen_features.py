"""Logistic regression on a frozen encoder's vectors, with sentence-transformers and scikit-learn.

    python frozen_features.py FOLDER ENCODER [--sets sst2] [--threads 2]

FOLDER is that of `bench -- accuracy` (see labelled.py). The inverse strength of the penalty is chosen from 0.1, 1, 10
and 100 on held-out rows; the model is then trained on all rows. Prints one JSON object per set.
"""

import json
import time

import labelled


def main():
    parser = labelled.parser(__doc__)
    parser.add_argument("encoder", help="a Hugging Face folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    import torch
    from sentence_transformers import SentenceTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, f1_score

    torch.set_num_threads(arguments.threads)
    encoder = SentenceTransformer(arguments.encoder, device="cpu")
    for data in labelled.load_sets(arguments):
        start = time.perf_counter()

        def vectors(rows):
            return encoder.encode(rows.texts, batch_size=64, normalize_embeddings=True)

        def fitted(x, y, c):
            return LogisticRegression(C=c, max_iter=2000).fit(x, y)

        learnt, chosen_by = data.held_out(arguments.seed)
        x, y = vectors(learnt), vectors(chosen_by)
        best = max([0.1, 1, 10, 100], key=lambda c: fitted(x, learnt.labels, c).score(y, chosen_by.labels))
        model = fitted(vectors(data.train), data.train.labels, best)
        predicted = model.predict(vectors(data.test))
        report = {
            "set": data.name,
            "accuracy": round(100 * accuracy_score(data.test.labels, predicted), 2),
            "macro_f1": round(100 * f1_score(data.test.labels, predicted, average="macro"), 2),
            "seconds": round(time.perf_counter() - start, 1),
            "train_rows": len(data.train),
            "c": best,
            "encoder": arguments.encoder.rstrip("/").split("/")[-1],
            "processor": labelled.processor(),
        }
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
