//! Why requests were refused or failed, reason by reason: what binds, and what to do about it.

use cofferdam_router::RecentRow;
use serde_json::Value;

use super::finding::rank;
use crate::asked::word;
use crate::limits::level_name;

/// Events of the same kind at all cells.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) level: String,
    pub(super) reason: String,
    pub(super) class: String,
    pub(super) status: u16,
    pub(super) count: u64,
    pub(super) cells: Vec<String>,
    route: Option<String>,
    dependency: Option<String>,
}

/// One reason in words.
#[derive(Debug)]
pub(super) struct Cause {
    /// What happened to the requests.
    pub(super) verb: &'static str,
    pub(super) why: String,
    pub(super) todo: String,
    /// A rank of its own, where it is the cause of others.
    pub(super) rank: Option<u32>,
}

impl Group {
    /// Groups of these rows, the most frequent first.
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a RecentRow>) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for row in rows {
            let is_late = row.level == "backend" && row.status == 504;
            // The agent's word that time is over, and the router's own, which comes first or second by chance.
            let late = is_late.then(|| RecentRow {
                level: "cell".to_owned(),
                reason: "deadline".to_owned(),
                status: 0,
                ..row.clone()
            });
            let row = late.as_ref().unwrap_or(row);
            let is_same = |group: &&mut Self| {
                (&group.level, &group.reason, &group.class) == (&row.level, &row.reason, &row.class)
                    && (&group.route, group.status) == (&row.route, row.status)
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => {
                    group.count += row.count;
                    group.cells.extend(row.cell.clone().filter(|cell| !group.cells.contains(cell)));
                }
                None => groups.push(Self {
                    level: row.level.clone(),
                    reason: row.reason.clone(),
                    class: row.class.clone(),
                    status: row.status,
                    count: row.count,
                    cells: row.cell.iter().cloned().collect(),
                    route: row.route.clone(),
                    dependency: row.dependency.clone(),
                }),
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups
    }
}

impl Cause {
    pub(super) fn of(group: &Group, cells: &str, tenant: &str, limits: &Value) -> Self {
        let (verb, rank) = ("were refused", None);
        let raise =
            |what: &str| format!("send less, or for a while: cofferdam limits set {tenant} {what} --for 1h");
        let (why, todo) = match (group.level.as_str(), group.reason.as_str()) {
            (_, "store") => (
                "the store of limits is away, and what decides then is `closed`".to_owned(),
                "bring the store back, or set on_store_failure to local".to_owned(),
            ),
            (level @ ("tenant" | "route" | "fleet"), reason) => {
                let level = find_level(limits, level, group.route.as_deref());
                return Self { verb, rank, ..of_limit(reason, level, group, &raise) };
            }
            ("cell", "tenant") => {
                let share = share(limits, &group.class);
                let why = format!("it holds its share of class {} on {cells}{share}", group.class);
                (
                    why,
                    "see why its answers take so long; else raise cell.tenant_share or the class's ceiling"
                        .to_owned(),
                )
            }
            ("cell", "class") => {
                let ceiling = class_of(limits, &group.class);
                let ceiling = if ceiling.is_null() {
                    String::new()
                } else {
                    format!(": {} places", word(&ceiling["ceiling"]))
                };
                let why =
                    format!("class {} is full on {cells}{ceiling}, for all tenants together", group.class);
                (why, "see who fills it: cofferdam limits top; else raise the class's ceiling: cofferdam advise".to_owned())
            }
            ("cell", "cap") => {
                let of = match &group.dependency {
                    Some(dependency) => format!("dependency {dependency}, or of its route,"),
                    None => format!("route {}", group.route.as_deref().unwrap_or("-")),
                };
                let why =
                    format!("the cap of {of} is reached on {cells} (max_in_flight{})", cap(limits, group));
                (why, "see why the dependency is slow; else raise its max_in_flight".to_owned())
            }
            ("cell", "dependency_breaker_open") => {
                let of = group.dependency.as_deref().unwrap_or("what the route needs");
                let why = format!("dependency {of} fails, and its breaker is open on {cells}");
                let todo = format!("see why {of} fails; the breaker closes by itself once it is well");
                return Self { verb, why, todo, rank: Some(rank::BREAKER) };
            }
            ("cell", "backend_breaker_open") => {
                let why = format!("the backend of {cells} fails, and its breaker is open");
                let todo = "see why it fails; the breaker closes by itself once it is well".to_owned();
                return Self { verb, why, todo, rank: Some(rank::BREAKER) };
            }
            ("cell", "backend_unreachable") => {
                let why =
                    format!("{cells} has no backend: its agent is up, and the backend takes no connection");
                let todo = "start the backend again, and read its log".to_owned();
                return Self { verb, why, todo, rank: Some(rank::ALL_DOWN + 100) };
            }
            ("cell", "cell") => (
                format!("none of its cells has room, or a backend (last tried: {cells})"),
                "see what fills them, and whether their backends run: cofferdam advise".to_owned(),
            ),
            ("cell", "draining") => (
                format!("{cells} leaves, and no other cell took it"),
                "start another agent before one ends".to_owned(),
            ),
            ("cell", "shed") => (
                format!("all its cells are so full that class {} is shed", group.class),
                "add places or cells: cofferdam advise; or give the class a higher priority".to_owned(),
            ),
            ("cell" | "backend", _) => return of_failure(group, cells),
            (level, reason) => (
                format!("the router does not take them as they are ({level}, {reason})"),
                "see the problem that the answer names".to_owned(),
            ),
        };
        Self { verb, why, todo, rank }
    }
}

/// A limit that all routers share.
fn of_limit(reason: &str, level: &Value, group: &Group, raise: &dyn Fn(&str) -> String) -> Cause {
    let name = match group.level.as_str() {
        "tenant" => "its plan".to_owned(),
        "fleet" => "the whole fleet's ceiling, which all tenants share,".to_owned(),
        _ => level_name(level),
    };
    let (why, todo) = match reason {
        "rate" => {
            let [sustained, burst] = ["sustained", "burst"].map(|of| word(&level[of]));
            (
                format!("faster than {name} allows ({sustained}, burst {burst})"),
                raise("--sustained RATE --burst N"),
            )
        }
        "concurrency" => {
            let most = word(&level["max_in_flight"]);
            (format!("{name} allows {most} in flight, and all are in use"), raise("--max-in-flight N"))
        }
        "quota" => {
            let quotas = level["quotas"].as_array().into_iter().flatten();
            let used_up = |quota: &&Value| quota["used"].as_u64() >= quota["tokens"].as_u64();
            let of = quotas.clone().find(used_up).or_else(|| level["quotas"].get(0));
            let of = of.map_or_else(String::new, |quota| {
                format!(" ({} in {} s)", word(&quota["tokens"]), word(&quota["window_s"]))
            });
            (
                format!("the quota of {name} is used up{of}"),
                "wait for the window, or give it a plan with more".to_owned(),
            )
        }
        "shape" => {
            (format!("the line of {name} is full"), "send more evenly, or raise the route's shape".to_owned())
        }
        other => (format!("{name} refuses ({other})"), String::new()),
    };
    let todo = match group.level.as_str() {
        "fleet" => "see who uses it: cofferdam limits top; else raise ceiling in the fleet file".to_owned(),
        "route" if reason != "shape" => {
            "send less there, or raise the route's limit in the fleet file".to_owned()
        }
        _ => todo,
    };
    Cause { verb: "were refused", why, todo, rank: None }
}

/// What a cell or its backend failed.
fn of_failure(group: &Group, cells: &str) -> Cause {
    let (verb, why, todo) = match (group.reason.as_str(), group.status) {
        ("error", status) => (
            "failed",
            format!("the backend of {cells} answered {status}"),
            format!("see the log of the backend of {cells}"),
        ),
        ("grpc_error", _) => (
            "failed",
            format!("the backend of {cells} answered with a failure of gRPC"),
            format!("see the log of the backend of {cells}"),
        ),
        ("deadline", _) => (
            "had no answer in time",
            format!("{cells} took longer than the route of class {} allows", group.class),
            format!("see why the backend of {cells} is slow or hangs; else raise the route's timeout"),
        ),
        ("pair_down", _) => (
            "failed",
            "none of its cells could be reached".to_owned(),
            "see whether the agents of its cells run, and what is in the way".to_owned(),
        ),
        ("cell_lost", _) => (
            "failed",
            format!("{cells} was lost with the request in flight"),
            "see why it ends: its log, its exit code".to_owned(),
        ),
        ("cell_malformed", _) => {
            ("failed", format!("{cells} answered what is no HTTP"), "see what listens there".to_owned())
        }
        (other, _) => ("failed", format!("{other} on {cells}"), String::new()),
    };
    Cause { verb, why, todo, rank: None }
}

fn find_level<'l>(limits: &'l Value, level: &str, route: Option<&str>) -> &'l Value {
    let levels = limits["levels"].as_array().into_iter().flatten();
    let mut same = levels.filter(|other| other["level"] == level);
    same.find(|other| level != "route" || other["route"].as_str() == route).unwrap_or(&Value::Null)
}

fn class_of<'l>(limits: &'l Value, class: &str) -> &'l Value {
    let classes = limits["in_each_cell"]["classes"].as_array().into_iter().flatten();
    classes.into_iter().find(|other| other["class"] == class).unwrap_or(&Value::Null)
}

/// How large a tenant's share of a class is.
fn share(limits: &Value, class: &str) -> String {
    let class = class_of(limits, class);
    match (class["tenant_places"].as_u64(), class["ceiling"].as_u64()) {
        (Some(places), Some(ceiling)) => format!(": {places} of {ceiling} places for one tenant"),
        _ => String::new(),
    }
}

/// The cap of what a route needs, or its own.
fn cap(limits: &Value, group: &Group) -> String {
    let find = |list: &str, name: &str, of: Option<&str>| {
        let list = limits["in_each_cell"][list].as_array().into_iter().flatten();
        let found = list.into_iter().find(|each| of.is_some() && each[name].as_str() == of);
        found.and_then(|each| each["max_in_flight"].as_u64())
    };
    let of_dependency = find("dependencies", "dependency", group.dependency.as_deref());
    let most = of_dependency.or_else(|| find("routes", "route", group.route.as_deref()));
    most.map_or_else(String::new, |most| format!(": {most}"))
}
