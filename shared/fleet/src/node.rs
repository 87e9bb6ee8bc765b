//! A walk over the file as written: values with their keys and places, and a list of what is wrong with them.
//!
//! A value that cannot be read is noted and `None`; the caller goes on with a stand-in, so that one run finds every
//! fault. Nothing made from a file with a problem leaves this crate.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use cofferdam_model::Count;
use serde_saphyr::{Location, Spanned};

use crate::nearest::nearest;
use crate::scalars::Scalar;
use crate::written::Value;
use crate::{Problem, syntax};

/// A file that is being checked: its text, and what was found so far.
pub(crate) struct File<'d> {
    text: &'d str,
    problems: RefCell<Found>,
    warnings: RefCell<Found>,
}

/// Problems or warnings, as many as are kept, and how many more there are.
#[derive(Default)]
struct Found {
    kept: Vec<Problem>,
    more: usize,
}

/// What was found in a file, each kind in the file's order.
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    /// How many more problems there are.
    pub(crate) more: usize,
    pub(crate) warnings: Vec<Problem>,
    pub(crate) more_warnings: usize,
}

/// The most problems that are kept, and the most warnings. The others are counted.
const MAX_KEPT: usize = 1000;

/// The longest part of a key that is shown, and the longest message, in characters.
const MAX_KEY: usize = 200;
const MAX_MESSAGE: usize = 1000;

/// A key and its place in the file.
#[derive(Clone)]
pub(crate) struct Mark<'d> {
    file: &'d File<'d>,
    place: Location,
    key: String,
}

/// A value of the file.
#[derive(Clone)]
pub(crate) struct Node<'d> {
    /// The value's key and place.
    pub(crate) mark: Mark<'d>,
    value: &'d Value,
    /// Where the value is spelled out: elsewhere than its place if it is an alias.
    defined: Location,
}

/// An entry of a map.
pub(crate) struct Entry<'d> {
    /// The entry's key as written.
    pub(crate) name: &'d str,
    /// Where the key stands.
    pub(crate) mark: Mark<'d>,
    /// What it stands for.
    pub(crate) value: Node<'d>,
}

/// A map with a closed set of keys.
pub(crate) struct Fields<'d> {
    /// The map's own key and place.
    pub(crate) mark: Mark<'d>,
    entries: Vec<Entry<'d>>,
    /// Keys that are not there, but whose absence has been explained already.
    meant: Vec<&'static str>,
}

impl<'d> File<'d> {
    pub(crate) fn new(text: &'d str) -> Self {
        Self { text, problems: RefCell::default(), warnings: RefCell::default() }
    }

    /// The file's outermost value.
    pub(crate) fn root(&'d self, root: &'d Spanned<Value>) -> Node<'d> {
        Node::new(self, root, String::new())
    }

    /// What was found.
    pub(crate) fn findings(&self) -> Findings {
        let (mut problems, mut warnings) = (self.problems.take(), self.warnings.take());
        problems.kept.sort();
        warnings.kept.sort();
        Findings {
            problems: problems.kept,
            more: problems.more,
            warnings: warnings.kept,
            more_warnings: warnings.more,
        }
    }

    /// Whether another problem would only be counted.
    fn has_enough_problems(&self) -> bool {
        self.problems.borrow().kept.len() >= MAX_KEPT
    }
}

impl Found {
    fn add(&mut self, problem: impl FnOnce() -> Problem) {
        if self.kept.len() < MAX_KEPT {
            self.kept.push(problem());
        } else {
            self.more += 1;
        }
    }
}

impl Mark<'_> {
    /// Notes a problem here.
    pub(crate) fn refuse(&self, message: impl Display) {
        self.file.problems.borrow_mut().add(|| self.problem(message));
    }

    /// Notes something that works but is probably not meant.
    pub(crate) fn warn(&self, message: impl Display) {
        self.file.warnings.borrow_mut().add(|| self.problem(message));
    }

    /// The line, from 1.
    pub(crate) fn line(&self) -> u32 {
        self.place.line() as u32
    }

    /// The mark of a key that this map does not spell out.
    pub(crate) fn absent(&self, key: &str) -> Self {
        Self { key: self.child(key), ..self.clone() }
    }

    fn problem(&self, message: impl Display) -> Problem {
        Problem {
            line: self.line(),
            column: self.place.column() as u32,
            key: self.key.clone(),
            message: shortened(message.to_string(), MAX_MESSAGE),
        }
    }

    /// Escaped, since a quoted key may hold anything, line breaks included.
    fn child(&self, key: &str) -> String {
        let key: String = key.escape_debug().take(MAX_KEY).collect();
        if self.key.is_empty() { key } else { format!("{}.{key}", self.key) }
    }
}

/// A text of at most so many characters.
fn shortened(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text,
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

impl<'d> Node<'d> {
    fn new(file: &'d File<'d>, spanned: &'d Spanned<Value>, key: String) -> Self {
        let mark = Mark { file, place: spanned.referenced, key };
        Self { mark, value: &spanned.value, defined: spanned.defined }
    }

    /// The scalar read as a `T`, or a problem that says what was wanted.
    pub(crate) fn scalar<T: Scalar>(&self) -> Option<T> {
        self.read(T::WANTED, T::read)
    }

    /// A whole number within bounds, or a problem.
    pub(crate) fn whole(&self, bounds: RangeInclusive<u64>) -> Option<u64> {
        self.read("a whole number such as 100 or 20k", |text| match text.parse() {
            Ok(Count(number)) if bounds.contains(&number) => Ok(number),
            Ok(Count(number)) => Err(format!("{number} is outside {} to {}", bounds.start(), bounds.end())),
            Err(error) => Err(error.to_string()),
        })
    }

    /// A whole number within bounds that fit 32 bits, or a problem.
    pub(crate) fn whole_u32(&self, bounds: RangeInclusive<u32>) -> Option<u32> {
        let number = self.whole(u64::from(*bounds.start())..=u64::from(*bounds.end()))?;
        u32::try_from(number).ok()
    }

    /// A duration within bounds, or a problem.
    pub(crate) fn duration(&self, bounds: RangeInclusive<Duration>) -> Option<Duration> {
        self.read(Duration::WANTED, |text| match Duration::read(text) {
            Ok(duration) if !bounds.contains(&duration) => {
                Err(format!("{text} is outside {:?} to {:?}", bounds.start(), bounds.end()))
            }
            read => read,
        })
    }

    /// The scalar read by `read`, or a problem that says what was wanted.
    pub(crate) fn read<T, E: Display>(
        &self,
        wanted: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        match self.text() {
            Some(text) => read(text).map_err(|error| self.mark.refuse(error)).ok(),
            None => {
                self.expected(wanted);
                None
            }
        }
    }

    /// The items of a list that may not be empty; none, and a problem, otherwise.
    pub(crate) fn filled_list(&self, wanted: &str) -> Vec<Node<'d>> {
        if matches!(self.value, Value::List(items) if items.is_empty()) {
            self.mark.refuse(format_args!("expected {wanted}, found an empty list"));
        }
        self.list(wanted)
    }

    /// The items of a list; none, and a problem, where it is not one.
    pub(crate) fn list(&self, wanted: &str) -> Vec<Node<'d>> {
        let Value::List(items) = self.value else {
            self.expected(wanted);
            return Vec::new();
        };
        let node = |(at, item)| Self::new(self.mark.file, item, format!("{}[{at}]", self.mark.key));
        items.iter().enumerate().map(node).collect()
    }

    /// The entries of a map whose keys are free; a key that comes twice is refused.
    pub(crate) fn entries(&self, wanted: &str) -> Vec<Entry<'d>> {
        let Value::Map(written) = self.value else {
            self.expected(wanted);
            return Vec::new();
        };
        let mut seen = HashSet::new();
        let mut entries = Vec::with_capacity(written.len());
        for (key, value) in written {
            let name = key.value.as_str();
            let value = Self::new(self.mark.file, value, self.mark.child(name));
            let mark = Mark { place: key.referenced, ..value.mark.clone() };
            if seen.insert(name) {
                entries.push(Entry { name, mark, value });
            } else {
                mark.refuse("this key comes twice");
            }
        }
        entries
    }

    /// The fields of a map with a closed set of keys; any other key is refused with the nearest known one.
    pub(crate) fn fields(&self, known: &[&'static str]) -> Fields<'d> {
        let wanted = known.join(", ");
        if let Value::Text(text) = self.value
            && syntax::key_without_colon(text, known).is_some()
        {
            self.mark.refuse(syntax::missing(text));
            return Fields { mark: self.mark.clone(), entries: Vec::new(), meant: known.to_vec() };
        }
        let mut entries = self.entries(&format!("a map with the keys {wanted}"));
        // Where this is no map at all, each of its keys counts as one that was meant: they are not missing as well.
        let mut meant = if self.is_map() { Vec::new() } else { known.to_vec() };
        entries.retain(|entry| {
            let is_known = known.contains(&entry.name);
            if !is_known {
                // What is only counted needs no guess, and what is as long is no slip.
                let is_guessed = !self.mark.file.has_enough_problems() && entry.name.len() <= MAX_KEY;
                let guess = || nearest(entry.name, known.iter().copied());
                let cut_short = syntax::key_without_colon(entry.name, known).filter(|_| is_guessed);
                let near = cut_short.or_else(|| if is_guessed { guess() } else { None });
                let hint = match (cut_short, near) {
                    (Some(_), _) => syntax::missing(entry.name),
                    (None, Some(near)) => format!("did you mean `{near}`?"),
                    (None, None) => format!("expected {wanted}"),
                };
                entry.mark.refuse(format_args!("unknown key `{}`; {hint}", entry.name.escape_debug()));
                meant.extend(near);
            }
            is_known
        });
        Fields { mark: self.mark.clone(), entries, meant }
    }

    /// Whether this is a map at all.
    pub(crate) fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// A scalar's spelling.
    pub(crate) fn text(&self) -> Option<&'d str> {
        match self.value {
            Value::Text(text) => Some(text),
            Value::Literal => {
                let span = self.defined.span();
                let start = span.byte_offset()? as usize;
                self.mark.file.text.get(start..start + span.byte_len()? as usize)
            }
            Value::Nothing | Value::List(_) | Value::Map(_) => None,
        }
    }

    fn expected(&self, wanted: &str) {
        let found = match self.value {
            Value::Text(_) | Value::Literal => format!("{:?}", self.text().unwrap_or_default()),
            Value::Nothing => "nothing".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        };
        self.mark.refuse(format_args!("expected {wanted}, found {found}"));
    }
}

impl Entry<'_> {
    /// The key read as a `T`, or a problem.
    pub(crate) fn key<T: Scalar>(&self) -> Option<T> {
        T::read(self.name).map_err(|error| self.mark.refuse(error)).ok()
    }
}

impl<'d> Fields<'d> {
    /// A field, where it is there.
    pub(crate) fn get(&self, key: &str) -> Option<&Node<'d>> {
        self.entries.iter().find(|entry| entry.name == key).map(|entry| &entry.value)
    }

    /// The one field that is there, where it is one.
    pub(crate) fn only(&self) -> Option<(&'d str, &Node<'d>)> {
        match self.entries.as_slice() {
            [only] => Some((only.name, &only.value)),
            _ => None,
        }
    }

    /// A field that must be there.
    pub(crate) fn required(&self, key: &str, wanted: &str) -> Option<&Node<'d>> {
        let node = self.get(key);
        if node.is_none() && !self.meant.contains(&key) {
            self.mark.refuse(format_args!("missing key `{key}`: expected {wanted}"));
        }
        node
    }

    /// A scalar that must be there.
    pub(crate) fn required_scalar<T: Scalar>(&self, key: &str) -> Option<T> {
        self.required(key, T::WANTED)?.scalar()
    }

    /// A scalar that may be absent.
    pub(crate) fn scalar<T: Scalar>(&self, key: &str) -> Option<T> {
        self.get(key)?.scalar()
    }

    /// A whole number that fits 32 bits, or its default.
    pub(crate) fn whole_u32_or(&self, key: &str, bounds: RangeInclusive<u32>, default: u32) -> u32 {
        self.get(key).and_then(|node| node.whole_u32(bounds)).unwrap_or(default)
    }

    /// The mark of a field, or of the place where it would be.
    pub(crate) fn mark_of(&self, key: &str) -> Mark<'d> {
        self.get(key).map_or_else(|| self.mark.absent(key), |node| node.mark.clone())
    }
}
