"""Makes the golden file of the translation metrics: sacreBLEU's numbers. See ../README.md.

    python golden/make/metrics.py [FOLDER]      writes FOLDER/metrics/translation.json; FOLDER is golden/ if left out

All sentences were written for this project. Lines drawn from a seeded generator join them, to try the tokenizers on
what nobody would write.
"""

import json
import random
import sys
from pathlib import Path

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

TOKENIZERS = ["13a", "char", "none"]

# Each case: hypotheses, then one set of references or more.
CASES = {
    "english": (
        [
            "The small bridge was closed because of the flood.",
            "She said that nobody had told her about the meeting.",
            "We bought three kilos of apples and ate them all.",
            "Our train leaves at seven, so don't be late!",
        ],
        [
            "The little bridge was closed because of the flooding.",
            "She said nobody had told her about the meeting.",
            "We bought three kilograms of apples and ate all of them.",
            "Our train leaves at seven o'clock, so don't be late!",
        ],
    ),
    "japanese": (
        [
            "洪水のため、小さな橋は閉鎖されました。",
            "彼女は会議のことを誰からも聞いていないと言った。",
            "りんごを三キロ買って、全部食べた。",
            "電車は７時に出ますから、遅れないで！",
        ],
        [
            "洪水で小さい橋が閉鎖された。",
            "彼女は、会議のことを誰も教えてくれなかったと言った。",
            "りんごを３キロ買って、すべて食べてしまった。",
            "電車は７時発なので、遅れないでください！",
        ],
    ),
    "identical": (
        ["A line that is the same.", "全く同じ文です。", "1,234.5 is a number."],
        ["A line that is the same.", "全く同じ文です。", "1,234.5 is a number."],
    ),
    "disjoint": (["alpha beta gamma delta epsilon"], ["one two three four five six"]),
    "no long matches": (
        ["red green blue white black grey", "up left down right"],
        ["black white blue green red pink", "right down left up"],
    ),
    "only pairs match": (["one two nine three four", "a b x c d"], ["three four eight one two", "c d y a b"]),
    "shorter": (["The cat sleeps."], ["The old black cat sleeps on the warm stove all day long."]),
    "longer": (["The old black cat sleeps on the warm stove all day long."], ["The cat sleeps."]),
    "one empty hypothesis": (["", "The door is open now."], ["Nothing came out.", "The door is open now."]),
    "one empty reference": (["Too much came out.", "The door is open now."], ["", "The door is open now."]),
    "empty hypothesis": ([""], ["Nothing came out."]),
    "empty reference": (["Too much came out."], [""]),
    "both empty": ([""], [""]),
    "white space alone": (["  \u3000\t "], ["A word."]),
    "single token": (["Yes"], ["Yes"]),
    "single token, other": (["Yes"], ["No"]),
    "single character": (["猫", "x"], ["猫", "犬"]),
    "two tokens": (["Good morning"], ["Good morning"]),
    "repeated": (["the the the the the the"], ["the cat and the dog"]),
    "numbers and marks": (
        [
            "It costs $1,234.50 (or 1.234,50 €), i.e. 3.5% more than in 2019-2020.",
            "Version 2.0-rc1: files a/b/c, e-mail me@example.org; see [4], {x} & ~y^2_z`!",
            "Well... he's 1-0 up, isn't he?.. No.-1,5.",
            "state-of-the-art 10-year-old 5- -5 .5 5. ,5 5, 1.2.3 a.b",
        ],
        [
            "It costs $1,234.5 (or 1.234,5 €), that is 3.5 % more than in 2019-20.",
            "Version 2.0-rc.1: the files a/b/c, mail me@example.org; see [4], {x} and ~y^2_z`!",
            "Well … he is 1-0 up, isn't he?. No. -1,5.",
            "state of the art 10-year old 5 - -5 0.5 5. ,5 5 , 1.2.3 a. b",
        ],
    ),
    "entities": (
        [
            "He wrote &quot;x &lt; y &amp;&amp; y &gt; z&quot; on it.",
            "Tom &amp;amp; Jerry &apos;s &#39;tail&#39;",
            "<skipped> some words <skipped>were left out",
        ],
        ['He wrote "x < y && y > z" on it.', "Tom & Jerry 's 'tail'", "some words were left out"],
    ),
    "emoji and wide": (
        ["ありがとう😊👍🏽 またね👨‍👩‍👧", "Ｆｕｌｌ ｗｉｄｔｈ １２３．５，６－７", "ｶﾀｶﾅ e\u0301te\u0301 été ﬁn", "𠮷野家で食べた🍚"],
        ["ありがとう😊👍 またね👨‍👩‍👦", "Ｆｕｌｌ　ｗｉｄｔｈ　１２３．５，６－８", "カタカナ été e\u0301te\u0301 fin", "吉野家で食べた🍚"],
    ),
    "odd spaces": (
        ["a\u00a0b\u2003c\u3000d\te", " lead and trail \u3000", "x\u200by z\u2028w", "p\x1cq\x1fr\x85s", "tab\tand  two"],
        ["a b c d e", "lead and trail", "xy z w", "p q r s", "tab and two"],
    ),
    "words with marks": (
        ["(hi) 'hi' \"hi\" hi! ¡hi! ?! ! -- (a) b) (c", "「はい」 。。 ...wait--what"],
        ["( hi ) 'hi ' \" hi\" hi ! ¡hi ! ? ! - - ( a ) b ) ( c", "「はい」 。 ...wait -- what"],
    ),
    "two references": (
        ["The shop opens at nine in the morning.", "I have never seen such a big fish.", "x"],
        ["The store opens at nine a.m.", "I never saw a fish as big as that.", ""],
        ["At nine in the morning the shop opens.", "Never have I seen such a big fish before.", "y"],
    ),
    "three references, lengths tie": (
        ["a b c d", "猫がいる"],
        ["a b", "犬がいます"],
        ["a b c d e f", "猫が居る"],
        ["d c b", "猫"],
    ),
}


def noise(generator, lines, pieces, most):
    return ["".join(generator.choices(pieces, k=generator.randint(0, most))) for _ in range(lines)]


def random_cases():
    generator = random.Random(20261120)
    marks = list("0123456789" * 2 + "....,,,,----'!\"#$%&()*+/:;<=>?@[]^_`{|}~\\   ") + ["a", "b", "é", "語", "。", "&amp;", "&quot;"]
    yield "random marks", (noise(generator, 150, marks, 24), noise(generator, 150, marks, 24))
    vocabulary = ["sun ", "moon ", "star, ", "sky. ", "3 ", "1.5 ", "sea-", "月", "日 ", "星は"]
    sets = [noise(generator, 60, vocabulary, 14) for _ in range(4)]
    yield "random words", (sets[0], *sets[1:])


def bleu(tokenizer, hypotheses, references):
    metric = BLEU(tokenize=tokenizer)
    found = metric.corpus_score(hypotheses, references)
    return {
        "score": found.score,
        "precisions": found.precisions,
        "matches": found.counts,
        "totals": found.totals,
        "brevity_penalty": found.bp,
        "hypothesis_length": found.sys_len,
        "reference_length": found.ref_len,
        "signature": str(metric.get_signature()),
        "text": str(found),
        "tokens": [" ".join(metric._preprocess_segment(line).split()) for line in hypotheses],
    }


def chrf(word_order, hypotheses, references):
    metric = CHRF(word_order=word_order)
    found = metric.corpus_score(hypotheses, references)
    return {"score": found.score, "signature": str(metric.get_signature()), "text": str(found)}


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent) / "metrics"
    folder.mkdir(parents=True, exist_ok=True)
    cases = []
    for name, (hypotheses, *references) in [*CASES.items(), *random_cases()]:
        assert all(len(one) == len(hypotheses) for one in references), name
        cases.append({
            "name": name,
            "hypotheses": hypotheses,
            "references": references,
            "bleu": {tokenizer: bleu(tokenizer, hypotheses, references) for tokenizer in TOKENIZERS},
            "chrf": {str(order): chrf(order, hypotheses, references) for order in [0, 2]},
        })
    with open(folder / "translation.json", "w", encoding="utf-8") as file:
        json.dump({"sacrebleu": sacrebleu.__version__, "cases": cases}, file, ensure_ascii=False, indent=1)
        file.write("\n")
    print(f"{len(cases)} cases with sacreBLEU {sacrebleu.__version__}")


if __name__ == "__main__":
    main()
