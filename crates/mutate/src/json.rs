//! Damage that keeps JSON valid, and damage that keeps tensor files readable.

use crate::bytes;
use crate::random::Random;
use serde_json::{Map, Value, json};

/// Damages the text of a JSON file: as a tree if it is valid JSON, else as bytes.
pub(crate) fn mutate(random: &mut Random, text: &mut Vec<u8>) {
    match serde_json::from_slice::<Value>(text) {
        Ok(mut value) if !random.once_in(4) => {
            for _ in 0..1 + random.below(3) {
                mutate_once(random, &mut value);
            }
            *text = value.to_string().into_bytes();
        }
        _ => bytes::mutate(random, text),
    }
}

/// Descends to a random node of the tree and changes it.
fn mutate_once(random: &mut Random, value: &mut Value) {
    let goes_down = !random.once_in(4);
    match value {
        Value::Object(map) if !map.is_empty() && goes_down => {
            let at = random.below(map.len());
            if let Some((_, inner)) = map.iter_mut().nth(at) {
                return mutate_once(random, inner);
            }
        }
        Value::Array(list) if !list.is_empty() && goes_down => {
            let at = random.below(list.len());
            return mutate_once(random, &mut list[at]);
        }
        _ => {}
    }
    mutate_value(random, value);
}

fn mutate_value(random: &mut Random, value: &mut Value) {
    if random.once_in(2) {
        match value {
            Value::Object(map) => return mutate_object(random, map),
            Value::Array(list) => return mutate_array(random, list),
            Value::String(text) => return mutate_string(random, text),
            Value::Number(_) => {
                *value = random_number(random);
                return;
            }
            _ => {}
        }
    }
    *value = hostile_value(random);
}

fn random_number(random: &mut Random) -> Value {
    match random.below(14) {
        0 => 0.into(),
        1 => (-1).into(),
        2 => 1.into(),
        3 => 2.into(),
        4 => 3.into(),
        5 => u64::MAX.into(),
        6 => i64::MIN.into(),
        7 => (1u64 << 32).into(),
        8 => (1u64 << 20).into(),
        9 => 65_536.into(),
        10 => json!(1e308),
        11 => json!(-1e-320),
        12 => json!(0.5),
        _ => json!(random.below(100)),
    }
}

fn hostile_value(random: &mut Random) -> Value {
    match random.below(12) {
        0 => Value::Null,
        1 => true.into(),
        2 => "".into(),
        3 => "\u{1b}[31m\u{0}\u{202e}".into(),
        4 => "x".repeat(1 << random.below(17)).into(),
        5 => json!([]),
        6 => json!({}),
        7 => (0..1 << random.below(9)).fold(Value::Null, |inner, _| json!([inner])),
        8 => (0..1 << random.below(6)).fold(Value::Null, |inner, _| json!({ "type": inner })),
        9 => json!(["日本", "a\nb", "../../x"]),
        _ => random_number(random),
    }
}

fn mutate_object(random: &mut Random, map: &mut Map<String, Value>) {
    let keys: Vec<String> = map.keys().cloned().collect();
    if keys.is_empty() {
        map.insert("more".into(), hostile_value(random));
        return;
    }
    let key = random.choose(&keys).clone();
    match random.below(5) {
        0 => drop(map.remove(&key)),
        1 => drop(
            map.insert(random.choose_ref(&["more", "", "\u{0}", "type", "__metadata__"]).into(), hostile_value(random)),
        ),
        2 => {
            let other = random.choose(&keys).clone();
            let (a, b) = (map[&key].clone(), map[&other].clone());
            map.insert(key, b);
            map.insert(other, a);
        }
        3 => {
            if let Some(inner) = map.remove(&key) {
                map.insert(format!("{key}x"), inner);
            }
        }
        _ => drop(map.insert(key, hostile_value(random))),
    }
}

fn mutate_array(random: &mut Random, list: &mut Vec<Value>) {
    if list.is_empty() {
        list.push(hostile_value(random));
        return;
    }
    let at = random.below(list.len());
    match random.below(5) {
        0 => drop(list.remove(at)),
        1 => list.insert(at, hostile_value(random)),
        2 => list.insert(at, list[at].clone()),
        3 => list.truncate(at),
        _ if list.len() < 5000 => {
            let copy = list.clone();
            list.extend(copy);
        }
        _ => list.reverse(),
    }
}

fn mutate_string(random: &mut Random, text: &mut String) {
    match random.below(7) {
        0 => text.clear(),
        1 => *text = text.repeat(1 + random.below(50)),
        2 => text.push_str("\u{0}\u{1b}[2J"),
        3 => {
            *text = random
                .choose_ref(&["(((", "(a+)+$", "\\p{Han}|.*", "[", "日本語", "../../../etc/passwd", "/dev/zero"])
                .into()
        }
        4 => text.insert_str(0, random.choose_ref(&["\u{feff}", " ", "\n", "-", "'", "<script>", "%s", "{}"])),
        5 => drop(text.pop()),
        _ => *text = text.chars().rev().collect(),
    }
}

/// Damages a safetensors file: its header as JSON, its numbers, or its bytes.
pub(crate) fn mutate_tensors(random: &mut Random, file: &mut Vec<u8>) {
    let header = file.first_chunk::<8>().and_then(|length| {
        let length = u64::from_le_bytes(*length) as usize;
        Some((length, file.get(8..length.checked_add(8)?)?.to_vec()))
    });
    let Some((length, mut header)) = header else { return bytes::mutate(random, file) };
    match random.below(4) {
        0 => bytes::mutate(random, file),
        1 => {
            mutate(random, &mut header);
            let declared =
                if random.once_in(8) { random_number(random).as_u64().unwrap_or(0) } else { header.len() as u64 };
            let numbers = file.split_off(8 + length);
            *file = [&declared.to_le_bytes()[..], &header, &numbers].concat();
        }
        _ => {
            // Finite numbers of every size, and non-finite ones.
            let values = [f32::NAN, f32::INFINITY, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, 1e19, -0.0, 3e38];
            let places = (file.len() - 8 - length) / 4;
            for _ in 0..1 + random.below(64) {
                let (at, value) = (8 + length + 4 * random.below(places), *random.choose(&values));
                if let Some(place) = file.get_mut(at..at + 4) {
                    place.copy_from_slice(&value.to_le_bytes());
                }
            }
        }
    }
}
