//! The fleet file: the facts that routers and agents share, from YAML text to values that can be used.
//!
//! Text becomes a tree of values with their places (as written), and the tree becomes a [`Fleet`] (as checked). A
//! check does not stop at the first fault: every problem is listed with its line, its column and its key. What does
//! not work yet is not a word of the file, and an unknown word is refused.
//!
//! This crate knows nothing of what is built from a fleet: placement tables, limits and compartments are made by those
//! who import both.

mod adaptive;
mod affinity;
mod breaker;
mod cell_rules;
mod cells;
mod checked;
mod class;
mod dependency;
mod edge;
mod fallback;
mod health;
mod limits;
mod named;
mod nearest;
mod node;
mod origin;
mod path;
mod patterns;
mod placement;
mod plans;
mod problem;
mod quota;
mod retries;
mod routes;
mod scalars;
mod settings;
mod shape;
mod sources;
mod succession;
mod syntax;
mod tenant;
mod time;
mod trusted;
mod written;

pub use adaptive::AdaptiveRules;
pub use affinity::Affinity;
pub use breaker::BreakerRules;
pub use cell_rules::CellRules;
pub use cells::Cell;
pub use checked::{Fleet, Loaded, MAX_FILE_BYTES};
pub use class::{Class, ClassIndex};
pub use dependency::{Dependency, DependencyIndex};
pub use edge::{Edge, FORWARDED, Underscores};
pub use fallback::{Fallback, StaticAnswer};
pub use health::HealthRules;
pub use limits::{Ceiling, LimitMode, LimitModeError, LimitRules};
pub use named::Pin;
pub use nearest::did_you_mean;
pub use origin::{Origin, OriginError};
pub use path::{has_ambiguous_dots, normal_path};
pub use placement::{Choose, ChooseError, Inclusion, InclusionError, PlacementRules};
pub use plans::{Bucket, MAX_BURST, MAX_IN_FLIGHT, Plan, PlanIndex};
pub use problem::{FleetError, Problem, SHOWN_PROBLEMS};
pub use quota::Quota;
pub use retries::{RetryBudget, RetryShare};
pub use routes::{Route, RouteIndex, Routes};
pub use scalars::{Share, ShareError};
pub use settings::{Scope, SettingChange};
pub use shape::Shape;
pub use sources::{HostPattern, PathPattern, Source, SourceKind};
pub use succession::SuccessionError;
pub use tenant::TenantRules;
pub use trusted::{NetworkError, Trusted};
pub use written::Value;
