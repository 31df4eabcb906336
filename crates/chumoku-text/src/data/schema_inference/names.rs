//! Column names and the roles they suggest.

use super::super::error::ColumnRole;

/// Names of text columns, the clearest group first.
pub(crate) const TEXT_NAMES: [&[&str]; 3] = [
    &["text", "texts", "sentence", "sentences", "本文", "テキスト", "文", "文章"],
    &[
        "review",
        "reviews",
        "content",
        "contents",
        "body",
        "comment",
        "comments",
        "message",
        "question",
        "utterance",
        "document",
        "review text",
        "review body",
        "tweet",
        "sms",
        "post",
        "query",
        "input",
        "description",
        "reviewtext",
        "nachricht",
        "kommentar",
        "beschreibung",
        "rezension",
        "texte",
        "commentaire",
        "texto",
        "mensaje",
        "comentario",
        "testo",
        "messaggio",
        "commento",
        "レビュー",
        "レビュー本文",
        "口コミ",
        "クチコミ",
        "コメント",
        "内容",
        "質問",
        "発話",
        "メッセージ",
        "ツイート",
    ],
    &["title", "headline", "subject", "summary", "タイトル", "題名", "件名", "見出し"],
];
/// Names of label columns, in the same way.
pub(crate) const LABEL_NAMES: [&[&str]; 3] = [
    &["label", "labels", "class", "classes", "ラベル", "分類", "クラス"],
    &[
        "category",
        "categories",
        "sentiment",
        "target",
        "tag",
        "intent",
        "emotion",
        "topic",
        "polarity",
        "output",
        "gold",
        "kategorie",
        "klasse",
        "catégorie",
        "classe",
        "étiquette",
        "categoría",
        "clase",
        "etiqueta",
        "categoria",
        "感情",
        "評価",
        "カテゴリ",
        "カテゴリー",
        "意図",
        "極性",
        "正解",
        "話題",
        "種別",
    ],
    &["stars", "star", "rating", "ratings", "score", "y", "星", "点数", "評点"],
];

/// Names of the two columns of a pair, normalized by [`fold_name`].
pub(crate) const PAIR_NAMES: [[&str; 2]; 9] = [
    ["premise", "hypothesis"],
    ["sentence1", "sentence2"],
    ["sentence 1", "sentence 2"],
    ["question1", "question2"],
    ["text1", "text2"],
    ["text 1", "text 2"],
    ["text a", "text b"],
    ["前提", "仮説"],
    ["文1", "文2"],
];

/// Returns whether two of these names are those of a text pair.
pub(crate) fn names_two_texts<S: AsRef<str>>(names: &[S]) -> bool {
    let folded: Vec<String> = names.iter().map(|name| fold_name(name.as_ref())).collect();
    PAIR_NAMES.iter().any(|pair| pair.iter().all(|name| folded.iter().any(|own| own == name)))
}

/// Returns the role that a name suggests.
pub(crate) fn role_of_name(name: &str) -> Option<ColumnRole> {
    let name = fold_name(name);
    let among = |groups: &[&[&str]]| groups.iter().any(|group| group.contains(&name.as_str()));
    match (among(&TEXT_NAMES), among(&LABEL_NAMES)) {
        (true, _) => Some(ColumnRole::Text),
        (_, true) => Some(ColumnRole::Label),
        _ => None,
    }
}

/// Returns whether a line is exactly the name of a text column.
pub(crate) fn is_text_name(line: &str) -> bool {
    TEXT_NAMES.iter().any(|group| group.contains(&line))
}

pub(crate) fn fold_name(name: &str) -> String {
    name.trim().to_lowercase().replace(['_', '-'], " ")
}

/// Names of columns that describe a text and are rarely the prediction target.
const ATTRIBUTES: [&str; 46] = [
    "split",
    "fold",
    "part",
    "set",
    "lang",
    "language",
    "locale",
    "source",
    "channel",
    "region",
    "country",
    "state",
    "city",
    "gender",
    "sex",
    "agegroup",
    "date",
    "day",
    "weekday",
    "month",
    "year",
    "store",
    "shop",
    "branch",
    "user",
    "author",
    "username",
    "customer",
    "device",
    "platform",
    "browser",
    "os",
    "version",
    "appversion",
    "annotator",
    "rater",
    "subreddit",
    "domain",
    "brand",
    "size",
    "color",
    "言語",
    "地域",
    "性別",
    "店舗",
    "年代",
];

/// The last words of names of identifiers.
const IDENTIFIERS: [&str; 14] =
    ["id", "ids", "uuid", "guid", "key", "no", "nr", "number", "code", "hash", "index", "番号", "コード", "識別子"];

/// The last words of names of counts, such as `retweet_count`. They are rarely the prediction target.
const COUNTS: [&str; 26] = [
    "count",
    "counts",
    "length",
    "len",
    "words",
    "chars",
    "characters",
    "tokens",
    "likes",
    "votes",
    "upvotes",
    "downvotes",
    "retweets",
    "favorites",
    "views",
    "confidence",
    "age",
    "latitude",
    "longitude",
    "lat",
    "lon",
    "lng",
    "timestamp",
    "utc",
    "文字数",
    "件数",
];

/// The first words of names of properties, as in `is_weekend` or `hasLink`.
const PROPERTIES: [&str; 8] = ["is", "has", "was", "had", "can", "contains", "with", "in"];

/// Splits a name into lowercase words.
fn words(name: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut was_lower = false;
    for c in name.trim().chars() {
        if c.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = c.is_lowercase();
        spaced.push(if c.is_alphanumeric() { c } else { ' ' });
    }
    spaced.to_lowercase().split_whitespace().map(str::to_owned).collect()
}

/// Returns whether a name suggests an attribute of the text rather than the prediction target.
pub(crate) fn names_attribute(name: &str) -> bool {
    ATTRIBUTES.contains(&words(name).concat().as_str())
}

/// Returns whether a name suggests that a numeric column counts something about the text or its author.
pub(crate) fn names_count(name: &str) -> bool {
    words(name).last().is_some_and(|last| COUNTS.contains(&last.as_str()))
}

/// Returns whether a name suggests identifiers.
pub(crate) fn names_identifier(name: &str) -> bool {
    let words = words(name);
    words.last().is_some_and(|last| {
        let ends_in_japanese = |word: &&str| !word.is_ascii() && last.ends_with(*word);
        IDENTIFIERS.contains(&last.as_str()) || IDENTIFIERS.iter().any(ends_in_japanese)
    })
}

/// Returns whether a name suggests a yes/no property.
pub(crate) fn names_property(name: &str) -> bool {
    let words = words(name);
    words.len() > 1 && PROPERTIES.contains(&words[0].as_str())
        || words.last().is_some_and(|last| last.ends_with("ified"))
}

/// Returns whether a field could be a column name: short, and not a sentence.
pub(crate) fn looks_like_name(field: &str) -> bool {
    let field = field.trim();
    let chars = field.chars().count();
    (1..=40).contains(&chars)
        && field.split_whitespace().count() <= 3
        && !field.ends_with(['.', '!', '?', '。', '！', '？', '、', '」'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_suggest_the_content_of_columns() {
        for name in ["id", "ticket_id", "ticketId", "Order No.", "UUID", "注文番号", "user-key"] {
            assert!(names_identifier(name), "{name}");
        }
        for name in ["text", "valid", "video", "midnight", "note", "コメント"] {
            assert!(!names_identifier(name), "{name}");
        }
        assert!(["is_weekend", "hasLink", "was late", "verified"].iter().all(|name| names_property(name)));
        assert!(["toxic", "island", "is", "hash", "insult"].iter().all(|name| !names_property(name)));
        assert!(["Channel", "split", "age_group", "言語"].iter().all(|name| names_attribute(name)));
        assert!(["retweet_count", "Age", "textLength", "created_utc", "文字数"].iter().all(|name| names_count(name)));
        assert!(["price", "country", "account", "cost", "hours"].iter().all(|name| !names_count(name)));
        assert!(["priority", "department", "target lang id"].iter().all(|name| !names_attribute(name)));
    }
}
