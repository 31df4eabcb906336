//! Reads spreadsheets and recalculates them: the part of the formula language that traces use.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{Cursor, Read, Write};

/// A sheet, and a row and a column of it, from 0.
pub(crate) type Place = (usize, usize, usize);

/// The content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Number(f64),
    Text(String),
    /// The formula and its stored result.
    Formula(String, String),
}

/// The value of a formula.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Number(f64),
    Text(String),
    Truth(bool),
    Empty,
    /// `#VALUE!`, `#NUM!`, `#DIV/0!`, `#N/A`.
    Error,
    Range(Vec<Vec<Value>>),
}

/// A spreadsheet.
#[derive(Clone)]
pub(crate) struct Book {
    pub(crate) sheets: Vec<String>,
    pub(crate) cells: HashMap<Place, Cell>,
}

fn part(archive: &mut zip::ZipArchive<Cursor<&[u8]>>, name: &str) -> Option<String> {
    let mut text = String::new();
    archive.by_name(name).ok()?.read_to_string(&mut text).unwrap();
    Some(text)
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    tag.split(&format!("{name}=\"")).nth(1).and_then(|rest| rest.split('"').next())
}

fn inner<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let rest = text.split(&format!("<{tag}>")).nth(1)?;
    rest.split(&format!("</{tag}>")).next()
}

fn plain(xml: &str) -> String {
    let signs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    signs.iter().fold(xml.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Returns row and column of a name such as `B4`.
fn place(name: &str) -> (usize, usize) {
    let digits = name.find(|c: char| c.is_ascii_digit()).unwrap_or_else(|| panic!("{name} is no cell"));
    let column = name[..digits].bytes().fold(0, |column, b| column * 26 + usize::from(b - b'A') + 1) - 1;
    (name[digits..].parse::<usize>().unwrap() - 1, column)
}

impl Book {
    pub(crate) fn read(xlsx: &[u8]) -> Book {
        let mut archive = zip::ZipArchive::new(Cursor::new(xlsx)).unwrap();
        let book = part(&mut archive, "xl/workbook.xml").unwrap();
        let sheets: Vec<String> = book.split("<sheet ").skip(1).map(|s| plain(attribute(s, "name").unwrap())).collect();
        let strings = part(&mut archive, "xl/sharedStrings.xml").unwrap_or_default();
        let text = |item: &str| plain(item.split('>').nth(1).unwrap().split('<').next().unwrap());
        // `<si><t>…</t></si>`, with or without attributes of t.
        let strings: Vec<String> = strings.split("<si>").skip(1).map(text).collect();
        let mut cells = HashMap::new();
        for sheet in 0..sheets.len() {
            let xml = part(&mut archive, &format!("xl/worksheets/sheet{}.xml", sheet + 1)).unwrap();
            for cell in xml.split("<c r=\"").skip(1) {
                let (row, column) = place(cell.split('"').next().unwrap());
                let kind = attribute(cell.split('>').next().unwrap(), "t");
                let stored = inner(cell, "v").map(plain).unwrap_or_default();
                let found = match (inner(cell, "f"), kind) {
                    (Some(formula), _) => Cell::Formula(plain(formula), stored),
                    (None, Some("s")) => Cell::Text(strings[stored.parse::<usize>().unwrap()].clone()),
                    (None, _) if stored.is_empty() => continue,
                    (None, _) => Cell::Number(stored.parse().unwrap()),
                };
                cells.insert((sheet, row, column), found);
            }
        }
        Book { sheets, cells }
    }

    /// Recalculates every requested formula from the given numbers only.
    pub(crate) fn calculated(&self) -> Calculated<'_> {
        Calculated { book: self, known: RefCell::new(HashMap::new()) }
    }
}

/// A spreadsheet and the values computed so far.
pub(crate) struct Calculated<'a> {
    book: &'a Book,
    known: RefCell<HashMap<Place, Value>>,
}

impl Calculated<'_> {
    pub(crate) fn value(&self, at: Place) -> Value {
        if let Some(value) = self.known.borrow().get(&at) {
            return value.clone();
        }
        let value = match self.book.cells.get(&at) {
            None => Value::Empty,
            Some(Cell::Number(x)) => Value::Number(*x),
            Some(Cell::Text(text)) => Value::Text(text.clone()),
            Some(Cell::Formula(formula, _)) => {
                let mut reader = Reader { rest: formula, sheet: at.0, of: self };
                let value = scalar(reader.comparison());
                assert!(reader.rest.is_empty(), "{formula}: {} is left", reader.rest);
                value
            }
        };
        self.known.borrow_mut().insert(at, value.clone());
        value
    }
}

fn scalar(value: Value) -> Value {
    match value {
        Value::Range(rows) => rows.into_iter().flatten().next().unwrap_or(Value::Error),
        value => value,
    }
}

/// Returns a number for arithmetic, if the value converts to one.
fn number(value: Value) -> Option<f64> {
    match scalar(value) {
        Value::Number(x) => Some(x),
        Value::Truth(truth) => Some(f64::from(u8::from(truth))),
        Value::Empty => Some(0.0),
        _ => None,
    }
}

/// Returns a result; results that are not numbers in a spreadsheet are errors.
fn result(x: Option<f64>) -> Value {
    x.filter(|x| x.is_finite()).map_or(Value::Error, Value::Number)
}

/// Parses a formula and evaluates it on the way.
struct Reader<'a, 'b> {
    rest: &'a str,
    sheet: usize,
    of: &'a Calculated<'b>,
}

impl Reader<'_, '_> {
    fn take(&mut self, sign: &str) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn comparison(&mut self) -> Value {
        let mut left = self.sum();
        for sign in ["=", ">"] {
            if self.take(sign) {
                let right = self.sum();
                left = match (scalar(left), scalar(right)) {
                    (Value::Error, _) | (_, Value::Error) => Value::Error,
                    (Value::Number(a), Value::Number(b)) => Value::Truth(if sign == "=" { a == b } else { a > b }),
                    // A text is not a number, and larger than any number.
                    (a, b) => Value::Truth(if sign == "=" { a == b } else { matches!(a, Value::Text(_)) }),
                };
            }
        }
        left
    }

    fn sum(&mut self) -> Value {
        let mut left = self.product();
        loop {
            let sign = match self.rest.as_bytes().first() {
                Some(b'+') => 1.0,
                Some(b'-') => -1.0,
                _ => return left,
            };
            self.rest = &self.rest[1..];
            let right = self.product();
            left = result(number(left).zip(number(right)).map(|(a, b)| a + sign * b));
        }
    }

    fn power(&mut self) -> Value {
        let left = self.signed();
        match self.take("^") {
            true => result(number(left).zip(number(self.signed())).map(|(a, b)| a.powf(b))),
            false => left,
        }
    }

    fn product(&mut self) -> Value {
        let mut left = self.power();
        loop {
            let is_product = match self.rest.as_bytes().first() {
                Some(b'*') => true,
                Some(b'/') => false,
                _ => return left,
            };
            self.rest = &self.rest[1..];
            let right = self.power();
            left = result(number(left).zip(number(right)).map(|(a, b)| if is_product { a * b } else { a / b }));
        }
    }

    fn signed(&mut self) -> Value {
        match self.take("-") {
            true => result(number(self.signed()).map(|x| -x)),
            false => self.single(),
        }
    }

    fn single(&mut self) -> Value {
        if self.take("(") {
            let value = self.comparison();
            assert!(self.take(")"), "expected ) before {}", self.rest);
            return value;
        }
        if self.take("\"") {
            let (text, rest) = self.rest.split_once('"').unwrap();
            self.rest = rest;
            return Value::Text(text.to_owned());
        }
        let mut sheet = self.sheet;
        if self.take("'") {
            let (name, rest) = self.rest.split_once("'!").unwrap();
            sheet = self.of.book.sheets.iter().position(|sheet| sheet == name).unwrap_or_else(|| panic!("no {name}"));
            self.rest = rest;
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return self.literal();
        }
        let name = self.name();
        if self.take("(") {
            return self.call(&name);
        }
        let first = place(&name);
        let last = if self.take(":") { place(&self.name()) } else { return self.of.value((sheet, first.0, first.1)) };
        let row = |i: usize| (first.1..=last.1).map(|j| self.of.value((sheet, i, j))).collect();
        Value::Range((first.0..=last.0).map(row).collect())
    }

    fn literal(&mut self) -> Value {
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let mut end = digits(self.rest);
        if self.rest[end..].starts_with('E') {
            let sign = usize::from(self.rest[end + 1..].starts_with(['-', '+']));
            end += 1 + sign + digits(&self.rest[end + 1 + sign..]);
        }
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        Value::Number(text.parse().unwrap())
    }

    fn name(&mut self) -> String {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        assert!(!name.is_empty(), "expected a name before {}", self.rest);
        self.rest = rest;
        name.to_owned()
    }

    fn call(&mut self, name: &str) -> Value {
        if name == "PI" && self.take(")") {
            return Value::Number(std::f64::consts::PI);
        }
        let mut given = Vec::new();
        loop {
            given.push(self.comparison());
            if self.take(")") {
                break;
            }
            assert!(self.take(","), "{name}: expected , before {}", self.rest);
        }
        let count = given.len();
        let is_error = |value: &Value| match value {
            Value::Range(rows) => rows.iter().flatten().any(|x| *x == Value::Error),
            value => *value == Value::Error,
        };
        let mut of = given.into_iter();
        let mut next = || of.next().unwrap();
        match (name, count) {
            ("IF", 3) => match scalar(next()) {
                Value::Truth(truth) => {
                    let [yes, no] = [next(), next()];
                    scalar(if truth { yes } else { no })
                }
                _ => Value::Error,
            },
            ("IFERROR", 2) => match scalar(next()) {
                Value::Error => scalar(next()),
                value => value,
            },
            ("AND", _) => of
                .try_fold(true, |all, value| match value {
                    Value::Truth(truth) => Ok(all && truth),
                    _ => Err(()),
                })
                .map_or(Value::Error, Value::Truth),
            ("ISNUMBER", 1) => Value::Truth(matches!(scalar(next()), Value::Number(_))),
            ("COUNT", 1) => Value::Number(numbers(&next()).len() as f64),
            ("COUNTIF", 2) => {
                let (range, wanted) = (next(), next());
                Value::Number(flat(&range).into_iter().filter(|x| **x == wanted).count() as f64)
            }
            ("MIN" | "MAX", 2) => {
                let [a, b] = [number(next()), number(next())];
                result(a.zip(b).map(|(a, b)| if name == "MIN" { a.min(b) } else { a.max(b) }))
            }
            ("EXP" | "LN" | "SQRT" | "COS" | "SIN" | "TANH" | "ERF", 1) => {
                let f = match name {
                    "ERF" => erf,
                    "EXP" => f64::exp,
                    "LN" => f64::ln,
                    "SQRT" => f64::sqrt,
                    "COS" => f64::cos,
                    "TANH" => f64::tanh,
                    _ => f64::sin,
                };
                result(number(next()).map(f))
            }
            ("SUM" | "MAX" | "AVERAGE" | "VARP", 1) => {
                let range = next();
                if is_error(&range) {
                    return Value::Error;
                }
                let x = numbers(&range);
                let n = x.len() as f64;
                let mean = x.iter().sum::<f64>() / n;
                result(Some(match name {
                    "SUM" => x.iter().sum(),
                    "MAX" if x.is_empty() => 0.0,
                    "MAX" => x.iter().fold(f64::NEG_INFINITY, |most, x| most.max(*x)),
                    "AVERAGE" => mean,
                    _ => x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n,
                }))
            }
            ("MATCH", 3) => {
                let (wanted, range) = (scalar(next()), next());
                assert_eq!(next(), Value::Number(0.0));
                let found = flat(&range).into_iter().position(|x| *x == wanted);
                found.map_or(Value::Error, |i| Value::Number((i + 1) as f64))
            }
            ("SUMPRODUCT", 1) => {
                let range = next();
                if is_error(&range) { Value::Error } else { result(Some(numbers(&range).iter().sum())) }
            }
            ("SUMPRODUCT", _) => {
                let ranges: Vec<Value> = of.collect();
                if ranges.iter().any(is_error) {
                    return Value::Error;
                }
                // In this function a text counts as 0.
                let term = |k: usize| {
                    let factor = |range: &Value| if let Value::Number(x) = flat(range)[k] { *x } else { 0.0 };
                    ranges.iter().map(factor).product::<f64>()
                };
                result(Some((0..flat(&ranges[0]).len()).map(term).sum()))
            }
            ("MMULT", 2) => {
                let [a, b] = [next(), next()];
                let (Value::Range(a), Value::Range(b)) = (rows(a), rows(b)) else { return Value::Error };
                let all = a.iter().chain(&b).flatten().all(|x| matches!(x, Value::Number(_)));
                if !all || a[0].len() != b.len() {
                    return Value::Error;
                }
                let cell = |i: usize, j: usize| {
                    let terms = (0..b.len()).map(|k| number(a[i][k].clone()).zip(number(b[k][j].clone())).unwrap());
                    result(Some(terms.map(|(a, b)| a * b).sum()))
                };
                Value::Range((0..a.len()).map(|i| (0..b[0].len()).map(|j| cell(i, j)).collect()).collect())
            }
            _ => panic!("no function {name} of {count}"),
        }
    }
}

/// Computes erf by a series whose terms have one sign (Abramowitz and Stegun 7.1.6), or its limit.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, 0.0);
    for n in 0..300 {
        sum += term;
        term *= 2.0 * x * x / f64::from(2 * n + 3);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp()
}

fn rows(value: Value) -> Value {
    match value {
        Value::Range(rows) => Value::Range(rows),
        single => Value::Range(vec![vec![single]]),
    }
}

fn flat(value: &Value) -> Vec<&Value> {
    match value {
        Value::Range(rows) => rows.iter().flatten().collect(),
        single => vec![single],
    }
}

/// Returns the numbers of a range, skipping texts and empty cells.
fn numbers(value: &Value) -> Vec<f64> {
    let number = |value: &Value| if let Value::Number(x) = value { Some(*x) } else { None };
    flat(value).into_iter().filter_map(number).collect()
}

/// A changed number of a spreadsheet.
pub(crate) struct CellChange {
    pub(crate) sheet: usize,
    /// The cell, such as `B4`.
    pub(crate) cell: String,
    pub(crate) number: f64,
}

/// Returns the file with changed numbers in some cells and without stored results, so only the
/// formulas can compute them.
pub(crate) fn stripped(xlsx: &[u8], changes: &[CellChange]) -> Vec<u8> {
    let mut archive = zip::ZipArchive::new(Cursor::new(xlsx)).unwrap();
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for i in 0..archive.len() {
        let mut file = archive.by_index(i).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let name = file.name().unwrap().into_owned();
        out.start_file(&name, zip::write::SimpleFileOptions::default()).unwrap();
        let sheet = name.strip_prefix("xl/worksheets/sheet").and_then(|rest| rest.strip_suffix(".xml"));
        if let Some(sheet) = sheet.map(|number| number.parse::<usize>().unwrap() - 1) {
            let xml = String::from_utf8(bytes).unwrap();
            let mut pieces = xml.split("</f><v>");
            let mut plain = pieces.next().unwrap().to_owned();
            for piece in pieces {
                plain.push_str("</f>");
                plain.push_str(piece.split_once("</v>").unwrap().1);
            }
            for CellChange { cell: at, number: x, .. } in changes.iter().filter(|change| change.sheet == sheet) {
                let start = plain.find(&format!("<c r=\"{at}\"")).unwrap_or_else(|| panic!("no cell {at}"));
                let value = start + plain[start..].find("<v>").unwrap() + 3;
                let end = value + plain[value..].find("</v>").unwrap();
                assert!(!plain[start..value].contains("</c>"), "{at} holds no number");
                plain.replace_range(value..end, &x.to_string());
            }
            bytes = plain.into_bytes();
        }
        out.write_all(&bytes).unwrap();
    }
    out.finish().unwrap().into_inner()
}
