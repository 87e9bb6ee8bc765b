//! What is wrong with a fleet file, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// One fault or warning, with its place in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The dotted path of the key, such as `cells[2].weight`; empty for the file as a whole.
    pub key: String,
    /// What is wrong, with the value.
    pub message: String,
}

/// Why a fleet file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The file could not be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file says something that cannot be used: the problems that were found first, in the file's order.
    #[error("{}", Lines { file, problems, more: *more })]
    Problems {
        /// The file's name, for display.
        file: PathBuf,
        /// At least one problem.
        problems: Vec<Problem>,
        /// How many more there are.
        more: usize,
    },
}

impl Problem {
    /// A problem of the file as a whole.
    pub(crate) fn of_file(message: String) -> Self {
        Self { line: 1, column: 1, key: String::new(), message }
    }

    /// The problem as one line that starts with `FILE:LINE:COLUMN`, where editors find it.
    pub fn in_file(&self, file: &Path) -> impl fmt::Display {
        fmt::from_fn(move |f| write!(f, "{}:{self}", file.display()))
    }

    /// The same for what is only odd.
    pub fn as_warning_in_file(&self, file: &Path) -> impl fmt::Display {
        let Self { line, column, .. } = self;
        let text = self.text();
        fmt::from_fn(move |f| write!(f, "{}:{line}:{column}: warning: {text}", file.display()))
    }

    /// What is wrong, behind its key.
    fn text(&self) -> String {
        let Self { key, message, .. } = self;
        if key.is_empty() { message.clone() } else { format!("{key}: {message}") }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text())
    }
}

/// The most problems of a file that are shown, and the most warnings.
pub const SHOWN_PROBLEMS: usize = 20;

/// Problems, one a line: the first ones, and how many more there are.
struct Lines<'a> {
    file: &'a Path,
    problems: &'a [Problem],
    more: usize,
}

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().take(SHOWN_PROBLEMS).enumerate() {
            let line_break = if at == 0 { "" } else { "\n" };
            write!(f, "{line_break}{}", problem.in_file(self.file))?;
        }
        match self.problems.len().saturating_sub(SHOWN_PROBLEMS) + self.more {
            0 => Ok(()),
            1 => write!(f, "\n{}: 1 more problem", self.file.display()),
            more => write!(f, "\n{}: {more} more problems", self.file.display()),
        }
    }
}
