//! Has every slot of the fleet begin its epoch as soon as a server is there: a slot that has just begun grants no permits for a
//! while, and its buckets fill from nothing. No tenant's first request should be the one that begins it.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;

use super::call::Call;
use super::core::Core;
use super::keys::BUCKETS;

/// Calls on their way at once: a server that has just started has others to answer.
const AT_ONCE: usize = 32;

/// Begins them all, in the background. One that fails begins with its first call.
pub(super) fn call(core: &Arc<Core>) {
    let core = Arc::clone(core);
    tokio::spawn(async move {
        let buckets = (0..BUCKETS).map(|bucket| core.fleet.epoch(bucket));
        let epochs = buckets.chain([core.fleet.ceiling_epoch()]);
        let begin = |epoch| {
            let core = &core;
            async move {
                let call = Call::builder(epoch, &core.terms.session, core.terms.ttl).build();
                if let Ok(call) = call {
                    // Whatever is wrong with the store is seen by the calls that ask for something.
                    let _ = core.link.call(&call).await;
                }
            }
        };
        stream::iter(epochs).map(begin).buffer_unordered(AT_ONCE).collect::<()>().await;
    });
}
