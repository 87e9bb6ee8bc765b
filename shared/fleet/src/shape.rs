//! A route's `shape`: requests go on evenly, and who comes early waits in a line. A line without a bound only moves a slow
//! downstream's trouble out of sight, so it has two.

use std::ops::RangeInclusive;
use std::time::Duration;

use cofferdam_model::Rate;

use crate::class::read_queue;
use crate::node::{Fields, Node};

/// How long a request may wait for its turn.
const WAITS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

/// A line's times are kept in fractions of a microsecond, as whole numbers in a double.
const MAX_TIMES: u128 = 1 << 53;

/// A leaky bucket, which all tenants of a route share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// How fast requests go on, evenly.
    pub rate: Rate,
    /// How many may wait for their turn; none where it is 0, and who comes early is refused.
    pub queue: u32,
    /// How long one may wait; nothing where nobody waits, and otherwise less than the route's timeout.
    pub max_wait: Duration,
}

impl Shape {
    /// Reads the shape of a route that answers within `timeout`.
    pub(crate) fn read(node: &Node<'_>, timeout: Duration) -> Option<Self> {
        let fields = node.fields(&["rate", "queue", "max_wait"]);
        let rate: Option<Rate> = fields.required_scalar("rate");
        // Where the number cannot be read, there is somebody to wait.
        let queue = fields
            .required("queue", "how many may wait, such as 20; 0 for nobody")
            .map(|node| read_queue(node).unwrap_or(u32::MAX));
        let max_wait = read_max_wait(&fields, queue, timeout);
        let shape = Self { rate: rate?, queue: queue?, max_wait: max_wait? };
        shape.check(&fields);
        Some(shape)
    }

    fn check(&self, fields: &Fields<'_>) {
        let Self { rate, queue, max_wait } = *self;
        let (tokens, period) = (u128::from(rate.tokens()), u128::from(rate.period_us()));
        if max_wait.as_micros() * tokens > MAX_TIMES {
            fields
                .mark_of("max_wait")
                .refuse(format_args!("a wait of {max_wait:?} is too long to be counted exactly at {rate}"));
        }
        let at_most = max_wait.as_micros() * tokens / period;
        if u128::from(queue) > at_most && queue > 0 {
            fields.mark_of("queue").warn(format_args!(
                "at {rate} no more than {at_most} ever wait: the next would wait longer than {max_wait:?}"
            ));
        }
    }
}

fn read_max_wait(fields: &Fields<'_>, queue: Option<u32>, timeout: Duration) -> Option<Duration> {
    if queue == Some(0) {
        if let Some(max_wait) = fields.get("max_wait") {
            max_wait.mark.refuse("nobody waits in a line of 0: give it a queue, or leave this out");
        }
        return Some(Duration::ZERO);
    }
    let node = fields.required("max_wait", "how long one may wait, such as 2s")?;
    let max_wait = node.duration(WAITS)?;
    if max_wait >= timeout {
        node.mark
            .refuse(format_args!("max_wait {max_wait:?} is not below the route's timeout of {timeout:?}"));
    }
    Some(max_wait)
}
