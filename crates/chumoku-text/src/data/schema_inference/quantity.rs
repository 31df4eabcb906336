//! Numbers as people write them: `4 stars`, `4/5`, `★★★★☆`, `1,5`, `¥1,200`. A column uses one format.

/// The largest number. Its square is still finite.
const MAX_VALUE: f64 = 1e100;

/// A number and its format.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantity {
    pub(crate) value: f64,
    /// The value if the only point of the number separates thousands, as `1.234` may mean.
    pub(crate) value_with_groups: Option<f64>,
    format: QuantityFormat,
}

/// The format of a number: the text around it, and its decimal separator if that is visible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QuantityFormat {
    affix: String,
    /// True if there is no text around the number. For a column: around some of its numbers.
    is_bare: bool,
    decimal: Option<char>,
}

/// Units that scale a number. Next to them, a number without a unit means something else.
const SCALES: [&str; 20] = [
    "%", "‰", "k", "m", "mio", "mn", "bn", "b", "mrd", "thousand", "million", "billion", "千", "万", "億", "兆",
    "百万", "千円", "万円", "億円",
];

/// More characters than this after a number are a sentence.
const MAX_UNIT_CHARACTERS: usize = 12;

impl QuantityFormat {
    /// Returns whether the format has more than programs would write.
    pub(crate) fn is_decorated(&self) -> bool {
        !self.affix.is_empty() || self.decimal == Some(',')
    }

    /// Returns whether numbers have a currency or a unit.
    pub(crate) fn has_unit(&self) -> bool {
        !self.affix.is_empty()
    }

    /// Returns whether the decimal separator is a comma.
    pub(crate) fn has_decimal_comma(&self) -> bool {
        self.decimal == Some(',')
    }

    /// Returns whether numbers of both formats may occur in one column. The text around them must be equal or empty,
    /// and a comma must have one meaning. Numbers without a unit do not fit to those with a scaling unit.
    pub(crate) fn is_compatible_with(&self, other: &QuantityFormat) -> bool {
        let around = [&self.affix, &other.affix];
        let unit = if around[0].is_empty() { around[1] } else { around[0] };
        let is_scale = SCALES.contains(&unit.trim_start_matches(['$', '€', '£', '¥', '￥']));
        let same_unit = around.iter().all(|around| around.is_empty() || *around == unit);
        let both_ways = !unit.is_empty() && (self.is_bare || other.is_bare);
        let same_sign = self.decimal.is_none() || other.decimal.is_none() || self.decimal == other.decimal;
        same_unit && same_sign && !(both_ways && is_scale)
    }

    /// Sets the decimal separator of a column whose points could be read in two ways.
    pub(crate) fn set_decimal(&mut self, points: &PointGroups, are_thousands: bool) {
        if points.grouped > 0 {
            self.decimal = Some(if are_thousands { ',' } else { '.' });
        }
    }

    /// Returns the decimal separator, if it is known.
    pub(crate) fn decimal(&self) -> Option<char> {
        self.decimal
    }

    /// Adds a format to that of a column. Returns whether this changed the column's.
    pub(crate) fn merge(&mut self, other: &QuantityFormat) -> bool {
        let before = self.clone();
        if self.affix.is_empty() {
            self.affix.clone_from(&other.affix);
        }
        self.is_bare |= other.is_bare;
        self.decimal = self.decimal.or(other.decimal);
        *self != before
    }
}

impl Quantity {
    /// Parses a number with an optional currency before it and an optional unit after it.
    pub(crate) fn parse(field: &str) -> Option<Quantity> {
        let text: String = field.trim().chars().map(to_half_width).collect();
        let text = remove_group_separators(&text);
        if let Some(value) = parse_number(&text) {
            let value_with_groups = parse_point_group(&text);
            let decimal = (text.contains('.') && value_with_groups.is_none()).then_some('.');
            let format = QuantityFormat { is_bare: true, decimal, ..QuantityFormat::default() };
            return Some(Quantity { value, value_with_groups, format });
        }
        if let Some(value) = count_stars(&text) {
            let format = QuantityFormat { affix: "★".into(), ..QuantityFormat::default() };
            return Some(Quantity { value, value_with_groups: None, format });
        }
        let currency: String = text.chars().take_while(|c| "$€£¥￥".contains(*c)).collect();
        let rest = text[currency.len()..].trim_start();
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || "+-.,".contains(c))).unwrap_or(rest.len());
        let (digits, unit) = rest.split_at(digits);
        let value_with_groups = parse_point_group(digits);
        let (value, decimal) = parse_with_separators(digits)?;
        let decimal = decimal.filter(|_| value_with_groups.is_none());
        let unit = unit.trim().to_lowercase();
        let unit = match rating_maximum(&unit) {
            Some(most) => format!("/{most}"),
            // Ignores the plural: one star, two stars.
            None => is_unit(&unit).then(|| unit.strip_suffix('s').unwrap_or(&unit).to_owned())?,
        };
        let around = currency + &unit;
        let format = QuantityFormat { is_bare: around.is_empty(), affix: around, decimal };
        Some(Quantity { value, value_with_groups, format })
    }

    /// Returns whether both have one unit, or one of them has none. Their decimal separators may differ.
    pub(crate) fn has_unit_of(&self, other: &Quantity) -> bool {
        QuantityFormat { decimal: None, ..self.format.clone() }.is_compatible_with(&other.format)
    }

    /// Returns whether the number has the format of its column so far, and adds its format to it.
    pub(crate) fn fits_column(&self, form: &mut QuantityFormat) -> bool {
        let goes = self.format.is_compatible_with(form);
        form.merge(&self.format);
        goes
    }
}

/// Evidence about the points of a column such as `1.234`: whether they separate thousands.
#[derive(Clone, Copy, Debug, Default)]
pub struct PointGroups {
    grouped: usize,
    has_small_integers: bool,
    has_units: bool,
    /// True if there was a decimal comma, and if there was a decimal point.
    has_decimal: [bool; 2],
}

impl PointGroups {
    /// Collects the evidence of fields.
    pub fn of_fields<S: AsRef<str>>(fields: &[S]) -> PointGroups {
        let mut groups = PointGroups::default();
        fields.iter().filter_map(|field| Quantity::parse(field.as_ref())).for_each(|number| groups.add(&number));
        groups
    }

    /// Adds a number of the column.
    pub(crate) fn add(&mut self, number: &Quantity) {
        let Quantity { value, value_with_groups, format } = number;
        self.has_units |= format.has_unit();
        match (value_with_groups, format.decimal) {
            (Some(_), _) => self.grouped += 1,
            (None, None) => self.has_small_integers |= value.abs() < 1000.0 && value.fract() == 0.0,
            (None, Some(',')) => self.has_decimal[0] = true,
            (None, Some(_)) => self.has_decimal[1] = true,
        }
    }

    /// Returns whether the points separate thousands. Every point stands before three digits. Another number has a
    /// decimal comma, or whole numbers below 1,000 have no point. A program that leaves out trailing zeros would have
    /// written one or two decimals in a tenth of the fractions.
    pub fn are_thousands(&self) -> bool {
        self.are_thousands_given(None)
    }

    /// Returns whether the points separate thousands, given the decimal separator of other files. It counts if the
    /// column shows neither a decimal comma nor a decimal point.
    pub(crate) fn are_thousands_given(&self, decimal: Option<char>) -> bool {
        const MIN_GROUPED: usize = 30;
        const MIN_GROUPED_WITH_UNIT: usize = 3;
        let least = if self.has_units { MIN_GROUPED_WITH_UNIT } else { MIN_GROUPED };
        let [has_comma, has_point] = self.has_decimal;
        let is_likely = decimal.map_or(self.has_small_integers && self.grouped >= least, |decimal| decimal == ',');
        self.grouped > 0 && !has_point && (has_comma || is_likely)
    }
}

/// Parses a number with a single point before three digits as one with a thousands separator.
fn parse_point_group(digits: &str) -> Option<f64> {
    let digits = digits.trim();
    let is_group = digits.matches('.').count() == 1 && are_digit_groups(digits, '.');
    parse_number(&digits.replace('.', "")).filter(|_| is_group)
}

/// Converts full-width digits and signs to ASCII.
fn to_half_width(c: char) -> char {
    match c {
        '０'..='９' => char::from_u32(c as u32 - '０' as u32 + '0' as u32).unwrap_or(c),
        '．' => '.',
        '，' => ',',
        '－' | '−' => '-',
        '／' => '/',
        c => c,
    }
}

/// Parses a number as programs write it, also with full-width digits.
pub(crate) fn parse_number(field: &str) -> Option<f64> {
    let text: String = field.trim().chars().map(to_half_width).collect();
    // "inf" and "nan" are words here.
    let is_digits = text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c));
    text.parse().ok().filter(|x: &f64| is_digits && x.abs() <= MAX_VALUE)
}

/// Parses a number with thousands separators or a decimal comma, as spreadsheets write it: `1,200`, `1.200,50`, `12,5`.
/// Also returns its decimal separator, if it has one.
pub fn parse_separated_number(field: &str) -> Option<(f64, Option<char>)> {
    let found = Quantity::parse(field).filter(|found| !found.format.has_unit())?;
    Some((found.value, found.format.decimal))
}

/// Parses like [`parse_separated_number`], in a column whose points separate thousands.
pub fn parse_number_with_groups(field: &str) -> Option<f64> {
    let found = Quantity::parse(field).filter(|found| !found.format.has_unit())?;
    Some(found.value_with_groups.unwrap_or(found.value))
}

/// Parses digits with points and commas: `1.5`, `1,5`, `1,200.50`, `1.200,50`. Also returns the decimal separator, if
/// it is visible. A single comma before three digits separates thousands, unless a 0 is before it.
fn parse_with_separators(digits: &str) -> Option<(f64, Option<char>)> {
    let last = |sign: char| digits.rfind(sign);
    let (thousands, decimal) = match (last('.'), last(',')) {
        (_, None) if digits.matches('.').count() < 2 => {
            return Some((parse_number(digits)?, digits.contains('.').then_some('.')));
        }
        (Some(point), Some(comma)) if point > comma => (',', '.'),
        (Some(_), _) => ('.', ','),
        (None, _) if are_digit_groups(digits, ',') => (',', '.'),
        (None, _) => ('.', ','),
    };
    let (whole, fraction) = digits.split_once(decimal).unwrap_or((digits, ""));
    let is_whole = !whole.contains(thousands) || are_digit_groups(whole, thousands);
    let is_fraction = !digits.contains(decimal) || !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
    if !is_whole || !is_fraction || whole.trim_start_matches(['+', '-']).is_empty() {
        return None;
    }
    Some((parse_number(&digits.replace(thousands, "").replace(decimal, "."))?, Some(decimal)))
}

/// Returns whether digits form groups of three.
fn are_digit_groups(digits: &str, sign: char) -> bool {
    let groups: Vec<&str> = digits.trim_start_matches(['+', '-']).split(sign).collect();
    let are_digits = groups.iter().all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()));
    are_digits
        && groups[0].len() <= 3
        && !groups[0].starts_with('0')
        && groups[1..].iter().all(|group| group.len() == 3)
}

/// Removes the spaces and apostrophes that separate thousands, as in `1 200` and `1'200`.
fn remove_group_separators(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let is_digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let is_gap = |at: usize| {
        matches!(chars[at], ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}' | '\'' | '’')
            && at > 0
            && is_digit(at - 1)
            && (1..=3).all(|ahead| is_digit(at + ahead))
            && !is_digit(at + 4)
    };
    (0..chars.len()).filter(|&at| !is_gap(at)).map(|at| chars[at]).collect()
}

/// Counts full stars, with or without empty ones.
fn count_stars(text: &str) -> Option<f64> {
    let full = |c: char| matches!(c, '★' | '⭐');
    let are_stars = text.chars().all(|c| full(c) || matches!(c, '☆' | '\u{fe0f}' | ' '));
    (are_stars && text.contains(['★', '⭐', '☆'])).then(|| text.chars().filter(|&c| full(c)).count() as f64)
}

/// Returns whether this is a word or a sign, such as `stars`, `点` or `%`.
fn is_unit(unit: &str) -> bool {
    let is_word = |c: char| c.is_alphabetic() || "%€$£¥￥°. ★".contains(c);
    unit.chars().count() <= MAX_UNIT_CHARACTERS && unit.chars().all(is_word)
}

/// Returns the maximum of a rating: the 5 of `/5`, `out of 5`, `of 5`.
fn rating_maximum(unit: &str) -> Option<&str> {
    let of = unit.strip_prefix("out").map_or(unit, str::trim_start);
    let most = ["/", "of"].iter().find_map(|word| of.strip_prefix(word))?.trim();
    (!most.is_empty() && most.bytes().all(|b| b.is_ascii_digit())).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_are_parsed() {
        let cases = [("3", 3.0), (" -2.5 ", -2.5), ("1e3", 1000.0), ("４．５", 4.5), ("−1", -1.0), ("+7", 7.0)];
        cases.iter().for_each(|(field, expected)| assert_eq!(parse_number(field), Some(*expected), "{field}"));
        for field in ["", "five", "inf", "NaN", "1e999", "4 stars", "1,000", "0x10", "--1"] {
            assert_eq!(parse_number(field), None, "{field}");
        }
    }

    #[test]
    fn points_before_three_digits_may_separate_thousands() {
        let is_thousands = |fields: &[&str]| PointGroups::of_fields(fields).are_thousands();
        assert!(is_thousands(&["800 €", "1.111 €", "93.789 €", "12.000 €"]));
        assert!(is_thousands(&["1.111", "12,5"]) && is_thousands(&["1.111", "1.038.294"]));
        // Fuel prices, and measures to three decimals.
        assert!(!is_thousands(&["1.739 €", "1.819 €", "1.649 €", "2.009 €"]));
        assert!(!is_thousands(&["1.111", "2.5", "3.125", "800"]) && !is_thousands(&["0.125", "1.125", "3"]));
        let mut column: Vec<String> = (1..30).map(|i| format!("{i}.{}", 100 + 17 * i)).collect();
        column.push("4".into());
        assert!(!PointGroups::of_fields(&column).are_thousands());
        column.push("31.415".into());
        assert!(PointGroups::of_fields(&column).are_thousands());
        assert_eq!(
            (parse_number_with_groups("1.234"), parse_number_with_groups("1.234,5")),
            (Some(1234.0), Some(1234.5))
        );
        assert_eq!(parse_number_with_groups("1.5"), Some(1.5));
    }

    #[test]
    fn numbers_with_units_and_separators_are_parsed() {
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
            ("1.200,50 €", 1200.5),
            ("1.234.567", 1_234_567.0),
            ("0,125", 0.125),
            ("-12,5", -12.5),
            ("3 / 5", 3.0),
            ("1 200", 1200.0),
            ("12\u{a0}345,50 €", 12345.5),
            ("1'234'567", 1_234_567.0),
        ];
        for (field, expected) in cases {
            assert_eq!(Quantity::parse(field).map(|found| found.value), Some(expected), "{field}");
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
            "12 13",
            "1 2000",
        ];
        for field in no_numbers {
            assert_eq!(Quantity::parse(field), None, "{field}");
        }
    }

    #[test]
    fn a_column_uses_one_number_format() {
        let agree = |fields: &[&str]| {
            let mut form = QuantityFormat::default();
            fields.iter().all(|field| Quantity::parse(field).unwrap().fits_column(&mut form))
        };
        assert!(agree(&["1 star", "2 stars", "3", "4 STARS"]));
        assert!(agree(&["4/5", "3/5", "3.5/5"]) && agree(&["1,5", "2", "2,25"]) && agree(&["¥1,200", "¥300"]));
        // Three out of five differs from three out of ten.
        assert!(!agree(&["3/5", "3/10"]) && !agree(&["4 stars", "4/5"]) && !agree(&["$5", "€5"]));
        assert!(!agree(&["1,5", "1,500"]), "a comma is one thing or the other");
        assert!(agree(&["950,50 €", "1.500,00 €", "1.200.000 €", "1.500 €"]) && !agree(&["950,50 €", "1.5 €"]));
        assert!(agree(&["4/5", "3 / 5", "2 of 5", "1 out of 5"]));
        // Numbers without a unit do not fit to those with a scaling unit.
        assert!(agree(&["50 %", "90 %"]) && agree(&["1.2k", "3k"]));
        assert!(
            !agree(&["1.2k", "900"])
                && !agree(&["0.9", "50 %"])
                && !agree(&["9000", "1万"])
                && !agree(&["¥3万", "¥900"])
        );
    }
}
