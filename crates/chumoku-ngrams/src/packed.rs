//! Sparse columns of counts in few bytes: most n-grams of a column stand once in a text, and not far from the next.
//!
//! A column is the number of its entries and its block, then for each entry the distance from the row before. One bit of
//! that says whether the n-gram stands there once; otherwise its count follows. All numbers have seven bits a byte, the
//! lowest first (LEB128).

/// Columns one after the other, read from the first to the last.
#[derive(Debug, Clone, Default)]
pub(crate) struct PackedColumns {
    bytes: Vec<u8>,
    columns: usize,
    stored: usize,
}

impl PackedColumns {
    /// Columns.
    pub(crate) fn len(&self) -> usize {
        self.columns
    }

    /// Entries of all columns.
    pub(crate) fn num_entries(&self) -> usize {
        self.stored
    }

    /// Adds a column: the block of its n-gram, 0 or 1, and its rows, ascending, with the count in each.
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

    /// Hands each column to `each`: its block, its rows, and the count in each.
    pub(crate) fn for_each(&self, mut each: impl FnMut(usize, &[u32], &[u32])) {
        let (mut rows, mut counts) = (Vec::new(), Vec::new());
        let mut bytes = self.bytes.iter();
        for _ in 0..self.columns {
            let head = read(&mut bytes);
            rows.clear();
            counts.clear();
            let mut row = 0;
            for _ in 0..head / 2 {
                let entry = read(&mut bytes);
                row += (entry / 2) as u32;
                rows.push(row);
                counts.push(if entry.is_multiple_of(2) { 1 } else { read(&mut bytes) as u32 });
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
    let (mut number, mut shift) = (0, 0);
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
        fn columns_come_back_as_they_were(
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
