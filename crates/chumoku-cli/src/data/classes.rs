//! Training rows with classes: built-in data, and what a file holds.

use crate::progress::print_status;
use chumoku::data::format_thousands;
use chumoku::lang::{Lang, lang, sanitize};
use chumoku::row::AsRow;
use chumoku::train::TrainingData;
use chumoku::{FeatureColumn, builtin, sorting, tr};

/// The seed of the built-in sentences: runs with different seeds train on the same ones.
pub(crate) const PRONOUNS_SEED: u64 = 0;

/// Returns all built-in data of classifiers, on which a model may have been trained.
pub(crate) fn builtin_class_rows() -> Vec<TrainingData> {
    let pronouns = [Lang::En, Lang::Ja].map(|lang| builtin::pronouns(lang, PRONOUNS_SEED));
    pronouns.into_iter().chain([builtin::reviews(), builtin::coin_flips()]).collect()
}

/// Loads the built-in sentences with a pronoun, in the user's language.
pub(crate) fn builtin_pronouns() -> TrainingData {
    let text = tr!(
        "the built-in pronouns: in “The cat stayed near the mat because it was tired.”, does “it” mean the first or the \
         second noun? (--builtin reviews: other texts; name a file to train on your own)",
        "内蔵の代名詞の文。「子どもは橋のそばに残っていた。疲れていたからだ。」で疲れていたのは、先の名詞か後の名詞か\
         （--builtin reviews でほかの文、ファイルを指定すれば自分のデータで学習）"
    );
    print_status(["data", "データ"], &text);
    builtin::pronouns(lang(), PRONOUNS_SEED)
}

/// Loads the built-in reviews.
pub(crate) fn builtin_reviews() -> TrainingData {
    let text = tr!(
        "the built-in reviews: 1,000 short texts, half English and half Japanese (name a file to train on your own texts)",
        "内蔵のレビュー。短いテキスト 1,000 件で、半分は英語、半分は日本語（自分のデータで学習するにはファイルを指定）"
    );
    print_status(["data", "データ"], &text);
    builtin::reviews()
}

/// Loads the built-in random texts.
pub(crate) fn builtin_coin_flips() -> TrainingData {
    let text = tr!(
        "the built-in coin flips: 1,000 texts of 50 random words with random labels, from which nothing can be learned",
        "内蔵のコイン投げ。乱数の 50 語からなるテキスト 1,000 件に乱数のラベルを付けたもので、学べることは何もありません"
    );
    print_status(["data", "データ"], &text);
    builtin::coin_flips()
}

/// Reports the sizes of training, validation and test set.
pub(crate) fn report_sizes(label: [&'static str; 2], sizes: [usize; 3]) {
    let [train, valid, test] = sizes.map(format_thousands);
    let text =
        tr!("{train} to train on, {valid} to validate, {test} to test", "学習 {train}、検証 {valid}、テスト {test}");
    print_status(label, &text);
}

/// Reports rows, classes and lengths.
pub(crate) fn report_class_rows(data: &TrainingData) {
    report_sizes(["rows", "行数"], [&data.train, &data.valid, &data.test].map(|rows| rows.len()));
    let mut counts: Vec<(usize, &str)> =
        data.class_rows().into_iter().zip(data.labels.iter().map(String::as_str)).collect();
    sorting::sort_by_key(&mut counts, |(n, _)| std::cmp::Reverse(*n));
    let shown: Vec<String> =
        counts.iter().take(6).map(|(n, label)| format!("{} {}", sanitize(label), format_thousands(*n))).collect();
    let more = if counts.len() > 6 {
        let (n, last) = counts[counts.len() - 1];
        tr!(", … {} {n}", "、… {} {n}", sanitize(last))
    } else {
        String::new()
    };
    let shown = shown.join(lang().pick(", ", "、"));
    print_status(["classes", "クラス"], &format!("{}: {shown}{more}", counts.len()));
    let mut lengths: Vec<usize> = data.train.texts.iter().map(|row| row.as_row().text().chars().count()).collect();
    lengths.sort_unstable();
    let at = |share: usize| lengths.get(lengths.len() * share / 100).copied().unwrap_or(0);
    let longest = lengths.last().copied().unwrap_or(0);
    let [median, most, longest] = [at(50), at(90), longest].map(format_thousands);
    let text = tr!(
        "median {median} characters, 90 % up to {most}, longest {longest}",
        "中央値 {median} 文字、90 % は {most} 文字以下、最長 {longest} 文字"
    );
    print_status(["lengths", "長さ"], &text);
    report_columns(&data.columns);
    for note in &data.notes {
        print_status(["note", "注記"], note);
    }
}

/// Reports the contents of the feature columns.
pub(crate) fn report_columns(columns: &[FeatureColumn]) {
    for column in columns {
        print_status(["column", "列"], &column.describe());
    }
}
