//! `-log2` of a 64-bit fraction in fixed point, from a table that is made by integers alone. It knows no cell.
//!
//! A platform's `ln` may differ in the last bit from one machine to the next, and a bit is enough to move a tenant.

/// Bits behind the binary point of a logarithm.
const FRACTION_BITS: u32 = 40;
/// Bits of the mantissa that choose a table entry.
const INDEX_BITS: u32 = 12;
/// Bits of the mantissa behind those, which interpolate between two entries.
const BETWEEN_BITS: u32 = 32;

const ENTRIES: usize = 1 << INDEX_BITS;

/// `TABLE[i]` is `2^40 * log2(1 + i / 4096)`, rounded down. The last entry is the upper neighbour of the one before.
static TABLE: [u64; ENTRIES + 1] = table();

const fn table() -> [u64; ENTRIES + 1] {
    let mut table = [0; ENTRIES + 1];
    let mut i = 0;
    while i < ENTRIES {
        table[i] = log2_of_mantissa(i as u64);
        i += 1;
    }
    table[ENTRIES] = 1 << FRACTION_BITS;
    table
}

/// `2^40 * log2(1 + i / 4096)` by repeated squaring: squaring a number doubles its logarithm, so each time that the
/// square reaches 2, the next bit of the logarithm is 1.
const fn log2_of_mantissa(i: u64) -> u64 {
    // A number in [1, 2) with 63 bits behind the point.
    let mut x = ((ENTRIES as u64 + i) as u128) << (63 - INDEX_BITS);
    let mut log = 0;
    let mut bit = 0;
    while bit < FRACTION_BITS {
        x = (x * x) >> 63;
        log <<= 1;
        if x >> 64 != 0 {
            x >>= 1;
            log |= 1;
        }
        bit += 1;
    }
    log
}

/// `-log2(u / 2^64)` with 40 bits behind the point: from 1 for the largest `u` to `64 << 40`. Zero counts as one.
pub(crate) fn neg_log2(u: u64) -> u64 {
    let u = u.max(1);
    let zeros = u.leading_zeros();
    // The mantissa without its leading bit, moved to the top of the word.
    let mantissa = (u << zeros) << 1;
    let i = (mantissa >> (64 - INDEX_BITS)) as usize;
    let between = (mantissa << INDEX_BITS) >> (64 - BETWEEN_BITS);
    // Two neighbours are less than 2^29 apart, so the product stays below 2^61.
    let fraction = TABLE[i] + (((TABLE[i + 1] - TABLE[i]) * between) >> BETWEEN_BITS);
    (u64::from(zeros + 1) << FRACTION_BITS) - fraction
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: u64 = 1 << FRACTION_BITS;

    #[test]
    fn powers_of_two_are_exact() {
        for e in 0..64 {
            assert_eq!(neg_log2(1 << e), (64 - e) * ONE);
        }
    }

    #[test]
    fn zero_is_the_worst_draw_and_the_largest_is_the_best() {
        assert_eq!(neg_log2(0), 64 * ONE);
        assert_eq!(neg_log2(0), neg_log2(1));
        assert_eq!(neg_log2(u64::MAX), 1);
    }

    #[test]
    fn table_is_the_logarithm_rounded_down() {
        // The oracle checks every entry's last bit through the digests; a float shows that the table means `log2`.
        for (i, &entry) in TABLE.iter().enumerate() {
            let exact = (1.0 + i as f64 / ENTRIES as f64).log2() * ONE as f64;
            assert!((entry as f64 - exact).abs() < 1.1, "entry {i}: {entry} beside {exact}");
        }
    }

    proptest! {
        #[test]
        fn error_of_interpolation_is_below_2_to_the_minus_26(u in 1..=u64::MAX) {
            let exact = 64.0 - (u as f64).log2();
            let got = neg_log2(u) as f64 / ONE as f64;
            prop_assert!((got - exact).abs() < 1.0 / f64::from(1 << 26));
        }

        #[test]
        fn better_draw_never_has_the_larger_logarithm(a: u64, step in 0..1_u64 << 40) {
            prop_assert!(neg_log2(a) >= neg_log2(a.saturating_add(step)));
        }
    }
}
