//! Erlang's loss formula: how often all places are taken, where nobody waits. It is for arrivals that come at random, and
//! holds for any distribution of hold times with the same mean. (A. K. Erlang, "Solution of some Problems in the Theory of
//! Probabilities of Significance in Automatic Telephone Exchanges", 1917.)

/// The most places that are looked through.
const MAX_PLACES: u32 = 1_000_000;

/// The share of arrivals that find all of `places` taken, in 0..=1. `offered` is the load in places: the arrivals in a
/// second by the mean hold time in seconds. Nothing offered is never lost; what is no number is taken for nothing.
///
/// ```
/// use cofferdam_bulkhead::{loss, places_for};
///
/// // 40 calls in a second, which take 100 ms on average, on five places: one in five is refused, though nothing is wrong.
/// assert!((loss(5, 4.0) - 0.199).abs() < 0.001);
/// // One in a hundred takes ten.
/// assert_eq!(places_for(4.0, 0.01), Some(10));
/// ```
pub fn loss(places: u32, offered: f64) -> f64 {
    losses(offered).nth(places as usize).unwrap_or(0.0)
}

/// The fewest places with a loss of at most `max_loss`; `None` where a million do not suffice.
pub fn places_for(offered: f64, max_loss: f64) -> Option<u32> {
    (0..=MAX_PLACES).zip(losses(offered)).find(|(_, loss)| *loss <= max_loss).map(|(places, _)| places)
}

/// The loss with 0, 1, 2 and more places: each follows from the one before.
fn losses(offered: f64) -> impl Iterator<Item = f64> {
    let offered = if offered.is_finite() { offered.max(0.0) } else { 0.0 };
    let first = if offered == 0.0 { 0.0 } else { 1.0 };
    let next = move |(places, loss): &(u32, f64)| {
        let (places, carried) = (places + 1, offered * loss);
        Some((places, carried / (f64::from(places) + carried)))
    };
    std::iter::successors(Some((0, first)), next).map(|(_, loss)| loss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_in_five_places_are_refused_about_once_in_five() {
        // P6
        assert!((loss(5, 4.0) - 0.199_07).abs() < 0.000_005, "{}", loss(5, 4.0));
    }

    #[test]
    fn the_places_for_a_loss_of_one_in_a_hundred_and_in_a_thousand() {
        let hundredth = [(1.0, 5), (2.0, 7), (4.0, 10), (10.0, 18), (20.0, 30), (50.0, 64), (100.0, 117)];
        for (offered, places) in hundredth {
            assert_eq!(places_for(offered, 0.01), Some(places), "{offered}");
        }
        for (offered, places) in [(4.0, 12), (20.0, 35)] {
            assert_eq!(places_for(offered, 0.001), Some(places), "{offered}");
        }
    }

    #[test]
    fn nothing_offered_needs_no_place() {
        for nothing in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!((loss(0, nothing), places_for(nothing, 0.0)), (0.0, Some(0)));
        }
        assert_eq!(loss(0, 0.001), 1.0);
        assert_eq!(places_for(2e6, 0.01), None);
    }
}
