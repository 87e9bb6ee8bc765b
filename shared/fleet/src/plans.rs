//! `plans`: what tenants have bought. Which tenant has which plan is in `tenant.rs`.

use cofferdam_model::{OnStoreFailure, PlanName, Rate};

use crate::Quota;
use crate::cells::Cells;
use crate::nearest::did_you_mean;
use crate::node::{Entry, Fields, Mark};

/// The word that stands for no plan at all in `tenant.unknown`, and so is no plan's name.
pub(crate) const REFUSE: &str = "refuse";

/// The most plans that a fleet may have.
const MAX_PLANS: usize = 1024;

/// The largest burst: as many tokens as a rate may have.
pub const MAX_BURST: u64 = 1_000_000_000;

/// The most requests that a plan or a ceiling may allow in flight.
pub const MAX_IN_FLIGHT: u32 = 1_000_000_000;

/// The largest weight of a plan.
const MAX_WEIGHT: u32 = 1000;

/// A store keeps a bucket's level as a whole number in a double.
const MAX_LEVEL: u64 = 1 << 53;

/// A plan's place in [`crate::Fleet::plans`]. It is meaningful within one snapshot only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlanIndex(pub u16);

/// A token bucket: how fast, and how much at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// How fast it refills.
    pub sustained: Rate,
    /// Its capacity in tokens, at least 1. Capacity times the rate's period in microseconds is at most 2^53.
    pub burst: u64,
}

/// One plan's limits, each for one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The plan's name.
    pub name: PlanName,
    /// How fast a tenant may send.
    pub bucket: Bucket,
    /// How many requests a tenant may have in flight, at least 1.
    pub max_in_flight: u32,
    /// How much a tenant may spend in a long time: at most two, the shortest window first.
    pub quotas: Vec<Quota>,
    /// A tenant's part of what comes free in a full cell, beside other tenants' that wait too: 1 to 1000, 1 by default.
    pub weight: u32,
    /// What decides where the store is away; what [`crate::LimitRules`] says unless the plan says otherwise.
    pub on_store_failure: Option<OnStoreFailure>,
    /// Whether the plan only counts what it would refuse.
    pub shadow: bool,
    /// How many cells its tenants have; what [`crate::PlacementRules`] says unless the plan says otherwise.
    pub shard_size: Option<u16>,
}

/// The plans as far as they could be read, sorted by name.
pub(crate) struct Plans {
    pub(crate) sorted: Vec<Plan>,
    /// The plan of tenants that the file says nothing of, where the file has no plans of its own.
    pub(crate) default_plan: Option<PlanIndex>,
}

impl PlanIndex {
    /// The index as a `usize`, for slices.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl Plan {
    /// `default`, the one plan of a file that has none: 1,000 a second, a burst of 2,000, and 200 in flight.
    fn default_plan() -> Option<Self> {
        let bucket = Bucket { sustained: Rate::per_second(1000)?, burst: 2000 };
        Some(Self::new(PlanName::parse("default").ok()?, bucket, 200))
    }

    /// Whether this is the plan of a file without plans.
    pub fn is_built_in(&self) -> bool {
        Self::default_plan().as_ref() == Some(self)
    }

    fn new(name: PlanName, bucket: Bucket, max_in_flight: u32) -> Self {
        Self {
            name,
            bucket,
            max_in_flight,
            quotas: Vec::new(),
            weight: 1,
            on_store_failure: None,
            shadow: false,
            shard_size: None,
        }
    }

    fn read(entry: &Entry<'_>, cells: &Cells<'_>) -> Option<Self> {
        const KEYS: [&str; 8] = [
            "sustained",
            "burst",
            "max_in_flight",
            "quota",
            "weight",
            "on_store_failure",
            "shadow",
            "shard_size",
        ];
        let name = entry.key();
        let fields = entry.value.fields(&KEYS);
        let (bucket, max_in_flight) = (read_bucket(&fields), read_max_in_flight(&fields));
        for key in &KEYS[..3] {
            fields.required(key, "all of sustained, burst and max_in_flight");
        }
        // A plan that could not be read keeps its name, so that those who name it are not at fault as well.
        let other = Self::default_plan()?;
        let (bucket, max_in_flight) =
            (bucket.unwrap_or(other.bucket), max_in_flight.unwrap_or(other.max_in_flight));
        let mut plan = Self::new(name?, bucket, max_in_flight);
        plan.quotas = fields.get("quota").map(Quota::read_all).unwrap_or_default();
        plan.weight = fields.whole_u32_or("weight", 1..=MAX_WEIGHT, plan.weight);
        plan.on_store_failure = fields.scalar("on_store_failure");
        plan.shadow = fields.scalar("shadow").unwrap_or_default();
        plan.shard_size = fields.get("shard_size").and_then(|node| cells.read_shard_size(node));
        Some(plan)
    }
}

impl Plans {
    pub(crate) fn read(root: &Fields<'_>, cells: &Cells<'_>) -> Self {
        let Some(section) = root.get("plans") else {
            return Self {
                sorted: Plan::default_plan().into_iter().collect(),
                default_plan: Some(PlanIndex(0)),
            };
        };
        let entries = section.entries("a map from plans to their limits");
        if entries.is_empty() {
            section.mark.refuse("a file with plans needs at least one");
        }
        if entries.len() > MAX_PLANS {
            section.mark.refuse(format_args!("{} plans exceed {MAX_PLANS}", entries.len()));
        }
        let mut sorted = Vec::with_capacity(entries.len());
        for entry in entries {
            if entry.name == REFUSE {
                entry.mark.refuse("`refuse` cannot name a plan: it stands for none in tenant.unknown");
            }
            sorted.extend(Plan::read(&entry, cells));
        }
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        Self { sorted, default_plan: None }
    }

    /// Finds a plan by the name that another section gives it.
    pub(crate) fn resolve(&self, name: &str) -> Result<PlanIndex, String> {
        let found = self.sorted.binary_search_by(|plan| plan.name.as_str().cmp(name)).ok();
        found.and_then(|at| u16::try_from(at).ok()).map(PlanIndex).ok_or_else(|| {
            let nearest = did_you_mean(name, self.sorted.iter().map(|plan| plan.name.as_str()));
            format!("plan {name:?} is not defined{nearest}")
        })
    }
}

/// Reads `sustained` and `burst`, where both are there.
pub(crate) fn read_bucket(fields: &Fields<'_>) -> Option<Bucket> {
    let sustained: Option<Rate> = fields.scalar("sustained");
    let burst = fields.get("burst").and_then(|node| node.whole(1..=MAX_BURST));
    let bucket = Bucket { sustained: sustained?, burst: burst? };
    check_level(bucket, &fields.mark_of("burst"));
    Some(bucket)
}

fn check_level(bucket: Bucket, mark: &Mark<'_>) {
    let Bucket { sustained, burst } = bucket;
    let largest = MAX_LEVEL / sustained.period_us();
    if burst > largest {
        mark.refuse(format_args!(
            "burst {burst} is too large to be counted exactly at {sustained}: at most {largest}"
        ));
    }
}

/// Reads `max_in_flight`, where it is there.
pub(crate) fn read_max_in_flight(fields: &Fields<'_>) -> Option<u32> {
    fields.get("max_in_flight")?.whole_u32(1..=MAX_IN_FLIGHT)
}
