//! Traffic at random, the same for the same seed: when requests come, to which router, whose they are and how long they last.

/// Which router a request comes to, and how requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pattern {
    /// One after the other, at even intervals.
    Alternating,
    Random,
    /// So many in a hundred to one router.
    Skewed(u64),
    /// Many at once, to any router.
    Bursty,
    /// All to one router for a while, and then to the next.
    Hot,
    /// At random, while routers leave and others come.
    Churn,
}

/// Numbers that look random.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `n`.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Of a memoryless process with this mean.
    pub(super) fn memoryless(&mut self, mean: f64) -> f64 {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - unit).ln() * mean
    }
}

/// When and where requests come.
pub(super) struct Traffic {
    pattern: Pattern,
    n_routers: u64,
    /// The mean time between two, in microseconds.
    gap_us: f64,
    next_us: f64,
    n: u64,
    left_of_burst: u64,
    pub(super) dice: Dice,
}

impl Traffic {
    pub(super) fn new(pattern: Pattern, n_routers: usize, per_second: f64, seed: u64) -> Self {
        let (n_routers, gap_us) = (n_routers as u64, 1e6 / per_second);
        Self { pattern, n_routers, gap_us, next_us: 0.0, n: 0, left_of_burst: 0, dice: Dice::new(seed) }
    }

    /// When the next request comes, and where.
    pub(super) fn next(&mut self) -> (u64, usize) {
        self.n += 1;
        self.next_us += match self.pattern {
            Pattern::Alternating => self.gap_us,
            Pattern::Bursty if self.left_of_burst > 0 => {
                self.left_of_burst -= 1;
                0.0
            }
            Pattern::Bursty => {
                self.left_of_burst = self.dice.below(19);
                self.dice.memoryless(10.0 * self.gap_us)
            }
            _ => self.dice.memoryless(self.gap_us),
        };
        let at_us = self.next_us as u64;
        let router = match self.pattern {
            Pattern::Alternating => self.n,
            Pattern::Skewed(percent) if self.dice.below(100) < percent => 0,
            Pattern::Skewed(_) => 1 + self.dice.below(self.n_routers - 1),
            Pattern::Hot => at_us / 700_000,
            Pattern::Random | Pattern::Bursty | Pattern::Churn => self.dice.below(self.n_routers),
        };
        (at_us, (router % self.n_routers) as usize)
    }
}
