//! What compartments should be, by what was measured of them. It reads no metrics and changes nothing: numbers in, numbers
//! and reasons out. Advice takes nothing away: floors grow only into places that no class has needed, and ceilings and queues never
//! shrink, so that whoever follows it refuses no more of the same traffic.

mod need;
mod sizes;

use std::time::Duration;

use need::Need;
pub use sizes::{Advice, CellUse, ClassAdvice, ClassUse, MIN_SAMPLES, Warning};

/// Fewer places than this are too coarse to stand alone.
const SMALL: u32 = 4;
/// A floor of this many times what is needed lies idle.
const IDLE_FACTOR: u32 = 4;
/// Whoever holds a place for so long keeps nobody at a screen waiting.
const CAN_WAIT: Duration = Duration::from_secs(5);

/// How the cell should be divided, by what was measured of it.
pub fn advise(cell: &CellUse) -> Advice {
    let needs: Vec<_> = cell.classes.iter().map(|class| Need::of(class, cell.observed)).collect();
    let each = || cell.classes.iter().zip(&needs);
    let sum = |places: &[u32]| places.iter().map(|&places| u64::from(places)).sum::<u64>();
    // What each class has been given at once, it can be given again: no floor grows into that.
    let kept: Vec<u32> = each().map(|(class, need)| need.least(class)).collect();
    let wanted: Vec<u32> = each().map(|(class, need)| need.wanted(class)).collect();
    let (places, lacking) = (u64::from(cell.max_in_flight), sum(&wanted) - sum(&kept));
    let room = places.checked_sub(sum(&kept));
    let floor = |at: usize, class: &ClassUse, need: &Need| match room {
        _ if need.too_few => class.floor,
        None => class.floor,
        Some(room) if room >= lacking => wanted[at],
        // At most what is lacking, since the room is less than that.
        Some(room) => kept[at] + (u64::from(wanted[at] - kept[at]) * room / lacking) as u32,
    };
    let classes = each().enumerate().map(|(at, (class, need))| need.advice(class, floor(at, class, need)));
    let classes = classes.collect();
    let mut warnings = Vec::new();
    if sum(&wanted) > places {
        warnings.push(Warning::DoesNotFit { needed: sum(&wanted), cell: cell.max_in_flight });
    }
    warnings.extend(one_alone(cell));
    for (class, need) in each() {
        warn(class, need, &mut warnings);
    }
    Advice { classes, warnings }
}

/// Whether there is nothing to keep apart: by the dependencies where any is told by its cap, and else by the classes.
fn one_alone(cell: &CellUse) -> Option<Warning> {
    let mut busy = cell.classes.iter().filter(|class| class.arrivals > 0);
    let first = busy.next()?;
    match (cell.dependencies.as_slice(), busy.next()) {
        ([], None) => Some(Warning::OneClass { class: first.name.clone() }),
        ([only], _) => Some(Warning::OneDependency { dependency: only.clone() }),
        _ => None,
    }
}

fn warn(class: &ClassUse, need: &Need, warnings: &mut Vec<Warning>) {
    let (name, places) = (|| class.name.clone(), need.places());
    if class.arrivals > 0 && need.too_few {
        warnings.push(Warning::FewSamples { class: name(), holds: class.holds });
    }
    if class.arrivals > 0 && places < SMALL {
        warnings.push(Warning::TooSmall { class: name(), places });
    }
    if class.floor > places.saturating_mul(IDLE_FACTOR) {
        let (floor, peak_used) = (class.floor, class.peak_used);
        warnings.push(Warning::Idle { class: name(), floor, peak_used });
    }
    if class.p99_hold >= CAN_WAIT {
        warnings.push(Warning::CanWait { class: name(), p99_hold: class.p99_hold });
    }
}

#[cfg(test)]
mod tests;
