//! A list of tenants, out of a file or standard input: one on a line, blank lines and what follows a `#` left out.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cofferdam_model::{Alphabet, MAX_TENANT_ID, TenantId};

/// The most tenants of a list.
const MAX_TENANTS: usize = 1_000_000;

/// The longest line that is read: an id, and a remark.
const MAX_LINE: u64 = 4096;

/// Where a list of tenants is.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ListArgs {
    /// A file with a tenant on each line, or - for standard input
    #[arg(long, value_name = "LIST")]
    pub(crate) tenants: PathBuf,
}

/// Reads a list; who is named twice counts once, where it comes first.
pub(crate) fn read(path: &Path, alphabet: &Alphabet) -> anyhow::Result<Vec<TenantId>> {
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let tenants = match path == Path::new("-") {
        true => parse(io::stdin().lock(), alphabet),
        false => File::open(path).map_err(Into::into).and_then(|file| parse(BufReader::new(file), alphabet)),
    };
    tenants.with_context(|| name)
}

fn parse(mut text: impl BufRead, alphabet: &Alphabet) -> anyhow::Result<Vec<TenantId>> {
    let (mut tenants, mut known, mut line) = (Vec::new(), HashSet::new(), Vec::new());
    for number in 1.. {
        line.clear();
        let n_read = text.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if n_read == 0 {
            break;
        }
        if n_read as u64 == MAX_LINE {
            bail!("line {number} has {MAX_LINE} bytes or more, and a tenant at most {MAX_TENANT_ID}");
        }
        let id = line.split(|&byte| byte == b'#').next().unwrap_or_default().trim_ascii();
        if id.is_empty() {
            continue;
        }
        let tenant = TenantId::parse(id, alphabet).with_context(|| format!("line {number}"))?;
        if known.insert(tenant) {
            tenants.push(tenant);
        }
        if tenants.len() > MAX_TENANTS {
            bail!("more than {MAX_TENANTS} tenants");
        }
    }
    Ok(tenants)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<String>, String> {
        let tenants = parse(text.as_bytes(), &Alphabet::default()).map_err(|error| format!("{error:#}"))?;
        Ok(tenants.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_list_is_one_tenant_on_a_line_in_its_order_and_once() {
        let text = "globex\r\n\n  acme # the largest\n# nobody\nglobex\ninitech";
        assert_eq!(parsed(text).unwrap(), ["globex", "acme", "initech"]);
        assert_eq!(parsed("").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_tenant_is_told_with_its_line() {
        let error = parsed("acme\n\nGlobex\n").unwrap_err();
        assert!(error.starts_with("line 3: tenant id has 'G' at 0"), "{error}");
        let error = parsed(&format!("acme\n{}", "x".repeat(5000))).unwrap_err();
        assert_eq!(error, "line 2 has 4096 bytes or more, and a tenant at most 64");
    }
}
