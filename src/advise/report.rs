//! The advice as a user reads it: a table, reasons, warnings, and a part of a fleet file to paste.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use cofferdam_bulkhead::{Advice, CellUse, ClassAdvice, ClassUse, MIN_SAMPLES, Warning};

/// What was measured, and what is advised.
pub(super) struct Report<'a> {
    pub(super) cell: &'a CellUse,
    pub(super) advice: &'a Advice,
    /// By class, where the ceiling follows the latency: the tolerance, which is no matter of size.
    pub(super) adaptive: &'a BTreeMap<&'a str, f64>,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cell, advice, .. } = self;
        writeln!(f, "Measured for {}, in a cell of {} places:\n", brief(cell.observed), cell.max_in_flight)?;
        let width = cell.classes.iter().map(|class| class.name.as_str().len()).max().unwrap_or(0).max(5);
        writeln!(
            f,
            "{:width$}  {:>10} {:>10} {:>8} {:>9} {:>9} {:>9} {:>5} {:>8}",
            "class", "arrivals", "demand", "peak/s", "mean hold", "p99 hold", "slowest", "peak", "refused"
        )?;
        for class in &cell.classes {
            writeln!(
                f,
                "{:width$}  {:>10} {:>10} {:>8} {:>9} {:>9} {:>9} {:>5} {:>8}",
                class.name.as_str(),
                class.arrivals,
                class.demand,
                class.peak_per_second,
                measured(class.mean_hold),
                measured(class.p99_hold),
                measured(class.slowest_hold),
                class.peak_used,
                class.refused_by_share + class.refused_for_room
            )?;
        }
        writeln!(f, "\nAdvice:\n")?;
        for (class, advised) in cell.classes.iter().zip(&advice.classes) {
            advise(f, class, advised)?;
        }
        if !advice.warnings.is_empty() {
            writeln!(f)?;
        }
        for warning in &advice.warnings {
            writeln!(f, "warning: {}", text(warning))?;
        }
        self.fragment(f)
    }
}

fn advise(f: &mut fmt::Formatter<'_>, class: &ClassUse, advised: &ClassAdvice) -> fmt::Result {
    let ClassAdvice { name, floor, ceiling, queue, by_littles_law, by_erlang, by_peak, .. } = advised;
    writeln!(
        f,
        "{name}: floor {} -> {floor}, ceiling {} -> {ceiling}, queue {} -> {queue}",
        class.floor, class.ceiling, class.queue
    )?;
    if advised.too_few {
        writeln!(f, "  kept as it is: {} holds are fewer than {MIN_SAMPLES}", class.holds)?;
    } else {
        let slow = class.p99_hold.max(class.slowest_hold);
        let (rate, slow) = (class.peak_per_second, brief(slow));
        writeln!(
            f,
            "  needs: {by_littles_law} by Little's law ({rate}/s x {slow} x 1.3), {by_erlang} for a loss of 1 % (Erlang), \
             {by_peak} for the peak and one more"
        )?;
        writeln!(f, "  {}", grows(class, advised))?;
    }
    refused(f, class, advised)
}

/// What changes of the class, and why no more does.
fn grows(class: &ClassUse, advised: &ClassAdvice) -> String {
    let mut grows = Vec::new();
    if advised.floor > class.floor {
        grows.push("floor: what it needs, as far as no other class has needed the places".to_owned());
    }
    if advised.ceiling > class.ceiling {
        grows.push("ceiling: the floor".to_owned());
    }
    if advised.queue > class.queue {
        grows.push(match advised.queue == advised.floor / 2 {
            true => "queue: half of the places".to_owned(),
            false => format!("queue: what gets a place within {}", exact(advised.max_wait)),
        });
    }
    if grows.is_empty() { "nothing grows, and nothing is ever lowered".to_owned() } else { grows.join("; ") }
}

/// The requests of those seen that were refused, and that would have been.
fn refused(f: &mut fmt::Formatter<'_>, class: &ClassUse, advised: &ClassAdvice) -> fmt::Result {
    let (share, room) = (class.refused_by_share, class.refused_for_room);
    if share + room == 0 {
        return writeln!(f, "  refused: none of {} requests; with these sizes none either", class.arrivals);
    }
    writeln!(
        f,
        "  refused: of {} requests {share} beyond a tenant's share and {room} for want of a place; with these sizes \
         {share} and about {}",
        class.arrivals, advised.refused_for_room
    )
}

fn text(warning: &Warning) -> String {
    match warning {
        Warning::FewSamples { class, holds } => {
            format!("{class}: {holds} holds are too few to advise anything; measure for longer")
        }
        Warning::TooSmall { class, places } => {
            format!("{class}: {places} places are too few to stand alone; make it a part of another class")
        }
        Warning::OneClass { class } => {
            format!("{class} alone has traffic: with one dependency there is nothing to keep apart")
        }
        Warning::OneDependency { dependency } => format!(
            "{dependency} alone has a cap of its own: with one dependency there is nothing to keep apart"
        ),
        Warning::Idle { class, floor, peak_used } => {
            format!("{class}: of {floor} places that are kept for it, {peak_used} were held at most")
        }
        Warning::CanWait { class, p99_hold } => format!(
            "{class} holds a place for up to {}: work that can wait belongs in a queue of jobs",
            brief(*p99_hold)
        ),
        Warning::DoesNotFit { needed, cell } => format!(
            "{needed} places are needed and the cell has {cell}: no floor grows into what another class has needed; add \
             places, or cells"
        ),
    }
}

impl Report<'_> {
    fn fragment(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cell, advice, adaptive } = self;
        writeln!(f, "\nFor the fleet file:\n")?;
        writeln!(f, "# Keep each class's timeout and fallback: an agent's metrics do not show them.")?;
        writeln!(f, "cell:\n  max_in_flight: {}\n  classes:", cell.max_in_flight)?;
        for (class, advised) in cell.classes.iter().zip(&advice.classes) {
            let ClassAdvice { name, floor, ceiling, queue, max_wait, .. } = advised;
            write!(
                f,
                "    {name}: {{ priority: {}, floor: {floor}, ceiling: {ceiling}, queue: {queue}",
                class.priority
            )?;
            if *queue > 0 {
                write!(f, ", max_wait: {}", exact(*max_wait))?;
            }
            if let Some(tolerance) = adaptive.get(name.as_str()) {
                write!(f, ", adaptive: {{ tolerance: {tolerance} }}")?;
            }
            writeln!(f, " }}")?;
        }
        Ok(())
    }
}

/// A time that was measured; nothing where none was.
fn measured(time: Duration) -> String {
    if time.is_zero() { "-".to_owned() } else { brief(time) }
}

/// A setting as a fleet file has it: a whole number of the largest unit that says it exactly.
fn exact(time: Duration) -> String {
    let us = time.as_micros();
    match (us % 1_000_000, us % 1_000) {
        (0, _) => format!("{}s", us / 1_000_000),
        (_, 0) => format!("{}ms", us / 1_000),
        _ => format!("{us}us"),
    }
}

/// A time in one unit, with two or three digits.
fn brief(time: Duration) -> String {
    let us = time.as_micros();
    match us {
        0..1_000 => format!("{us}us"),
        1_000..10_000 => format!("{:.1}ms", us as f64 / 1e3).replace(".0ms", "ms"),
        10_000..1_000_000 => format!("{}ms", us / 1_000),
        1_000_000..100_000_000 => format!("{:.1}s", us as f64 / 1e6).replace(".0s", "s"),
        _ => format!("{}s", us / 1_000_000),
    }
}
