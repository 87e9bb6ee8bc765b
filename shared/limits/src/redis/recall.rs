//! Recall: what idles here and is short elsewhere goes back at once.

use std::sync::Arc;

use super::core::Core;
use super::keys::Recalled;
use super::subject::Subject;

/// Hears for as long as its runtime lasts what others are short of, and has it go back.
pub(super) fn listen(core: &Arc<Core>) {
    let (channel, core) = (core.fleet.recalls(&core.terms.session), Arc::clone(core));
    let link = core.link.clone();
    tokio::spawn(async move { link.hear(&channel, |key| give_back(&core, key)).await });
}

fn give_back(core: &Core, key: &str) {
    let Some((tenant, recalled)) = core.fleet.read(key) else { return };
    let subject = match tenant {
        Some(tenant) => core.table.find(&tenant),
        None => Some(Arc::clone(&core.ceiling)),
    };
    if let Some(subject) = subject {
        core.terms.recalls.answered();
        ask(&subject, recalled, core.terms.contended_until_us(core.terms.clock.now_us()));
    }
}

fn ask(subject: &Subject, recalled: Recalled, until_us: u64) {
    match recalled {
        Recalled::Permits => subject.permits.contest.ask(until_us),
        Recalled::Tokens(key) => subject.with_meter(key, |meter| meter.lease.contest.ask(until_us)),
    }
    subject.call_soon();
}
