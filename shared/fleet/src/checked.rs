//! A fleet that can be used: every value checked, every name resolved, every default filled in.

use std::path::Path;

use cofferdam_model::{FleetName, Revision, TenantId};
use http::{HeaderName, Method};

use crate::cells::Cells;
use crate::node::{self, Findings, Node};
use crate::plans::Plans;
use crate::{
    Affinity, Ceiling, Cell, CellRules, Edge, FleetError, HealthRules, LimitRules, PlacementRules, Plan,
    PlanIndex, Problem, RetryBudget, Route, Routes, SourceKind, TenantRules, tenant, written,
};

/// The words that a file's outermost map may have.
const KEYS: [&str; 14] = [
    "fleet",
    "revision",
    "cells",
    "placement",
    "tenant",
    "edge",
    "plans",
    "ceiling",
    "limits",
    "routes",
    "retry_budget",
    "poison_guard",
    "health",
    "cell",
];

/// The largest fleet file that is read.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// A fleet, and what is odd about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The fleet.
    pub fleet: Fleet,
    /// What works but is probably not meant, in the file's order.
    pub warnings: Vec<Problem>,
    /// How many more there are.
    pub more_warnings: usize,
}

/// The facts that routers and agents share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleet {
    /// The fleet's name.
    pub name: FleetName,
    /// The file's revision, which only grows; 1 by default.
    pub revision: Revision,
    /// The cells, sorted by id.
    pub cells: Vec<Cell>,
    /// What placement is built from.
    pub placement: PlacementRules,
    /// Whose requests there are.
    pub tenant: TenantRules,
    /// What is done with fields of requests.
    pub edge: Edge,
    /// The plans, sorted by name.
    pub plans: Vec<Plan>,
    /// What the whole fleet may take.
    pub ceiling: Ceiling,
    /// How limits behave.
    pub limits: LimitRules,
    /// Which class a request belongs to, and what it costs.
    pub routes: Routes,
    /// How much may be tried again.
    pub retry_budget: RetryBudget,
    /// Whether a tenant that had requests in flight at two losses of cells is sent to its home cell alone for a while; true
    /// by default.
    pub poison_guard: bool,
    /// When a cell is believed down, and what becomes of one that returns.
    pub health: HealthRules,
    /// What one cell can do.
    pub cell: CellRules,
}

impl Fleet {
    /// Reads and checks a fleet file.
    ///
    /// # Errors
    /// The file cannot be read, or has problems: all of them are in the error.
    pub fn load(path: &Path) -> Result<Loaded, FleetError> {
        let text = cofferdam_files::read_text(path, MAX_FILE_BYTES);
        let text = text.map_err(|error| FleetError::Read { path: path.to_owned(), error: error.into() })?;
        check(&text, path.parent().unwrap_or(Path::new("")))
            .map_err(|(problems, more)| in_file(path, problems, more))
    }

    /// Checks the text of a fleet file; a `seed_file` is looked for in `base_dir`.
    ///
    /// # Errors
    /// The text has problems: all of them are in the error, under the name `fleet`.
    pub fn parse(text: &str, base_dir: &Path) -> Result<Loaded, FleetError> {
        check(text, base_dir).map_err(|(problems, more)| in_file(Path::new("fleet"), problems, more))
    }

    /// How many cells a tenant of `plan` has; those of no plan have as many as `placement.shard_size` says.
    pub fn shard_size(&self, plan: Option<PlanIndex>) -> u16 {
        plan.and_then(|plan| self.plans[plan.get()].shard_size).unwrap_or(self.placement.shard_size)
    }

    /// The route of a request; the path and the query are taken as they came.
    pub fn classify(&self, method: &Method, path: &str, query: Option<&str>) -> &Route {
        &self.routes.as_slice()[self.routes.classify(method, path, query).get()]
    }

    /// The fields by which requests are identified: those that name a tenant, and the one that marks a cell.
    pub fn identifying_fields(&self) -> impl Iterator<Item = HeaderName> {
        let tenants = self.tenant.sources.iter().filter_map(|source| match &source.kind {
            SourceKind::Header { name, .. } => Some(name.clone()),
            SourceKind::Host(_) | SourceKind::Path(_) => None,
        });
        let mark = match &self.placement.affinity {
            Some(Affinity::Header(name)) => Some(name.clone()),
            Some(Affinity::Cookie(_)) | None => None,
        };
        tenants.chain(mark)
    }
}

fn in_file(path: &Path, problems: Vec<Problem>, more: usize) -> FleetError {
    FleetError::Problems { file: path.to_owned(), problems, more }
}

/// The error has the problems, and how many more there are.
fn check(text: &str, base_dir: &Path) -> Result<Loaded, (Vec<Problem>, usize)> {
    let one = |problem| (vec![problem], 0);
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(one(Problem::of_file(format!("the file has more than {MAX_FILE_BYTES} bytes"))));
    }
    let root = written::read(text).map_err(one)?;
    let file = node::File::new(text);
    let fleet = Fleet::read(&file.root(&root), base_dir);
    let Findings { problems, more, warnings, more_warnings } = file.findings();
    match fleet {
        Some(fleet) if problems.is_empty() => Ok(Loaded { fleet, warnings, more_warnings }),
        _ => Err((problems, more)),
    }
}

impl Fleet {
    /// The sections in the order in which they need each other. `None` comes with a problem; so may `Some`.
    fn read(root: &Node<'_>, base_dir: &Path) -> Option<Self> {
        let root = root.fields(&KEYS);
        let name = root.required_scalar("fleet");
        let revision = root.get("revision").and_then(|node| node.whole(0..=u64::MAX));
        let cells = Cells::read(&root);
        let tenant = tenant::fields(&root);
        let alphabet = tenant::read_alphabet(tenant.as_ref());
        let plans = Plans::read(&root, &cells);
        let tenant = TenantRules::read(&root, tenant.as_ref(), alphabet, &plans);
        let size_of =
            |id: &TenantId| tenant.plan_for(id).and_then(|plan| plans.sorted[plan.get()].shard_size);
        let placement = PlacementRules::read(&root, base_dir, &cells, &tenant.alphabet, &plans, size_of);
        let ceiling = Ceiling::read(&root);
        let limits = LimitRules::read(&root);
        let cell = CellRules::read(&root);
        let routes = Routes::read(&root, &cell, &plans.sorted, ceiling.bucket.as_ref());
        Some(Self {
            name: name?,
            revision: Revision(revision.unwrap_or(1)),
            cells: cells.sorted,
            placement,
            tenant,
            edge: Edge::read(&root),
            plans: plans.sorted,
            ceiling,
            limits,
            routes,
            retry_budget: RetryBudget::read(&root)?,
            poison_guard: root.scalar("poison_guard").unwrap_or(true),
            health: HealthRules::read(&root),
            cell,
        })
    }
}
