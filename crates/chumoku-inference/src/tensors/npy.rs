//! NumPy's `.npy` format: a magic number, a version, a header that is a Python dictionary, and the numbers.
//!
//! The header is parsed here because NumPy writes it in one form only. The published readers accept any Python literal,
//! with a parser whose time doubles with each nested bracket (py_literal 0.4): 64 bytes of brackets never finish.
//! Source: `numpy.lib.format`, versions 1.0 to 3.0.

use super::{NumberType, Tensor, to_little_endian};
use crate::lang::lang;
use crate::tr;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Parses the bytes of an `.npy` file, or returns what is wrong with them.
pub(super) fn parse(bytes: &[u8]) -> Result<Tensor, String> {
    let (header, data) = split_header(bytes).ok_or(lang().pick(
        "expected the header of an .npy array, got other bytes or too few",
        ".npy 配列のヘッダーが必要ですが、別の内容か、長さが足りません",
    ))?;
    let header = std::str::from_utf8(header).map_err(|_| {
        lang().pick("expected a header in UTF-8, got other bytes", "UTF-8 のヘッダーが必要ですが、別のバイトです")
    })?;
    let header: NpyHeader = NpyHeader::parse(header).ok_or_else(|| {
        let start: String = header.chars().take(60).collect();
        tr!(
            "expected a header {{'descr': …, 'fortran_order': …, 'shape': …}}, got {start}",
            "ヘッダー {{'descr': …, 'fortran_order': …, 'shape': …}} が必要ですが、{start} です"
        )
    })?;
    let (number, is_big_endian) = parse_number_type(&header.descr)?;
    let mut swapped;
    let mut data = data;
    if is_big_endian {
        swapped = data.to_vec();
        swapped.chunks_mut(number.bytes()).for_each(<[u8]>::reverse);
        data = &swapped;
    }
    if !header.fortran_order {
        return number.array(&header.shape, data);
    }
    // The first axis varies fastest: read the reversed shape in row-major order, then reverse the axes.
    let reversed: Vec<usize> = header.shape.iter().rev().copied().collect();
    let tensor = number.array(&reversed, data)?;
    Ok(super::for_any!(tensor, array => array.reversed_axes().as_standard_layout().into_owned().into()))
}

/// Splits a file into header and data.
fn split_header(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[major, _minor], rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    let (length, rest) = match major {
        1 => rest.split_first_chunk().map(|(&length, rest)| (u32::from(u16::from_le_bytes(length)), rest))?,
        2 | 3 => rest.split_first_chunk().map(|(&length, rest)| (u32::from_le_bytes(length), rest))?,
        _ => return None,
    };
    rest.split_at_checked(length as usize)
}

/// Returns the number type of a `descr`, and whether its bytes are big-endian.
fn parse_number_type(descr: &str) -> Result<(NumberType, bool), String> {
    let number = match descr.trim_start_matches(['<', '>', '|', '=']) {
        "f4" => NumberType::F32,
        "f8" => NumberType::F64,
        "f2" => NumberType::F16,
        "b1" => NumberType::Bool,
        "i1" => NumberType::Signed(1),
        "i2" => NumberType::Signed(2),
        "i4" => NumberType::Signed(4),
        "i8" => NumberType::Signed(8),
        "u1" => NumberType::Unsigned(1),
        "u2" => NumberType::Unsigned(2),
        "u4" => NumberType::Unsigned(4),
        "u8" => NumberType::Unsigned(8),
        "V2" => {
            let problem = tr!(
                "found type V2, raw bytes, because NumPy has no bf16; store it as f32, or use .safetensors",
                "型 V2（生のバイト）です。NumPy に bf16 はないので、f32 にするか、すべてを .safetensors に保存してください"
            );
            return Err(problem.to_owned());
        }
        _ => {
            return Err(tr!(
                "expected f2, f4, f8, b1 or whole numbers, got the type {descr}; convert it",
                "f2、f4、f8、b1、整数のいずれかが必要ですが、型は {descr} です。変換してください"
            ));
        }
    };
    Ok((number, descr.starts_with('>')))
}

#[derive(Debug, Default, PartialEq)]
struct NpyHeader {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl NpyHeader {
    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, with keys in any order.
    fn parse(text: &str) -> Option<NpyHeader> {
        let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        while !rest.is_empty() {
            let (key, after) = parse_quoted(rest)?;
            let value = after.trim_start().strip_prefix(':')?.trim_start();
            rest = match key {
                "descr" if value.starts_with('[') => {
                    // A structured type: not supported, but named in the error.
                    descr = Some(tr!("of several fields", "複数のフィールド"));
                    &value[value.rfind("]")? + 1..]
                }
                "descr" => {
                    let (name, rest) = parse_quoted(value)?;
                    descr = Some(name.to_owned());
                    rest
                }
                "fortran_order" => {
                    let (order, rest) = match value.strip_prefix("True") {
                        Some(rest) => (true, rest),
                        None => (false, value.strip_prefix("False")?),
                    };
                    fortran_order = Some(order);
                    rest
                }
                "shape" => {
                    let (axes, rest) = value.strip_prefix('(')?.split_once(')')?;
                    let axes = axes.split(',').map(str::trim).filter(|axis| !axis.is_empty());
                    shape = Some(axes.map(|axis| axis.parse().ok()).collect::<Option<Vec<usize>>>()?);
                    rest
                }
                _ => return None,
            };
            rest = rest.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        Some(NpyHeader { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }
}

/// Splits off the quoted string at the start. Returns it and the rest.
fn parse_quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|&c| c == '\'' || c == '"')?;
    text[1..].split_once(quote)
}

/// Returns the bytes of an `.npy` file. bf16 is not supported there; the caller has checked.
pub(super) fn serialize(tensor: &Tensor) -> Vec<u8> {
    let descr = match tensor {
        Tensor::F32(_) => "<f4",
        Tensor::F64(_) => "<f8",
        Tensor::F16(_) => "<f2",
        Tensor::Bf16(_) => "|V2",
        Tensor::Bool(_) => "|b1",
        Tensor::I64(_) => "<i8",
    };
    // Python writes a tuple of one element as (3,).
    let axes: String = tensor.shape().iter().map(|axis| format!("{axis},")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}");
    // The numbers start at a multiple of 64 bytes, and the header ends with a line feed.
    let before = MAGIC.len() + 4;
    let padding = 63 - (before + header.len()) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    let length = u16::try_from(header.len()).expect("arrays have fewer than a thousand axes");
    [MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes(), &to_little_endian(tensor)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed() {
        let header = |text| NpyHeader::parse(text);
        let expected = NpyHeader { descr: "<f4".into(), fortran_order: false, shape: vec![2, 3] };
        assert_eq!(header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n"), Some(expected));
        let expected = NpyHeader { descr: "|b1".into(), fortran_order: true, shape: vec![] };
        assert_eq!(header("{\"shape\":(),\"fortran_order\":True,\"descr\":\"|b1\"}"), Some(expected));
        for bad in [
            "",
            "{}",
            "{'descr': '<f4'",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4, 'shape': ()}",
            "{'描': 1}",
        ] {
            assert_eq!(header(bad), None, "{bad}");
        }
        assert_eq!(header(&("{'descr': ".to_owned() + &"(".repeat(100_000) + "}")), None);
    }

    #[test]
    fn fortran_order_and_big_endian_are_read() {
        let file = |descr: &str, fortran: &str, data: &[u8]| {
            let header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': (2, 3), }}\n");
            parse(&[MAGIC, &[2, 0], &(header.len() as u32).to_le_bytes(), header.as_bytes(), data].concat())
        };
        let rows = ndarray::arr2(&[[1, 2, 3], [4, 5, 6]]).into_dyn();
        assert_eq!(file("|u1", "False", &[1, 2, 3, 4, 5, 6]), Ok(rows.clone().into()));
        assert_eq!(file("|i1", "True", &[1, 4, 2, 5, 3, 6]), Ok(rows.clone().into()));
        assert_eq!(file(">i2", "False", &[0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6]), Ok(rows.into()));
        assert!(file("|u1", "False", &[1; 5]).unwrap_err().contains("[2, 3] times 1 bytes, got 5"));
        assert!(file("|V2", "False", &[1; 12]).unwrap_err().contains("bf16"));
        assert!(file("<c8", "False", &[1; 48]).unwrap_err().contains("<c8"));
    }
}
