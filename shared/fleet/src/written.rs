//! YAML as written: a tree of values, each with its place. It knows no word of the fleet file.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{
    DefaultMessageFormatter, DuplicateKeyPolicy, MergeKeyPolicy, MessageFormatter, NonFiniteFloatPolicy,
    Options, Spanned,
};

use crate::{Problem, syntax};

/// A value as written: of a fleet file, or of any other YAML.
#[derive(Debug)]
pub enum Value {
    /// Text that YAML takes for text.
    Text(String),
    /// A number or a truth value. Which one is for the reader of the key to say, so its spelling is looked up in the
    /// file: `0.50` and `0x10` stay what they are.
    Literal,
    /// Nothing: `key:`, `~` or `null`.
    Nothing,
    /// A list.
    List(Vec<Spanned<Value>>),
    /// A map in the file's order, keys that come twice included.
    Map(Vec<(Spanned<String>, Spanned<Value>)>),
}

/// Reads YAML text into a tree. The one problem is where the text stops being YAML.
pub(crate) fn read(text: &str) -> Result<Spanned<Value>, Problem> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let place = error.location();
        let line = place.map_or(1, |place| place.line().max(1) as u32);
        let column = place.map_or(1, |place| place.column().max(1) as u32);
        syntax::problem(text, line, column, &message(&error))
    })
}

/// The parser's own words, but where they speak to its programmer.
fn message(error: &serde_saphyr::Error) -> String {
    match error {
        serde_saphyr::Error::AliasError { error, .. } => message(error),
        serde_saphyr::Error::MultipleDocuments { .. } => {
            "a second document starts here: expected one".to_owned()
        }
        serde_saphyr::Error::Budget { breach, .. } => too_much(breach).to_owned(),
        serde_saphyr::Error::AliasReplayLimitExceeded { .. }
        | serde_saphyr::Error::AliasReplayStackDepthExceeded { .. } => TOO_MANY_ALIASES.to_owned(),
        serde_saphyr::Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "an alias cannot stand inside what it names".to_owned()
        }
        // Keys alone are read as text and nothing else.
        serde_saphyr::Error::Unexpected { expected: "string scalar", .. } => {
            "a key cannot be a list or a map: expected text".to_owned()
        }
        other => DefaultMessageFormatter.format_message(other).replace(char::is_control, " "),
    }
}

const TOO_MANY_ALIASES: &str = "the aliases expand to too much";

/// Which bound the file is beyond.
fn too_much(breach: &BudgetBreach) -> &'static str {
    match breach {
        BudgetBreach::Depth { .. } => "the values are nested too deep",
        BudgetBreach::Aliases { .. }
        | BudgetBreach::Anchors { .. }
        | BudgetBreach::RecordedAnchorEvents { .. }
        | BudgetBreach::RecordedAnchorBytes { .. } => TOO_MANY_ALIASES,
        _ => "the file has too many values",
    }
}

/// Aliases are allowed and bounded: what they may expand to is small beside what a file may hold. Merge keys and keys
/// that come twice are handed on as they are, so that they are refused by key and with everything else.
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 16,
            max_events: 4_000_000,
            max_nodes: 2_000_000,
            max_anchors: 1_000,
            max_aliases: 10_000,
            max_recorded_anchor_events: 100_000,
            max_recorded_anchor_bytes: 1 << 20,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 4,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        null_as_string: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scalar, a list or a map")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Literal)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Literal)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Literal)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Literal)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}
