//! How a move goes on, step by step: what a router says, and what follows once all have said it. It reads no clock and asks nobody.

use super::moving::{Ended, Heard, LETTING_IN_MS, Move, Phase};
use super::record::Record;

impl Record {
    /// Takes note of what a router says of the move `id`. Whether that is news.
    pub(super) fn hear(&mut self, id: &str, session: &str, heard: Heard) -> bool {
        let Some(moving) = self.moving.as_mut().filter(|moving| moving.id == id) else { return false };
        moving.routers.insert(session.to_owned(), heard) != Some(heard)
    }

    /// Takes the move as far as it may go, where `live` are the routers that live, if that is known. Whether it went on.
    pub(super) fn advance(&mut self, live: Option<&[String]>, now_ms: u64) -> bool {
        let Some(moving) = &mut self.moving else { return false };
        match moving.phase {
            Phase::Holding if now_ms >= moving.deadline_ms => {
                let why = moving.obstacles(live.unwrap_or_default());
                self.end_move(Some(format!("the time was over: {why}")), now_ms);
                true
            }
            Phase::Holding if live.is_some_and(|live| moving.have_all_said(live, Heard::Holding(0))) => {
                moving.phase = Phase::LettingIn;
                self.pin = Some(moving.pin.clone());
                true
            }
            Phase::LettingIn
                if live.is_some_and(|live| moving.have_all_said(live, Heard::LettingIn))
                    || now_ms >= moving.deadline_ms + LETTING_IN_MS =>
            {
                self.end_move(None, now_ms);
                true
            }
            _ => false,
        }
    }

    /// Ends the move: it is done, or it was undone for a reason.
    pub(super) fn end_move(&mut self, undone: Option<String>, now_ms: u64) {
        if let Some(Move { id, pin, since_ms, .. }) = self.moving.take() {
            self.moved = Some(Ended { id, to: pin.to, since_ms, ended_ms: now_ms, undone });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::word::Word;
    use super::*;

    fn holding() -> Record {
        let pin = Word {
            to: vec!["c".to_owned(), "d".to_owned()],
            since_ms: 0,
            until_ms: 1_000_000,
            author: "ops".to_owned(),
            reason: "test".to_owned(),
        };
        let mut record = Record::default();
        record.moving = Some(Move::new("one".to_owned(), pin, 0, 30_000));
        record
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn the_pin_takes_effect_once_nobody_is_inside_at_any_router_that_lives() {
        let (mut record, live) = (holding(), names(&["r1", "r2"]));
        assert!(!record.advance(Some(&live), 1), "nobody has said anything");
        assert!(record.hear("one", "r1", Heard::Holding(3)) && !record.hear("one", "r1", Heard::Holding(3)));
        assert!(!record.hear("two", "r1", Heard::Holding(0)), "of another move");
        record.hear("one", "r2", Heard::Holding(0));
        assert!(!record.advance(Some(&live), 2), "r1 has requests inside");
        record.hear("one", "r1", Heard::Holding(0));
        assert!(!record.advance(None, 3), "nobody knows who lives");
        assert!(!record.advance(Some(&names(&["r1", "r2", "r3"])), 3), "one has not said anything");
        assert!(record.advance(Some(&live), 4) && record.pin.is_some());
        assert!(!record.advance(Some(&live), 5), "nobody lets in yet");
        record.hear("one", "r1", Heard::LettingIn);
        // The other one has died.
        assert!(record.advance(Some(&names(&["r1"])), 6));
        let ended = record.moved.unwrap();
        assert_eq!((record.moving, ended.undone, ended.ended_ms), (None, None, 6));
    }

    #[test]
    fn what_is_not_done_by_its_deadline_is_undone_and_says_why() {
        let live = names(&["r1", "r2"]);
        let mut record = holding();
        record.hear("one", "r1", Heard::Holding(2));
        assert!(!record.advance(Some(&live), 29_999));
        assert!(record.advance(Some(&live), 30_000) && record.pin.is_none());
        let why = "the time was over: 2 requests were in flight at router r1; router r2 has not answered";
        assert_eq!(record.moved.unwrap().undone.as_deref(), Some(why));
        // Even where all is ready, but nobody noticed in time.
        let mut record = holding();
        record.hear("one", "r1", Heard::Holding(0));
        assert!(record.advance(Some(&names(&["r1"])), 30_000) && record.pin.is_none());
        assert!(holding().advance(None, 30_000));
    }

    #[test]
    fn a_move_whose_pin_has_taken_effect_is_done_even_where_a_router_never_says_so() {
        let (mut record, live) = (holding(), names(&["r1"]));
        record.hear("one", "r1", Heard::Holding(0));
        assert!(record.advance(Some(&live), 1));
        assert!(!record.advance(Some(&live), 30_000 + LETTING_IN_MS - 1));
        assert!(record.advance(None, 30_000 + LETTING_IN_MS));
        assert_eq!((record.moved.unwrap().undone, record.pin.is_some()), (None, true));
    }
}
