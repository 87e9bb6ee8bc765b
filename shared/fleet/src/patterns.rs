//! Words that look like patterns of other products where this file has plain text: they are matched as they are written.

use crate::node::Mark;

/// Warns where a segment of a route's path would be a pattern elsewhere.
pub(crate) fn warn_of_path(path: &str, mark: &Mark<'_>) {
    let Some((at, what)) = path.split('/').enumerate().find_map(|(at, part)| Some((at, foreign(part)?)))
    else {
        return;
    };
    let above = path.split('/').take(at).collect::<Vec<_>>().join("/");
    let above = if above.is_empty() { "/" } else { above.as_str() };
    mark.warn(format_args!(
        "{what} in {path:?} is matched as it is written: a path has no patterns, and {above} alone matches all below it"
    ));
}

/// The same for what stands in front of a tenant in a path.
pub(crate) fn warn_of_prefix(prefix: &str, mark: &Mark<'_>) {
    if let Some(what) = prefix.split('/').find_map(foreign) {
        mark.warn(format_args!(
            "{what} in {prefix:?} is matched as it is written: only {{tenant}} stands for another text"
        ));
    }
}

/// Warns where a value of the query would be a pattern elsewhere.
pub(crate) fn warn_of_value(value: &str, mark: &Mark<'_>) {
    if matches!(value, "*" | ".*" | ".+") {
        mark.warn(format_args!("{value:?} is matched as it is written: a value has no patterns"));
    }
}

/// What a segment has that is a pattern in other products: a wildcard, a parameter or a regular expression.
fn foreign(segment: &str) -> Option<String> {
    let braced = segment.find('{').filter(|start| segment[*start..].contains('}'));
    let angled = segment.starts_with('<') && segment.ends_with('>');
    let parameter = segment.len() > 1 && segment.starts_with(':');
    let regex = segment.contains(['^', '|', '\\']) || segment.contains(".+") || segment.contains("(?");
    let ends = segment.len() > 1 && segment.ends_with('$');
    let class = segment.find('[').is_some_and(|start| segment[start..].contains(']'));
    match () {
        () if segment.contains('*') => Some("`*`".to_owned()),
        () if braced.is_some() || angled || parameter => Some(format!("the parameter `{segment}`")),
        () if regex || ends || class => Some(format!("the expression `{segment}`")),
        () => None,
    }
}
