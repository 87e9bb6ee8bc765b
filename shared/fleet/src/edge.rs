//! `edge`: what is done with fields by which a client may say what it is not asked. Agents read it too.

use crate::node::Fields;
use crate::scalars::{Scalar, scalar};

/// The fields that say where a request came from and that can be chosen.
pub const FORWARDED: [&str; 6] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-real-ip",
];

/// What is done with fields of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edge {
    /// What happens to a name that servers read as another one.
    pub underscores: Underscores,
    /// Of [`FORWARDED`], exactly those that go on to backends; `None` where the file does not say which.
    pub forwarded: Option<Vec<&'static str>>,
}

/// What happens to a field of a request whose name has another character than letters, digits and `-`, such as `_`: servers
/// that make variables of names read it as `-`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Underscores {
    /// It is dropped where it reads as a field that is set, stripped or identified by.
    #[default]
    Guard,
    /// It is dropped.
    Drop,
    /// The request is refused.
    Refuse,
}

scalar! {
    Underscores, read_underscores, "guard, drop or refuse";
}

impl Underscores {
    /// The file's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Drop => "drop",
            Self::Refuse => "refuse",
        }
    }
}

impl Edge {
    pub(crate) fn read(root: &Fields<'_>) -> Self {
        let Some(section) = root.get("edge") else { return Self::default() };
        let fields = section.fields(&["underscores", "forwarded"]);
        let forwarded = fields.get("forwarded").map(|node| {
            let items = node.list("a list of fields such as x-forwarded-for");
            let mut chosen: Vec<&'static str> = Vec::with_capacity(items.len());
            for item in &items {
                let Some(name) = item.read("a field such as x-forwarded-for", read_forwarded) else {
                    continue;
                };
                if chosen.contains(&name) {
                    item.mark.refuse(format_args!("{name} is chosen already"));
                }
                chosen.push(name);
            }
            chosen
        });
        Self { underscores: fields.scalar("underscores").unwrap_or_default(), forwarded }
    }
}

fn read_underscores(text: &str) -> Result<Underscores, String> {
    let words = [Underscores::Guard, Underscores::Drop, Underscores::Refuse];
    let known = words.into_iter().find(|word| word.as_str() == text);
    known.ok_or_else(|| format!("{text:?} is not guard, drop or refuse"))
}

fn read_forwarded(text: &str) -> Result<&'static str, String> {
    let known = FORWARDED.into_iter().find(|name| name.eq_ignore_ascii_case(text));
    known.ok_or_else(|| format!("{text:?} is not one of {}", FORWARDED.join(", ")))
}
