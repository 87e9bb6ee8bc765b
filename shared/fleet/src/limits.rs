//! `ceiling` and `limits`: what the whole fleet may take, and how limits behave.

use std::str::FromStr;

use cofferdam_model::OnStoreFailure;

use crate::node::Fields;
use crate::plans::{read_bucket, read_max_in_flight};
use crate::scalars::{Scalar, scalar};
use crate::{Bucket, Share};

/// The most routers that one fleet's limits are shared by.
const MAX_ROUTERS: u32 = 10_000;

/// How a limit is shared by routers that have a store in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LimitMode {
    /// The store is asked for every request: nothing beyond a limit passes.
    Exact,
    /// Routers take blocks and spend them from memory.
    Lease,
    /// Exact where a limit is so small that blocks would be unfair, by blocks where it is not.
    #[default]
    Auto,
    /// Nothing is limited, whatever plans, routes and the ceiling say, and answers name no limits.
    Off,
}

/// Why text is no mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not exact, lease, auto or off")]
pub struct LimitModeError(String);

/// The whole fleet's limits; what is absent is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ceiling {
    /// How fast all tenants together may send.
    pub bucket: Option<Bucket>,
    /// How many requests all tenants together may have in flight, at least 1.
    pub max_in_flight: Option<u32>,
    /// Whether the ceiling only counts what it would refuse.
    pub shadow: bool,
}

/// How limits behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRules {
    /// How routers share what a store keeps; auto by default.
    pub mode: LimitMode,
    /// How many routers share the limits, for what each may use while the store is away; by default as many as were last
    /// seen.
    pub routers: Option<u32>,
    /// What decides where the store is away, unless a plan or a route says otherwise; local by default.
    pub on_store_failure: OnStoreFailure,
    /// Whether every limit only counts what it would refuse.
    pub shadow: bool,
    /// Whether answers have the three older RateLimit fields beside the draft's two; true by default.
    pub older_fields: bool,
    /// The share of a wait that is added to it at random, so that the refused do not come back together; 0.1 by
    /// default.
    pub jitter: Share,
    /// The bound of a router's table of tenants; 100,000 by default.
    pub max_tenants: u32,
}

impl Default for LimitRules {
    fn default() -> Self {
        Self {
            mode: LimitMode::default(),
            routers: None,
            on_store_failure: OnStoreFailure::default(),
            shadow: false,
            older_fields: true,
            jitter: Share::from_millionths(100_000),
            max_tenants: 100_000,
        }
    }
}

impl Ceiling {
    pub(crate) fn read(root: &Fields<'_>) -> Self {
        let Some(section) = root.get("ceiling") else { return Self::default() };
        let fields = section.fields(&["sustained", "burst", "max_in_flight", "shadow"]);
        // Half a bucket limits nothing.
        for (has, lacks) in [("sustained", "burst"), ("burst", "sustained")] {
            if let (Some(node), None) = (fields.get(has), fields.get(lacks)) {
                node.mark.refuse(format_args!("{has} needs {lacks} beside it"));
            }
        }
        let shadow = fields.scalar("shadow").unwrap_or_default();
        Self { bucket: read_bucket(&fields), max_in_flight: read_max_in_flight(&fields), shadow }
    }
}

impl LimitRules {
    pub(crate) fn read(root: &Fields<'_>) -> Self {
        let default = Self::default();
        let Some(section) = root.get("limits") else { return default };
        let fields = section.fields(&[
            "mode",
            "routers",
            "on_store_failure",
            "jitter",
            "shadow",
            "max_tenants",
            "older_fields",
        ]);
        Self {
            mode: fields.scalar("mode").unwrap_or(default.mode),
            routers: fields.get("routers").and_then(|node| node.whole_u32(1..=MAX_ROUTERS)),
            on_store_failure: fields.scalar("on_store_failure").unwrap_or(default.on_store_failure),
            shadow: fields.scalar("shadow").unwrap_or(default.shadow),
            older_fields: fields.scalar("older_fields").unwrap_or(default.older_fields),
            jitter: fields.scalar("jitter").unwrap_or(default.jitter),
            max_tenants: fields.whole_u32_or("max_tenants", 1..=10_000_000, default.max_tenants),
        }
    }
}

scalar! {
    LimitMode, LimitMode::from_str, "exact, lease, auto or off";
}

impl LimitMode {
    /// The mode as the file writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Lease => "lease",
            Self::Auto => "auto",
            Self::Off => "off",
        }
    }
}

impl FromStr for LimitMode {
    type Err = LimitModeError;

    fn from_str(text: &str) -> Result<Self, LimitModeError> {
        match text {
            "exact" => Ok(Self::Exact),
            "lease" => Ok(Self::Lease),
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => Err(LimitModeError(text.to_owned())),
        }
    }
}
