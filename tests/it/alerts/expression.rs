//! As much of PromQL as the alert rules use, over one value for each metric, which is named with the labels that are asked for.
//! What functions and aggregations make of it is taken to be that value, so it is the comparisons that are told.

use std::iter::Peekable;
use std::vec::IntoIter;

/// Whether an alert is raised where the metrics have these values.
pub(super) fn fires(expression: &str, values: &[(&str, f64)]) -> bool {
    let mut reader = Reader { words: words(expression).into_iter().peekable(), values };
    let fires = reader.any();
    assert_eq!(reader.words.next(), None, "{expression}");
    fires
}

struct Reader<'a> {
    words: Peekable<IntoIter<String>>,
    values: &'a [(&'a str, f64)],
}

impl Reader<'_> {
    /// Comparisons of which some have to hold.
    fn any(&mut self) -> bool {
        let mut any = self.all();
        while self.is_next("or") {
            any |= self.all();
        }
        any
    }

    /// Comparisons that all have to hold.
    fn all(&mut self) -> bool {
        let mut all = self.comparison();
        while self.is_next("and") {
            if self.is_next("on") {
                self.skip_parentheses();
            }
            all &= self.comparison();
        }
        all
    }

    fn comparison(&mut self) -> bool {
        let left = self.sum();
        let operator = self.words.next().unwrap_or_default();
        let right = self.sum();
        match operator.as_str() {
            ">" => left > right,
            ">=" => left >= right,
            "<" => left < right,
            "<=" => left <= right,
            "==" => left == right,
            "!=" => left != right,
            other => panic!("{other:?} compares nothing"),
        }
    }

    fn sum(&mut self) -> f64 {
        let mut sum = self.product();
        while self.is_next("+") {
            sum += self.product();
        }
        sum
    }

    fn product(&mut self) -> f64 {
        let mut product = self.value();
        loop {
            if self.is_next("*") {
                product *= self.value();
            } else if self.is_next("/") {
                product /= self.value();
            } else {
                return product;
            }
        }
    }

    /// A number, a metric, what stands in parentheses, or what a function makes of its last argument.
    fn value(&mut self) -> f64 {
        if self.is_next("(") {
            return self.enclosed();
        }
        let word = self.words.next().unwrap();
        if let Ok(number) = word.parse() {
            return number;
        }
        if self.is_next("by") {
            self.skip_parentheses();
        }
        if !self.is_next("(") {
            let value = self.values.iter().find(|(name, _)| *name == word);
            return value.unwrap_or_else(|| panic!("nothing is said of {word}")).1;
        }
        self.enclosed()
    }

    /// The last of what stands in parentheses, behind the opening one.
    fn enclosed(&mut self) -> f64 {
        let mut last = self.sum();
        while self.is_next(",") {
            last = self.sum();
        }
        assert!(self.is_next(")"), "parentheses do not end");
        last
    }

    fn skip_parentheses(&mut self) {
        assert!(self.is_next("("));
        assert!(self.words.by_ref().any(|word| word == ")"));
    }

    fn is_next(&mut self, word: &str) -> bool {
        self.words.next_if(|next| next == word).is_some()
    }
}

/// The words of an expression, without its ranges of time.
fn words(expression: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |character: char| character.is_ascii_alphanumeric() || "_.".contains(character);
        let is_comparison = |character: char| "<>=!".contains(character);
        let end = match first {
            '[' => rest.find(']').unwrap() + 1,
            _ if is_word(first) => {
                let end = rest.find(|next| !is_word(next)).unwrap_or(rest.len());
                if rest[end..].starts_with('{') { rest.find('}').unwrap() + 1 } else { end }
            }
            _ if is_comparison(first) => rest.find(|next| !is_comparison(next)).unwrap_or(rest.len()),
            _ => 1,
        };
        if first != '[' {
            words.push(rest[..end].to_owned());
        }
        rest = rest[end..].trim_start();
    }
    words
}
