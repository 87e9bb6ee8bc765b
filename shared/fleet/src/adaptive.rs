//! A class's `adaptive`: its ceiling follows the latency that is measured, between its floor and the ceiling that the file says.

use crate::node::Node;

/// The bounds of a tolerance, in thousandths.
const TOLERANCES: std::ops::RangeInclusive<u32> = 1_050..=10_000;

/// How a ceiling follows the latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdaptiveRules {
    /// How much longer than without load an answer may take before the ceiling falls, in thousandths; 1500 by default, which
    /// is half as long again.
    pub tolerance_thousandths: u32,
}

impl Default for AdaptiveRules {
    fn default() -> Self {
        Self { tolerance_thousandths: 1_500 }
    }
}

impl AdaptiveRules {
    pub(crate) fn read(node: &Node<'_>) -> Self {
        let fields = node.fields(&["tolerance"]);
        let tolerance = fields.get("tolerance").and_then(|node| {
            node.read("a factor such as 1.5", |text| {
                let thousandths = text.parse::<f64>().map(|factor| (factor * 1000.0).round() as u32);
                match thousandths {
                    Ok(thousandths) if TOLERANCES.contains(&thousandths) => Ok(thousandths),
                    Ok(_) => Err(format!("{text} is outside 1.05 to 10")),
                    Err(_) => Err(format!("{text:?} is no factor")),
                }
            })
        });
        tolerance.map_or_else(Self::default, |tolerance_thousandths| Self { tolerance_thousandths })
    }
}
