//! What is said of tenants' cells, fitted to one snapshot: what placing looks at. It has the snapshot itself, since an index of a
//! cell means something in one alone.

use std::collections::HashMap;
use std::sync::Arc;

use cofferdam_model::{CellId, Shard, TenantId};
use cofferdam_placement::{Placed, Reason};

use super::super::clock::StoreClock;
use super::super::said::{self, Said};
use super::fit::{self, Placing};
use super::record::Record;
use super::standing::Standing;
use super::wards::Wards;
use super::word::Word;
use crate::snapshot::Snapshot;

/// Where tenants are: by the snapshot's table, and by what is said of single ones.
#[derive(Debug)]
pub(crate) struct Fitted {
    pub(crate) snapshot: Arc<Snapshot>,
    by_tenant: HashMap<TenantId, OfTenant>,
    left_out: Vec<Misfit>,
    /// The same, of who is kept apart on other cells.
    instead: Vec<Misfit>,
    clock: Arc<StoreClock>,
}

/// Of whom something is said that does not fit the fleet file, why, and until when it is said.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Misfit {
    tenant: String,
    why: String,
    until_ms: u64,
}

/// What is said of one tenant.
#[derive(Debug)]
struct OfTenant {
    said: Record,
    quarantine: Option<Fit>,
    pin: Option<Fit>,
}

/// The cells of a word, or why the fleet file has none for it.
type Fit = Result<Placing, String>;

impl Fitted {
    /// Fits what is said, by tenant. What the fleet file has no cells for is told, and left out where nothing stands in for them.
    pub(super) fn new<'s>(
        said: &'s HashMap<String, Record>,
        snapshot: &Arc<Snapshot>,
        clock: &Arc<StoreClock>,
    ) -> Self {
        let now_ms = clock.now_ms();
        let (mut by_tenant, mut left_out, mut instead) = (HashMap::new(), Vec::new(), Vec::new());
        let quarantined = said.values().filter_map(|said| said.quarantine.as_ref());
        let wards = Wards::new(snapshot, quarantined.filter(|word| word.is_live(now_ms)));
        for (name, said) in said.iter().filter(|(_, said)| !said.is_over(now_ms)) {
            let tenant = match TenantId::parse(name.as_bytes(), &snapshot.fleet.tenant.alphabet) {
                Ok(tenant) => tenant,
                Err(error) => {
                    let (tenant, until_ms) = (name.clone(), said.until_ms());
                    left_out.push(Misfit { tenant, why: error.to_string(), until_ms });
                    continue;
                }
            };
            let live = |word: &'s Option<Word>| word.as_ref().filter(|word| word.is_live(now_ms));
            let mut tell = |word: &Word, fit: Fit| {
                let told = match &fit {
                    Ok(Placing { instead: None, .. }) => None,
                    Ok(Placing { instead: Some(why), .. }) => Some((&mut instead, why)),
                    Err(why) => Some((&mut left_out, why)),
                };
                if let Some((list, why)) = told {
                    tracing::warn!(%tenant, %why, "an override of placement does not fit the fleet file");
                    let (tenant, why) = (name.clone(), why.clone());
                    list.push(Misfit { tenant, why, until_ms: word.until_ms });
                }
                fit
            };
            let had = said.touched_at(now_ms);
            let quarantine = live(&said.quarantine)
                .map(|word| tell(word, fit::quarantine(&tenant, word, snapshot, &wards, &had)));
            let pin = live(&said.pin).map(|word| tell(word, fit::pin(&tenant, word, snapshot, now_ms)));
            by_tenant.insert(tenant, OfTenant { said: said.clone(), quarantine, pin });
        }
        left_out.sort();
        instead.sort();
        Self { snapshot: Arc::clone(snapshot), by_tenant, left_out, instead, clock: Arc::clone(clock) }
    }

    /// The tenant's cells: a quarantine comes before a pin, and what was said while routers run before what the file says; both
    /// come before the table.
    #[inline]
    pub(crate) fn place(&self, tenant: &TenantId) -> Placed<'_> {
        let by_file = self.snapshot.place(tenant);
        if self.by_tenant.is_empty() {
            return by_file;
        }
        self.by_tenant.get(tenant).and_then(|of| of.place(by_file, self.clock.now_ms())).unwrap_or(by_file)
    }

    /// What is said of the tenant, whether it binds or not.
    pub(crate) fn said(&self, tenant: &TenantId) -> Option<&Record> {
        self.by_tenant.get(tenant).map(|of| &of.said).filter(|said| !said.is_over(self.clock.now_ms()))
    }

    /// How what is said of the tenant stands at that time: its quarantine, or its pin.
    pub(crate) fn standing(&self, of: Reason, tenant: &TenantId, now_ms: u64) -> Standing {
        let by_file = self.snapshot.place(tenant).reason;
        let of_tenant = self.by_tenant.get(tenant).map(|it| it.standing(of, by_file, now_ms));
        of_tenant.unwrap_or_else(|| Standing::Idle("nothing is said of the tenant".to_owned()))
    }

    /// Everybody of whom something is said, sorted.
    pub(crate) fn all(&self) -> Vec<(&TenantId, &Record)> {
        let now_ms = self.clock.now_ms();
        let all = self.by_tenant.iter().map(|(tenant, of)| (tenant, &of.said));
        let mut all: Vec<_> = all.filter(|(_, said)| !said.is_over(now_ms)).collect();
        all.sort_by_key(|(tenant, _)| **tenant);
        all
    }

    /// Of whom something is said that does not fit the fleet file, and why.
    pub(crate) fn left_out(&self) -> Vec<(&str, &str)> {
        self.still(&self.left_out)
    }

    /// Who is kept apart on other cells than was said, since the fleet file has not all of those for it any more, and why.
    pub(crate) fn instead(&self) -> Vec<(&str, &str)> {
        self.still(&self.instead)
    }

    /// Who is kept apart on other cells than was said, and on which of them it is not yet known to have come.
    pub(super) fn uncounted(&self) -> Vec<(TenantId, Vec<CellId>)> {
        let now_ms = self.clock.now_ms();
        let of_tenant = |(tenant, of): (&TenantId, &OfTenant)| {
            let placing = live(&of.quarantine, now_ms).filter(|it| it.instead.is_some())?;
            let (had, said) = (of.said.touched_at(now_ms), of.said.quarantine.as_ref()?);
            let is_counted = |id: &CellId| [&had, &said.to].into_iter().flatten().any(|it| it == id.as_str());
            let cells = self.snapshot.ids(Shard::new(&placing.shard)).filter(|id| !is_counted(id)).cloned();
            Some((*tenant, cells.collect::<Vec<_>>())).filter(|(_, cells)| !cells.is_empty())
        };
        self.by_tenant.iter().filter_map(of_tenant).collect()
    }

    /// Those that have not ended.
    fn still<'a>(&self, misfits: &'a [Misfit]) -> Vec<(&'a str, &'a str)> {
        let now_ms = self.clock.now_ms();
        let live = misfits.iter().filter(|it| now_ms < it.until_ms);
        live.map(|it| (it.tenant.as_str(), it.why.as_str())).collect()
    }

    /// The time by which ends are judged, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }
}

impl OfTenant {
    fn place<'a>(&'a self, by_file: Placed<'a>, now_ms: u64) -> Option<Placed<'a>> {
        let (placing, reason) = match (live(&self.quarantine, now_ms), live(&self.pin, now_ms)) {
            (Some(quarantine), _) => (quarantine, Reason::Quarantine),
            (None, Some(pin)) if by_file.reason != Reason::Quarantine => (pin, Reason::Pin),
            _ => return None,
        };
        Some(Placed { slot: by_file.slot, shard: Shard::new(&placing.shard), reason })
    }

    /// By the rules that [`place`](Self::place) goes by.
    fn standing(&self, of: Reason, by_file: Reason, now_ms: u64) -> Standing {
        let is_quarantine = of == Reason::Quarantine;
        let fit = if is_quarantine { &self.quarantine } else { &self.pin };
        let idle = |why: &str| Standing::Idle(why.to_owned());
        match (fit, live(fit, now_ms)) {
            (Some(Err(why)), _) => Standing::Idle(why.clone()),
            (_, None) => idle("its time is over, or that of a cell of it that drains"),
            _ if !is_quarantine && live(&self.quarantine, now_ms).is_some() => {
                idle("the operator's quarantine comes before it")
            }
            _ if !is_quarantine && by_file == Reason::Quarantine => {
                idle("the fleet file's quarantine comes before it")
            }
            (_, Some(Placing { instead: Some(why), .. })) => Standing::BindsElsewhere(why.clone()),
            _ => Standing::Binds,
        }
    }
}

fn live(fit: &Option<Fit>, now_ms: u64) -> Option<&Placing> {
    fit.as_ref()?.as_ref().ok().filter(|placing| now_ms < placing.until_ms)
}

impl said::Fitted for Fitted {
    fn n_binding(&self) -> usize {
        let now_ms = self.clock.now_ms();
        let binds =
            |(tenant, of): &(&TenantId, &OfTenant)| of.place(self.snapshot.place(tenant), now_ms).is_some();
        self.by_tenant.iter().filter(binds).count()
    }

    fn n_left_out(&self) -> usize {
        self.left_out().len()
    }
}
