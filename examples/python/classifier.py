"""Trains, uses and saves a text classifier. Needs NumPy."""

import chumoku

GOOD, BAD = ["good", "lovely", "superb", "warm"], ["bad", "awful", "cold", "dull"]
things = ["soup", "room", "film", "book", "song"]
texts = [f"The {things[i % 5]} was {(GOOD if i % 2 else BAD)[i // 2 % 4]} on day {i}." for i in range(200)]
labels = ["yes" if i % 2 else "no" for i in range(200)]

classifier = chumoku.TextClassifier(epochs=4, progress=None).fit(texts, labels)
print("accuracy on the training rows:", classifier.score(texts, labels))
print(classifier.predict(["The soup was superb."]), classifier.predict_proba(["The soup was superb."]).round(2))
classifier.save("model")  # for `chumoku explain model TEXT --html page.html`
