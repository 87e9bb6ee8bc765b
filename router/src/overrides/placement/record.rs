//! What is said of one tenant's cells, as it is kept: where it is pinned, where it is in quarantine, and which cells it has come to
//! within the hour. All of it is one value, so that it is changed in one step.

use cofferdam_model::CellId;
use cofferdam_placement::Reason;
use serde::{Deserialize, Serialize};

use super::moving::{Ended, Move};
use super::word::{Touched, Word};

/// Everything that is said of a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    // Stays the first field, for the store's script.
    until_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quarantine: Option<Word>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pin: Option<Word>,
    /// The cells that it has come to by either, the oldest first. It outlives both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) touched: Vec<Touched>,
    /// Where it goes on to be moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) moving: Option<Move>,
    /// How the last move ended, for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) moved: Option<Ended>,
}

/// More new cells than a tenant may come to within an hour.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} would make {n} new cells within an hour, and placement.max_new_cells is {most}{}",
    .new.join(", "),
    .next_s.map_or_else(String::new, |next_s| format!(": one counts no more in {next_s} s"))
)]
pub(crate) struct TooManyNew {
    new: Vec<String>,
    n: usize,
    most: u32,
    next_s: Option<u64>,
}

impl Record {
    pub(super) fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// Where it says so: by a pin or by a quarantine.
    pub(super) fn word_mut(&mut self, of: Reason) -> &mut Option<Word> {
        if of == Reason::Quarantine { &mut self.quarantine } else { &mut self.pin }
    }

    /// What binds at that time, where the fleet file says nothing.
    pub(super) fn binding(&self, now_ms: u64) -> Option<&Word> {
        [&self.quarantine, &self.pin].into_iter().flatten().find(|word| word.is_live(now_ms))
    }

    /// Takes note that the tenant comes to `cells`; those in `known` it has already.
    pub(super) fn touch(
        &mut self,
        cells: &[CellId],
        known: &[String],
        most: u32,
        now_ms: u64,
    ) -> Result<(), TooManyNew> {
        self.forget(now_ms);
        let is_known = |cell: &str| {
            known.iter().any(|known| known == cell) || self.touched.iter().any(|touched| touched.cell == cell)
        };
        let new = cells.iter().map(CellId::as_str).filter(|cell| !is_known(cell));
        let new: Vec<String> = new.map(str::to_owned).collect();
        let n = self.touched.len() + new.len();
        if !new.is_empty() && n > most as usize {
            let next_ms = self.touched.first().map(|first| first.ends_ms().saturating_sub(now_ms));
            return Err(TooManyNew { new, n, most, next_s: next_ms.map(|ms| ms.div_ceil(1000)) });
        }
        self.touched.extend(new.into_iter().map(|cell| Touched { cell, at_ms: now_ms }));
        Ok(())
    }

    /// The cells that it has come to within the hour before, the oldest first.
    pub(super) fn touched_at(&self, now_ms: u64) -> Vec<String> {
        let touched = self.touched.iter().filter(|touched| touched.ends_ms() > now_ms);
        touched.map(|touched| touched.cell.clone()).collect()
    }

    /// Without what has ended; nothing where all has.
    pub(super) fn settled(mut self, now_ms: u64) -> Option<Self> {
        self.forget(now_ms);
        for word in [&mut self.quarantine, &mut self.pin] {
            *word = word.take().filter(|word| word.is_live(now_ms));
        }
        self.moved = self.moved.take().filter(|moved| now_ms < moved.until_ms());
        let words = [&self.quarantine, &self.pin].into_iter().flatten().map(|word| word.until_ms);
        let moves = [self.moving.as_ref().map(Move::until_ms), self.moved.as_ref().map(Ended::until_ms)];
        let ends = words.chain(self.touched.iter().map(Touched::ends_ms)).chain(moves.into_iter().flatten());
        self.until_ms = ends.max().unwrap_or(0);
        (self.until_ms > now_ms).then_some(self)
    }

    fn forget(&mut self, now_ms: u64) {
        self.touched.retain(|touched| touched.ends_ms() > now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(names: &str) -> Vec<CellId> {
        names.split(' ').map(|name| CellId::parse(name).unwrap()).collect()
    }

    fn word(to: &str, until_ms: u64) -> Word {
        let to = to.split(' ').map(str::to_owned).collect();
        Word { to, since_ms: 0, until_ms, author: "ops".to_owned(), reason: "test".to_owned() }
    }

    #[test]
    fn cells_are_new_for_an_hour_and_only_where_the_tenant_has_not_had_them() {
        let (mut record, known) = (Record::default(), ["a".to_owned(), "b".to_owned()]);
        let mut touch = |names, now_ms| record.touch(&cells(names), &known, 4, now_ms);
        assert_eq!(touch("c d", 0), Ok(()));
        assert_eq!(touch("c a", 1_000), Ok(()), "both are known");
        assert_eq!(touch("q1 q2", 60_000), Ok(()));
        let refused = touch("e c", 61_000).unwrap_err().to_string();
        assert_eq!(
            refused,
            "e would make 5 new cells within an hour, and placement.max_new_cells is 4: one counts no more in 3539 s"
        );
        assert_eq!(touch("e f", 3_599_999).unwrap_err().n, 6);
        assert_eq!(touch("e f", 3_600_000), Ok(()), "the first two count no more");
        assert!(touch("c", 3_600_001).is_err());
        assert!(Record::default().touch(&cells("c"), &known, 0, 0).is_err());
        assert_eq!(Record::default().touch(&cells("a"), &known, 0, 0), Ok(()));
    }

    #[test]
    fn what_has_ended_is_left_out_and_the_rest_ends_with_its_last_part() {
        let mut record = Record { pin: Some(word("c d", 5_000)), ..Record::default() };
        record.quarantine = Some(word("q", 2_000));
        let to = |record: &Record, now_ms| record.binding(now_ms).map(|word| word.to.join(" "));
        assert_eq!(
            [1_000, 2_000, 5_000].map(|now_ms| to(&record, now_ms)),
            [Some("q".to_owned()), Some("c d".to_owned()), None]
        );
        let settled = record.clone().settled(3_000).unwrap();
        assert_eq!((settled.until_ms, settled.quarantine.is_none()), (5_000, true));
        assert_eq!(record.clone().settled(5_000), None);
        record.touch(&cells("c"), &[], 4, 4_000).unwrap();
        assert_eq!(record.settled(5_000).unwrap().until_ms, 3_604_000);
    }

    #[test]
    fn it_opens_with_its_end_and_reads_back_as_itself() {
        let mut whole = Record { pin: Some(word("c d", 5_000)), ..Record::default() };
        whole.touch(&cells("c d"), &[], 4, 0).unwrap();
        for record in [whole.settled(1).unwrap(), Record::default()] {
            let text = serde_json::to_string(&record).unwrap();
            assert!(text.starts_with(&format!("{{\"until_ms\":{}", record.until_ms)), "{text}");
            assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
        }
    }
}
