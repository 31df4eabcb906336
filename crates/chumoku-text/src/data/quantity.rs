//! Numbers as people write them: `4 stars`, `4/5`, `★★★★☆`, `1,5`, `¥1,200`. All of a column are written alike.

/// The largest number, whose square is one too.
const LARGEST: f64 = 1e100;

/// A number and how it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Quantity {
    pub(super) value: f64,
    form: Form,
}

/// How a number is written: what stands around it, and what a comma means in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    around: String,
    comma: Option<Comma>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comma {
    Decimal,
    Thousands,
}

/// More characters than this behind a number are a sentence.
const LONGEST_UNIT: usize = 12;

impl Form {
    /// Whether more is written than the number.
    pub(super) fn is_more(&self) -> bool {
        *self != Form::default()
    }
}

impl Quantity {
    /// What a field says, if it is a number with at most a currency before it and a unit behind it.
    pub(super) fn of(field: &str) -> Option<Quantity> {
        if let Some(value) = number(field) {
            return Some(Quantity { value, form: Form::default() });
        }
        let text: String = field.trim().chars().map(narrow).collect();
        if let Some(value) = stars(&text) {
            return Some(Quantity { value, form: Form { around: "★".into(), comma: None } });
        }
        let currency: String = text.chars().take_while(|c| "$€£¥￥".contains(*c)).collect();
        let rest = text[currency.len()..].trim_start();
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || "+-.,".contains(c))).unwrap_or(rest.len());
        let (digits, unit) = rest.split_at(digits);
        let unit = unit.trim();
        let (value, comma) = with_commas(digits)?;
        (is_unit(unit) || out_of(unit)).then(|| {
            // One star, two stars.
            let unit = unit.to_lowercase();
            let around = currency + unit.strip_suffix('s').unwrap_or(&unit);
            Quantity { value, form: Form { around, comma } }
        })
    }

    /// Whether it is written as another number of its column is: a number with nothing around it goes with all.
    pub(super) fn agrees(&self, form: &mut Form) -> bool {
        let around = self.form.around.is_empty() || form.around.is_empty() || self.form.around == form.around;
        let comma = self.form.comma.is_none() || form.comma.is_none() || self.form.comma == form.comma;
        if form.around.is_empty() {
            form.around.clone_from(&self.form.around);
        }
        form.comma = form.comma.or(self.form.comma);
        around && comma
    }
}

/// Digits and signs of full width as those of ASCII.
fn narrow(c: char) -> char {
    match c {
        '０'..='９' => char::from_u32(c as u32 - '０' as u32 + '0' as u32).unwrap_or(c),
        '．' => '.',
        '，' => ',',
        '－' | '−' => '-',
        '／' => '/',
        c => c,
    }
}

/// The number that a field holds, as programs write it, with digits of full width too.
pub fn number(field: &str) -> Option<f64> {
    let text: String = field.trim().chars().map(narrow).collect();
    // "inf" and "nan" are words here.
    let is_digits = text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    text.parse().ok().filter(|x: &f64| is_digits && x.abs() <= LARGEST)
}

/// Digits with a comma in them.
fn with_commas(digits: &str) -> Option<(f64, Option<Comma>)> {
    if !digits.contains(',') {
        return Some((number(digits)?, None));
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let groups: Vec<&str> = whole.trim_start_matches(['+', '-']).split(',').collect();
    let are_digits = groups.iter().all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()));
    if are_digits && groups[0].len() <= 3 && groups[1..].iter().all(|group| group.len() == 3) {
        return Some((number(&digits.replace(',', ""))?, Some(Comma::Thousands)));
    }
    let is_decimal = are_digits && groups.len() == 2 && fraction.is_empty();
    Some((number(&digits.replace(',', ".")).filter(|_| is_decimal)?, Some(Comma::Decimal)))
}

/// Full stars, with or without the empty ones.
fn stars(text: &str) -> Option<f64> {
    let full = |c: char| matches!(c, '★' | '⭐');
    let are_stars = text.chars().all(|c| full(c) || matches!(c, '☆' | '\u{fe0f}' | ' '));
    (are_stars && text.contains(['★', '⭐', '☆'])).then(|| text.chars().filter(|&c| full(c)).count() as f64)
}

/// A word or a sign, such as `stars`, `点` or `%`.
fn is_unit(unit: &str) -> bool {
    let is_word = |c: char| c.is_alphabetic() || "%€$£¥￥°. ★".contains(c);
    unit.chars().count() <= LONGEST_UNIT && unit.chars().all(is_word)
}

/// `/5`, `out of 5`, `of 5`.
fn out_of(unit: &str) -> bool {
    let of = unit.strip_prefix("out").map_or(unit, str::trim_start);
    let most = ["/", "of"].iter().find_map(|word| of.strip_prefix(word));
    most.map(str::trim).is_some_and(|most| !most.is_empty() && most.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_programs_write_them() {
        let cases = [("3", 3.0), (" -2.5 ", -2.5), ("1e3", 1000.0), ("４．５", 4.5), ("−1", -1.0), ("+7", 7.0)];
        cases.iter().for_each(|(field, expected)| assert_eq!(number(field), Some(*expected), "{field}"));
        for field in ["", "five", "inf", "NaN", "1e999", "4 stars", "1,000", "0x10", "--1"] {
            assert_eq!(number(field), None, "{field}");
        }
    }

    #[test]
    fn numbers_are_read_with_what_stands_around_them() {
        let cases = [
            ("4", 4.0),
            ("4 stars", 4.0),
            ("1 Star", 1.0),
            ("4/5", 4.0),
            ("3.5 / 5", 3.5),
            ("7 out of 10", 7.0),
            ("★★★☆☆", 3.0),
            ("☆☆☆☆☆", 0.0),
            ("⭐️⭐️", 2.0),
            ("1,5", 1.5),
            ("-0,25 €", -0.25),
            ("¥1,200", 1200.0),
            ("1,234,567.5", 1_234_567.5),
            ("４点", 4.0),
            ("80 %", 80.0),
        ];
        for (field, expected) in cases {
            assert_eq!(Quantity::of(field).map(|found| found.value), Some(expected), "{field}");
        }
        let no_numbers = [
            "",
            "stars",
            "five",
            "2024-01-05",
            "10:30",
            "1,2,3",
            "1,23,456",
            "4 stars of 5",
            "/5",
            "4/",
            "4/x",
            "3 of the best meals I had",
            "12, 13",
            "5 (five)",
            ",5",
            "5,",
            "1.2.3",
            "- 4",
        ];
        for field in no_numbers {
            assert_eq!(Quantity::of(field), None, "{field}");
        }
    }

    #[test]
    fn all_of_a_column_are_written_alike() {
        let agree = |fields: &[&str]| {
            let mut form = Form::default();
            fields.iter().all(|field| Quantity::of(field).unwrap().agrees(&mut form))
        };
        assert!(agree(&["1 star", "2 stars", "3", "4 STARS"]));
        assert!(agree(&["4/5", "3/5", "3.5/5"]) && agree(&["1,5", "2", "2,25"]) && agree(&["¥1,200", "¥300"]));
        // Three of five are not three of ten.
        assert!(!agree(&["3/5", "3/10"]) && !agree(&["4 stars", "4/5"]) && !agree(&["$5", "€5"]));
        assert!(!agree(&["1,5", "1,500"]), "a comma is one thing or the other");
    }
}
