//! Statistics of the weights of one head: entropy, distance and targets of attention.

/// Statistics of rows of weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadMeasures {
    pub(crate) entropy: f32,
    pub(crate) distance: f32,
    /// The mean distance of uniform attention.
    pub(crate) even_distance: f32,
    pub(crate) nearby: f32,
    pub(crate) previous: f32,
    pub(crate) first: f32,
    pub(crate) strongest: f32,
    /// Sum over words of the largest weight that each receives from another word, divided by the number of rows. Near
    /// `strongest` if every word attends to a different one.
    pub(crate) paired: f32,
    pub(crate) sink: usize,
    pub(crate) sink_share: f32,
}

impl HeadMeasures {
    /// Returns the statistics of the roles: sink, local, pairwise, distant.
    pub(crate) fn role_figures(&self) -> [f32; 4] {
        [self.sink_share, self.nearby, self.paired, self.distance]
    }
}

/// Computes the statistics of rows over `words` words. Each row belongs to the query word given with it, and may cover
/// only the first words, which the query can see.
pub(crate) fn measure_rows<'a>(words: usize, rows: impl Iterator<Item = (usize, &'a [f32])>) -> HeadMeasures {
    let mut received = vec![0.0f32; words];
    let mut most_received = vec![0.0f32; words];
    let [mut entropy, mut distance, mut nearby, mut previous, mut strongest] = [0.0f32; 5];
    let (mut count, mut chosen, mut even) = (0, 0, 0.0f32);
    for (i, row) in rows {
        count += 1;
        let (mut largest, mut of_row) = (0.0f32, 0.0f32);
        for (j, &weight) in row.iter().enumerate() {
            received[j] += weight;
            if i != j {
                most_received[j] = most_received[j].max(weight);
            }
            if weight > 0.0 {
                of_row -= weight * weight.ln();
            }
            distance += weight * i.abs_diff(j) as f32;
            previous += if j + 1 == i { weight } else { 0.0 };
            nearby += if i.abs_diff(j) <= 1 { weight } else { 0.0 };
            largest = largest.max(weight);
        }
        strongest += largest;
        // A query that sees only one word has no choice.
        if row.len() > 1 {
            (entropy, chosen) = (entropy + of_row / (row.len() as f32).ln(), chosen + 1);
        }
        // The mean distance of uniform attention.
        even += (0..row.len()).map(|j| i.abs_diff(j) as f32).sum::<f32>() / row.len().max(1) as f32;
    }
    let rows = count.max(1) as f32;
    let sink = (0..words).fold(0, |best, j| if received[j] > received[best] { j } else { best });
    HeadMeasures {
        entropy: entropy / chosen.max(1) as f32,
        distance: distance / rows,
        even_distance: even / rows,
        nearby: nearby / rows,
        previous: previous / rows,
        first: received.first().copied().unwrap_or(0.0) / rows,
        strongest: strongest / rows,
        paired: most_received.iter().sum::<f32>() / rows,
        sink,
        sink_share: received.get(sink).copied().unwrap_or(0.0) / rows,
    }
}
