//! How the events of a profile's host hang together.

/// How the events of a profile's host hang together; made once for all that ask.
pub struct Web {
    /// The lines of the host.
    pub lines: Vec<u32>,
    pub roots: Set,
    /// The innermost span around each event on its own line.
    pub parents: Vec<u32>,
    /// Events that flows arrive at, and for each where its flow comes from.
    pub reached: Set,
    pub origins: Vec<u32>,
    /// Begins and ends of tasks on each line, by time.
    pub regions: Vec<Vec<u32>>,
    /// The name of the begins.
    pub begin: Option<u32>,
}

/// Some of the events.
pub struct Set {
    words: Vec<u64>,
    /// How many are in the words before each.
    before: Vec<u32>,
}

impl Set {
    pub fn of(rows: impl Iterator<Item = u32>, count: usize) -> Self {
        let mut words: Vec<u64> = vec![0; count.div_ceil(64)];
        rows.filter(|&row| (row as usize) < count).for_each(|row| words[row as usize / 64] |= 1 << (row % 64));
        let mut sum = 0;
        let before = words.iter().map(|word| {
            sum += word.count_ones();
            sum - word.count_ones()
        });
        Self { before: before.collect(), words }
    }

    pub fn has(&self, row: u32) -> bool {
        self.words[row as usize / 64] >> (row % 64) & 1 == 1
    }

    /// How many come before one of these.
    pub fn position(&self, row: u32) -> Option<usize> {
        let word = row as usize / 64;
        let lower = self.words[word] & ((1 << (row % 64)) - 1);
        self.has(row).then(|| (self.before[word] + lower.count_ones()) as usize)
    }
}
