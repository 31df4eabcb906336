//! Compressed sparse columns of counts. Most n-grams occur once per text, and in texts that are close together.
//!
//! A column is stored as the number of its entries and its block, followed by the entries. An entry is the distance
//! from the previous row; one of its bits tells whether the count is 1, and otherwise the count follows. All numbers
//! use seven bits per byte, lowest first (LEB128).

/// Consecutive columns, read from first to last.
#[derive(Debug, Clone, Default)]
pub(crate) struct PackedColumns {
    bytes: Vec<u8>,
    columns: usize,
    stored: usize,
}

impl PackedColumns {
    /// Returns the number of columns.
    pub(crate) fn len(&self) -> usize {
        self.columns
    }

    /// Returns the number of entries of all columns.
    pub(crate) fn num_entries(&self) -> usize {
        self.stored
    }

    /// Adds a column: the block of its n-gram, 0 or 1, and its ascending rows with their counts.
    pub(crate) fn push(&mut self, block: usize, rows: &[u32], counts: &[u32]) {
        self.columns += 1;
        self.stored += rows.len();
        self.write(2 * rows.len() as u64 + block as u64);
        let mut before = 0;
        for (&row, &count) in rows.iter().zip(counts) {
            self.write(2 * u64::from(row - before) + u64::from(count != 1));
            if count != 1 {
                self.write(u64::from(count));
            }
            before = row;
        }
    }

    /// Calls `each` with each column: its block, its rows, and their counts.
    pub(crate) fn for_each(&self, mut each: impl FnMut(usize, &[u32], &[u32])) {
        let (mut rows, mut counts) = (Vec::new(), Vec::new());
        let mut bytes = self.bytes.iter();
        for _ in 0..self.columns {
            let head = read(&mut bytes);
            let length = (head / 2) as usize;
            rows.resize(length, 0);
            counts.resize(length, 0);
            let mut row = 0;
            for (place, count) in rows.iter_mut().zip(&mut counts) {
                let entry = read(&mut bytes);
                row += (entry / 2) as u32;
                *place = row;
                *count = if entry.is_multiple_of(2) { 1 } else { read(&mut bytes) as u32 };
            }
            each((head % 2) as usize, &rows, &counts);
        }
    }

    fn write(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

#[inline]
fn read(bytes: &mut std::slice::Iter<'_, u8>) -> u64 {
    match bytes.next() {
        Some(&byte) if byte < 0x80 => u64::from(byte),
        Some(&byte) => read_rest(byte, bytes),
        None => 0,
    }
}

/// Reads the rest of a number with several bytes.
fn read_rest(first: u8, bytes: &mut std::slice::Iter<'_, u8>) -> u64 {
    let (mut number, mut shift) = (u64::from(first & 0x7f), 7);
    for &byte in bytes {
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_columns_round_trip(
            columns in prop::collection::vec(
                (0..2usize, prop::collection::btree_map(any::<u32>(), 1..300u32, 0..40)),
                0..20,
            ),
        ) {
            let columns: Vec<(usize, Vec<u32>, Vec<u32>)> = columns
                .into_iter()
                .map(|(block, entries)| (block, entries.keys().copied().collect(), entries.values().copied().collect()))
                .collect();
            let mut packed = PackedColumns::default();
            columns.iter().for_each(|(block, rows, counts)| packed.push(*block, rows, counts));
            let mut found = Vec::new();
            packed.for_each(|block, rows, counts| found.push((block, rows.to_vec(), counts.to_vec())));
            prop_assert_eq!(packed.len(), columns.len());
            prop_assert_eq!(packed.num_entries(), columns.iter().map(|column| column.1.len()).sum::<usize>());
            prop_assert_eq!(found, columns);
        }
    }
}
