//! How many connections a listener beside the data path has: in all, and of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The places of one listener. An address has half of them at most, so that nobody else is shut out by it.
#[derive(Debug, Clone)]
pub(super) struct Places {
    most: usize,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One connection's place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    peer: IpAddr,
    taken: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// A place, if there is one for this peer.
    pub(super) fn take(&self, peer: IpAddr) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (taken.values().sum::<usize>(), taken.get(&peer).copied().unwrap_or_default());
        if all >= self.most || own >= self.most / 2 {
            return None;
        }
        taken.insert(peer, own + 1);
        Some(Place { peer, taken: Arc::clone(&self.taken) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_half_and_all_together_have_what_there_is() {
        let places = Places::new(4);
        let [a, b, c] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        let mut held = vec![places.take(a).unwrap(), places.take(a).unwrap()];
        assert!(places.take(a).is_none());
        held.extend([places.take(b).unwrap(), places.take(b).unwrap()]);
        assert!(places.take(c).is_none());
        held.clear();
        assert!(places.taken.lock().unwrap().is_empty() && places.take(c).is_some());
    }
}
