//! How much of the time line spans cover.

/// For each of `times`, how long at least one span is active before it.
///
/// Spans are half-open, may overlap and come in any order; those that end at or before their start cover nothing.
pub fn covered_before(start: &[i64], end: &[i64], times: &[i64]) -> Vec<i64> {
    let pieces = pieces(start, end);
    let before = |&time: &i64| {
        let begun = pieces.partition_point(|piece| piece.begin < time);
        // The last piece that has begun may go on past the time.
        pieces[..begun]
            .last()
            .map_or(0, |last| last.covered.saturating_add((time.min(last.end)).saturating_sub(last.begin)))
    };
    times.iter().map(before).collect()
}

/// A stretch of the time line that is covered as a whole.
struct Piece {
    begin: i64,
    end: i64,
    /// Time that the pieces before it cover.
    covered: i64,
}

/// What spans cover, as pieces that follow each other without touching.
fn pieces(start: &[i64], end: &[i64]) -> Vec<Piece> {
    let mut spans: Vec<(i64, i64)> =
        start.iter().copied().zip(end.iter().copied()).filter(|(start, end)| end > start).collect();
    // Stable, because it makes use of the order in which the spans mostly are.
    spans.sort_by_key(|&(start, _)| start);
    let mut pieces: Vec<Piece> = Vec::new();
    for (start, end) in spans {
        match pieces.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            last => {
                let covered = last.map_or(0, |last| last.covered.saturating_add(last.end.saturating_sub(last.begin)));
                pieces.push(Piece { begin: start, end, covered });
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::covered_before;

    #[test]
    fn overlapping_spans_count_once_and_in_any_order() {
        assert_eq!(covered_before(&[8, 0, 5], &[9, 6, 7], &[0, 1, 6, 7, 8, 9, 20]), [0, 1, 6, 7, 7, 8, 8]);
    }

    #[test]
    fn spans_that_do_not_last_cover_nothing() {
        assert_eq!(covered_before(&[3, 5], &[3, 4], &[10]), [0]);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        assert_eq!(covered_before(&[i64::MIN], &[i64::MAX], &[i64::MIN, i64::MAX]), [0, i64::MAX]);
    }
}
