//! Rates and counts: what is taken is within its bounds, and a rate that is printed reads back as itself.

#![no_main]

use cofferdam_model::{Count, Rate};
use libfuzzer_sys::fuzz_target;

const MAX_TOKENS: u64 = 1_000_000_000;

fuzz_target!(|text: &str| {
    if let Ok(Count(count)) = text.parse() {
        let digits = text.trim_end_matches(['k', 'M']);
        assert!(digits.bytes().all(|byte| byte.is_ascii_digit()));
        assert!(count % digits.parse::<u64>().unwrap().max(1) == 0);
    }
    let Ok(rate) = text.parse::<Rate>() else { return };
    assert!((1..=MAX_TOKENS).contains(&rate.tokens()));
    assert!((1..=86_400_000_000).contains(&rate.period_us()));
    assert!(rate.window_s(MAX_TOKENS) >= rate.window_s(1));
    let printed = rate.to_string();
    let tokens: u64 = printed.split('/').next().unwrap().parse().unwrap();
    // A unit that is longer than the rate's own may need more tokens than a file may write.
    if tokens <= MAX_TOKENS {
        assert_eq!(printed.parse(), Ok(rate), "{printed}");
    }
});
