//! What happens when the layout changes, or everything closes.

use std::collections::HashMap;

use tokio::time::Instant;

use super::{Class, Core, Moved, Woken};
use crate::caps::Cap;
use crate::indices::Indices;
use crate::layout::{ClassLayout, Layout, TenantShare};
use crate::lifetime::LIFETIME;
use crate::waiters::Stage;

impl Core {
    /// Divides the cell anew. Nobody loses a place that it holds, or its place in line: what is above a limit now drains,
    /// and who waits goes on waiting, or is given the place that there is now.
    pub(crate) fn change(&mut self, layout: &Layout, now: Instant, woken: &mut Woken) {
        self.changes += 1;
        self.max = layout.max_in_flight();
        let classes = layout.classes().iter().map(|class| self.change_class(class, layout.tenant_share()));
        let classes: Vec<_> = classes.collect();
        self.retire_classes(&classes);
        self.unused_floors = self.classes.iter().map(|class| class.floor.saturating_sub(class.used)).sum();
        let caps = self.change_caps(layout);
        self.indices = Indices { classes, caps };
        self.tenants.change(layout.max_tenants(), self.classes.len());
        self.activate_all();
        self.hand_on(now, woken);
    }

    /// Lets a class hold so many places of its layout's ceiling from now on, at least one, whatever layouts follow; `None` is
    /// all of them.
    pub(crate) fn move_ceiling(&mut self, index: usize, to: Option<Moved>, now: Instant, woken: &mut Woken) {
        let class = &mut self.classes[index];
        class.moved = to;
        class.settle_ceiling(self.max);
        self.activate_all();
        self.hand_on(now, woken);
    }

    /// Closes: nobody is admitted from now on, and whoever waits is woken to hear it.
    pub(crate) fn close(&mut self, woken: &mut Woken) {
        self.closed = true;
        for index in 0..self.classes.len() {
            while let Some(at) = self.classes[index].line.first() {
                let wish = self.waiters.wish_of(at);
                let waker = self.take_out(at, Stage::Cancelled);
                self.dequeue(wish);
                woken.push(waker);
            }
        }
    }

    fn change_class(&mut self, layout: &ClassLayout, share: TenantShare) -> usize {
        let changes = self.changes;
        let named = self.classes.iter().position(|class| class.name == layout.name);
        if let Some(index) = named {
            self.classes[index].change(layout, share);
            return index;
        }
        let class = Class::new(layout, share);
        match self.classes.iter().position(|class| class.is_vacant(changes)) {
            Some(index) => {
                self.classes[index] = class;
                index
            }
            None => {
                self.classes.push(class);
                self.classes.len() - 1
            }
        }
    }

    fn retire_classes(&mut self, live: &[usize]) {
        let changes = self.changes;
        for (index, class) in self.classes.iter_mut().enumerate() {
            class.settle_ceiling(self.max);
            if !live.contains(&index) {
                class.floor = 0;
                class.retired.get_or_insert(changes);
            }
        }
    }

    fn change_caps(&mut self, layout: &Layout) -> Vec<usize> {
        let now = self.changes;
        let named: HashMap<_, _> =
            self.caps.iter().enumerate().map(|(index, cap)| (cap.name.clone(), index)).collect();
        for cap in &mut self.caps {
            cap.retired.get_or_insert(now);
        }
        let mut indices = Vec::with_capacity(layout.caps().len());
        for cap in layout.caps() {
            let index = named.get(&cap.name).copied();
            if let Some(index) = index {
                self.caps[index].change(cap);
            }
            indices.push(index);
        }
        // Those that stay have theirs now: what is vacant is so for good.
        let mut vacant =
            (0..self.caps.len()).filter(|&index| self.caps[index].is_vacant(now)).collect::<Vec<_>>();
        let mut place = |cap| match vacant.pop() {
            Some(index) => {
                self.caps[index] = Cap::new(cap);
                index
            }
            None => {
                self.caps.push(Cap::new(cap));
                self.caps.len() - 1
            }
        };
        let of_layout = layout.caps().iter().zip(indices);
        of_layout.map(|(cap, index)| index.unwrap_or_else(|| place(cap))).collect()
    }
}

impl Class {
    /// Takes on what a layout says.
    pub(super) fn change(&mut self, layout: &ClassLayout, share: TenantShare) {
        self.floor = layout.floor;
        self.ceiling_of_layout = layout.ceiling;
        self.queue = layout.queue;
        self.max_wait = layout.max_wait.min(LIFETIME);
        self.priority = layout.priority;
        self.share = share;
        self.tenant_queue = share.of(layout.queue);
        self.retired = None;
        self.settle_ceiling(u32::MAX);
    }

    /// What it may hold, and what one tenant may of that, by its layout and what it was moved to since.
    fn settle_ceiling(&mut self, cell: u32) {
        let most = self.ceiling_of_layout.min(cell);
        let moved = self.moved.unwrap_or(Moved { ceiling: most, shared: most });
        self.ceiling = moved.ceiling.clamp(1, most.max(1));
        self.tenant_places = self.share.of(moved.shared.clamp(1, most.max(1)));
    }

    /// Whether the index can be used for another class: nothing is counted here, and a whole change has passed since
    /// anybody could have come by a layout with this one.
    fn is_vacant(&self, changes: u64) -> bool {
        self.retired.is_some_and(|retired| retired < changes) && self.used == 0 && self.line.is_empty()
    }
}
