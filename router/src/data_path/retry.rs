//! The one rule on retries, as a table: what an attempt's fault allows next. It knows no sockets.
//!
//! - A connect that failed cost nothing: the next cell is tried. So it is where this router has as many connections to the cell
//!   as it may, which says nothing of the cell.
//! - A reused connection that died before any byte of the answer gets one fresh connection to the same cell, if the
//!   request is idempotent or none of it was written.
//! - After bytes were sent on a fresh connection, an idempotent request is tried once more, on the next cell.
//! - An agent that refused for lack of room in its cell executed nothing: the next cell is tried.
//! - What the tenant or its class caused stays where it is, and so does what has passed its deadline.
//! - A body of which a part was let go is never sent again.

use cofferdam_model::{CallEnd, CellReason, CellRefusal, RefusalCause};

/// Why an attempt has no answer for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// There was no connection.
    Connect,
    /// There was none, since this router has all that it may.
    Full,
    /// It is not spoken to in the protocol that the request asks for.
    NotSpoken,
    /// A connection was found closed before anything was written.
    Unsent,
    /// The connection died before an answer.
    Lost {
        /// Whether it had served another exchange before.
        reused: bool,
    },
    /// The agent lost its backend while that had the request.
    BackendLost {
        /// Whether that was on a connection that had been kept, and a new one stands.
        stale: bool,
    },
    /// The answer was not HTTP.
    Malformed,
    /// The agent refused.
    Refused(CellRefusal),
    /// The deadline passed.
    Deadline,
    /// The client's own body is larger than it may be.
    BodyTooLarge,
    /// The client sent nothing of its body for too long.
    BodyIdle,
    /// The client still had to send some of its body when the deadline passed.
    BodySlow,
    /// The client's own body broke off.
    BodyBroken,
}

/// What is known of the request that has the fault.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    /// Its method may be executed twice.
    pub(super) idempotent: bool,
    /// Its body can be sent again from the first byte.
    pub(super) replayable: bool,
    /// It was tried again after it may have been executed.
    pub(super) retried: bool,
    /// This cell was given a fresh connection after a reused one died.
    pub(super) refreshed: bool,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The same cell, on a fresh connection.
    SameCell,
    /// The next cell of the shard; nothing has been executed.
    NextCell,
    /// The next cell of the shard, though the request may have been executed.
    Retry,
    /// Nothing: the fault is answered.
    Answer,
}

impl Fault {
    /// The fault's word in metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Full => "connections_full",
            Self::NotSpoken => "not_spoken",
            Self::Unsent => "unsent",
            Self::Lost { reused: true } => "stale",
            Self::Lost { reused: false } => "lost",
            Self::BackendLost { stale: false } => "backend_lost",
            Self::BackendLost { stale: true } => "backend_stale",
            Self::Malformed => "malformed",
            Self::Refused(refusal) => refused(refusal),
            Self::Deadline => "deadline",
            Self::BodyTooLarge => "body_too_large",
            Self::BodyIdle => "body_idle",
            Self::BodySlow => "body_slow",
            Self::BodyBroken => "body_broken",
        }
    }

    /// How the attempt ended, which says what it counts against.
    pub(super) fn call_end(self) -> CallEnd {
        match self {
            Self::Connect => CallEnd::NoConnection,
            Self::Full => CallEnd::ConnectionsFull,
            Self::NotSpoken => CallEnd::NotSpoken,
            Self::Unsent => CallEnd::Unread,
            Self::Lost { .. } | Self::BackendLost { stale: false } => CallEnd::Lost,
            Self::BackendLost { stale: true } => CallEnd::Aged,
            Self::Malformed => CallEnd::Malformed,
            Self::Refused(refused) => match refused.reason {
                CellReason::Tenant => CallEnd::RefusedTenant,
                CellReason::Class => CallEnd::RefusedClass,
                CellReason::Cell => CallEnd::RefusedCell,
            },
            Self::Deadline => CallEnd::RouteTimeout,
            Self::BodyTooLarge => CallEnd::BodyTooLarge,
            Self::BodyIdle => CallEnd::BodyIdle,
            Self::BodySlow => CallEnd::BodySlow,
            Self::BodyBroken => CallEnd::BodyBroken,
        }
    }

    /// Whether the cell failed, and not the request, its tenant or its time: then the cell is no less busy for it.
    pub(super) fn is_the_cells(self) -> bool {
        self.call_end().charge().penalty
    }

    /// Whether the cell was lost with the request in flight on it, as far as that is known without another connection; `broke`
    /// says that the attempt before this one ended with a connection to the same cell that had been kept.
    pub(super) fn is_a_loss(self, broke: bool) -> bool {
        match self {
            Self::Lost { reused } => !reused,
            Self::BackendLost { stale } => !stale,
            Self::Connect => broke,
            _ => false,
        }
    }

    /// Whether a backend may have seen the request.
    pub(super) fn reached(self) -> bool {
        !matches!(self, Self::Connect | Self::Full | Self::NotSpoken | Self::Unsent | Self::Refused(_))
    }

    /// Whether going on from the cell costs a retry: it may have executed the request, in this attempt or in the one before.
    /// What was lost of age reached nobody, and `broke` says that this may have been more than that where no fresh connection
    /// stands.
    pub(super) fn costs(self, broke: bool) -> bool {
        self.reached() || broke && matches!(self, Self::Connect | Self::Unsent)
    }
}

/// The word of an agent's refusal in metrics.
fn refused(refusal: CellRefusal) -> &'static str {
    match (refusal.cause, refusal.reason) {
        (RefusalCause::Full, CellReason::Tenant) => "refused_tenant",
        (RefusalCause::Full, CellReason::Class) => "refused_class",
        (RefusalCause::Full, CellReason::Cell) => "refused_cell",
        (RefusalCause::Cap, _) => "refused_cap",
        (RefusalCause::BackendUnreachable, _) => "backend_unreachable",
        (RefusalCause::BreakerOpen, CellReason::Cell) => "backend_breaker_open",
        (RefusalCause::BreakerOpen, _) => "dependency_breaker_open",
        (RefusalCause::Draining, _) => "draining",
    }
}

/// The rule.
pub(super) fn next_step(fault: Fault, facts: Facts) -> Step {
    if !facts.replayable {
        return Step::Answer;
    }
    match fault {
        Fault::Connect | Fault::Full | Fault::NotSpoken => Step::NextCell,
        Fault::Refused(refused) if refused.reason == CellReason::Cell => Step::NextCell,
        Fault::Unsent if facts.refreshed => Step::NextCell,
        Fault::Unsent => Step::SameCell,
        Fault::Lost { reused: true } if facts.idempotent && !facts.refreshed => Step::SameCell,
        Fault::Lost { .. } | Fault::BackendLost { .. } if facts.idempotent && !facts.retried => Step::Retry,
        _ => Step::Answer,
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Again;

    use super::*;

    const GET: Facts = Facts { idempotent: true, replayable: true, retried: false, refreshed: false };
    const POST: Facts = Facts { idempotent: false, ..GET };

    #[test]
    fn the_rule_is_what_the_table_of_ends_says() {
        let refusals = [CellReason::Tenant, CellReason::Class, CellReason::Cell]
            .map(|reason| Fault::Refused(CellRefusal::full(reason)));
        let others = [
            Fault::Connect,
            Fault::Full,
            Fault::NotSpoken,
            Fault::Unsent,
            Fault::Lost { reused: false },
            Fault::BackendLost { stale: false },
            Fault::BackendLost { stale: true },
            Fault::Malformed,
            Fault::Deadline,
            Fault::BodyTooLarge,
            Fault::BodyIdle,
            Fault::BodySlow,
            Fault::BodyBroken,
        ];
        for fault in refusals.into_iter().chain(others) {
            let charge = fault.call_end().charge();
            let again = match next_step(fault, Facts { refreshed: true, ..GET }) {
                Step::Answer => Again::No,
                Step::SameCell | Step::NextCell => Again::Free,
                Step::Retry => Again::Paid,
            };
            assert_eq!((charge.again, charge.loss), (again, fault.is_a_loss(false)), "{fault:?}");
            assert_eq!(fault.costs(false) && again != Again::No, again == Again::Paid, "{fault:?}");
        }
    }

    #[test]
    fn what_was_not_sent_goes_on_whatever_the_method() {
        for facts in [GET, POST] {
            assert_eq!(next_step(Fault::Connect, facts), Step::NextCell);
            assert_eq!(next_step(Fault::Full, facts), Step::NextCell);
            assert_eq!(next_step(Fault::Unsent, facts), Step::SameCell);
            for cause in RefusalCause::ALL {
                let refusal = CellRefusal { reason: CellReason::Cell, cause };
                assert_eq!(next_step(Fault::Refused(refusal), facts), Step::NextCell, "{cause:?}");
            }
        }
    }

    #[test]
    fn what_may_have_been_executed_is_tried_once_more_if_idempotent() {
        let fresh = Fault::Lost { reused: false };
        assert_eq!(next_step(fresh, GET), Step::Retry);
        assert_eq!(next_step(Fault::BackendLost { stale: false }, GET), Step::Retry);
        assert_eq!(next_step(fresh, Facts { retried: true, ..GET }), Step::Answer);
        assert_eq!(next_step(fresh, POST), Step::Answer);
        for stale in [false, true] {
            assert_eq!(next_step(Fault::BackendLost { stale }, POST), Step::Answer);
        }
    }

    #[test]
    fn a_cell_that_takes_no_connection_behind_one_that_broke_was_lost_and_our_own_bound_says_nothing() {
        for (fault, is_lost) in [(Fault::Connect, true), (Fault::Full, false)] {
            assert_eq!((fault.is_a_loss(true), fault.costs(true)), (is_lost, is_lost), "{fault:?}");
            assert!(!fault.is_a_loss(false) && !fault.costs(false) && !fault.reached());
        }
        assert!(Fault::Connect.is_the_cells() && !Fault::Full.is_the_cells());
    }

    #[test]
    fn a_stale_connection_gets_one_fresh_one_to_the_same_cell() {
        let stale = Fault::Lost { reused: true };
        assert_eq!(next_step(stale, GET), Step::SameCell);
        assert_eq!(next_step(stale, Facts { refreshed: true, ..GET }), Step::Retry);
        assert_eq!(next_step(stale, POST), Step::Answer);
    }

    #[test]
    fn overload_that_a_tenant_or_class_caused_never_moves() {
        for reason in [CellReason::Tenant, CellReason::Class] {
            for cause in RefusalCause::ALL {
                let refusal = CellRefusal { reason, cause };
                assert_eq!(next_step(Fault::Refused(refusal), GET), Step::Answer, "{refusal:?}");
            }
        }
        for fault in
            [Fault::Malformed, Fault::Deadline, Fault::BodyTooLarge, Fault::BodyIdle, Fault::BodyBroken]
        {
            assert_eq!(next_step(fault, GET), Step::Answer);
        }
    }

    #[test]
    fn a_body_that_was_let_go_is_never_sent_again() {
        let spent = Facts { replayable: false, ..GET };
        for fault in [
            Fault::Unsent,
            Fault::Lost { reused: false },
            Fault::Refused(CellRefusal::full(CellReason::Cell)),
        ] {
            assert_eq!(next_step(fault, spent), Step::Answer);
        }
    }
}
