//! `ceiling` and `limits`: what the whole fleet may take, and how limits behave.

use crate::node::Fields;
use crate::plans::{read_bucket, read_max_in_flight};
use crate::{Bucket, Share};

/// The whole fleet's limits; what is absent is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ceiling {
    /// How fast all tenants together may send.
    pub bucket: Option<Bucket>,
    /// How many requests all tenants together may have in flight, at least 1.
    pub max_in_flight: Option<u32>,
}

/// How limits behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRules {
    /// The share of a wait that is added to it at random, so that the refused do not come back together; 0.1 by
    /// default.
    pub jitter: Share,
    /// The bound of a router's table of tenants; 100,000 by default.
    pub max_tenants: u32,
}

impl Default for LimitRules {
    fn default() -> Self {
        Self { jitter: Share::from_millionths(100_000), max_tenants: 100_000 }
    }
}

impl Ceiling {
    pub(crate) fn read(root: &Fields<'_>) -> Self {
        let Some(section) = root.get("ceiling") else { return Self::default() };
        let fields = section.fields(&["sustained", "burst", "max_in_flight"]);
        // Half a bucket limits nothing.
        for (has, lacks) in [("sustained", "burst"), ("burst", "sustained")] {
            if let (Some(node), None) = (fields.get(has), fields.get(lacks)) {
                node.mark.refuse(format_args!("{has} needs {lacks} beside it"));
            }
        }
        Self { bucket: read_bucket(&fields), max_in_flight: read_max_in_flight(&fields) }
    }
}

impl LimitRules {
    pub(crate) fn read(root: &Fields<'_>) -> Self {
        let default = Self::default();
        let Some(section) = root.get("limits") else { return default };
        let fields = section.fields(&["jitter", "max_tenants"]);
        Self {
            jitter: fields.scalar("jitter").unwrap_or(default.jitter),
            max_tenants: fields.whole_u32_or("max_tenants", 1..=10_000_000, default.max_tenants),
        }
    }
}
