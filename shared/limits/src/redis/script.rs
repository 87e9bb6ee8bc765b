//! The script's text and its SHA-1, by which a server knows it. How it is called is the link's affair.

use sha1_smol::Sha1;

/// A script, put together from the files of `lua/`: `sync`, which decides every limit, or one that keeps
/// what a fleet's routers have in common besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    text: String,
    sha1: String,
}

const CLOCK: &str = include_str!("../../lua/clock.lua");

/// Everything but the clock, in an order in which each file needs only those before it.
const BODY: &str = concat!(
    include_str!("../../lua/numbers.lua"),
    include_str!("../../lua/epoch.lua"),
    include_str!("../../lua/recall.lua"),
    include_str!("../../lua/accounts.lua"),
    include_str!("../../lua/permits.lua"),
    include_str!("../../lua/tokens.lua"),
    include_str!("../../lua/window.lua"),
    include_str!("../../lua/shape.lua"),
    include_str!("../../lua/sync.lua"),
);

const OVERRIDE: &str = include_str!("../../lua/override.lua");
const REVISION: &str = include_str!("../../lua/revision.lua");
const ACCEPTED: &str = include_str!("../../lua/accepted.lua");
const RELEASE: &str = include_str!("../../lua/release.lua");

impl Script {
    /// The script, which has the server's time.
    pub fn sync() -> Self {
        Self::with_clock(CLOCK)
    }

    /// The script with another `clock.lua` in front: a test's, which has the time in its hand.
    pub fn with_clock(clock: &str) -> Self {
        Self::of(format!("{clock}{BODY}"))
    }

    /// What keeps overrides.
    pub fn overrides() -> Self {
        Self::of(format!("{CLOCK}{OVERRIDE}"))
    }

    /// What keeps the fleet file that was accepted last.
    pub fn accepted() -> Self {
        Self::of(format!("{CLOCK}{REVISION}{ACCEPTED}"))
    }

    /// What counts how far a release is.
    pub fn release() -> Self {
        Self::release_with_clock(CLOCK)
    }

    /// The same with another `clock.lua` in front.
    pub fn release_with_clock(clock: &str) -> Self {
        Self::of(format!("{clock}{REVISION}{RELEASE}"))
    }

    fn of(text: String) -> Self {
        let sha1 = Sha1::from(&text).hexdigest();
        Self { text, sha1 }
    }

    /// What `SCRIPT LOAD` and `EVAL` take.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What `EVALSHA` takes: 40 hex digits.
    pub fn sha1(&self) -> &str {
        &self.sha1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_clock_is_another_script() {
        let (sync, held) = (Script::sync(), Script::with_clock("-- held\n"));
        assert_eq!(sync.sha1().len(), 40);
        assert_ne!(sync.sha1(), held.sha1());
        assert!(held.text().starts_with("-- held\n") && held.text().ends_with(BODY));
        assert!(sync.text().starts_with(CLOCK) && sync.text().ends_with(BODY));
    }
}
