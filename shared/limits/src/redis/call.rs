//! A call of the script: operations on keys of one slot, checked and written as KEYS and ARGV. It knows no connection, and
//! leaves out `ARGV[1]`, the server's run id, which only a connection knows.

use std::fmt;
use std::time::Duration;

use ::redis::Value;

use super::keys::Key;
use super::op::{Dealing, Keeps, Op, Permits, Report, Session, Shape, Tokens, Window};
use super::reply::{Kind, Replies, ReplyError};

/// The largest number that a script, whose numbers are doubles, holds exactly.
const MAX_EXACT: u64 = 1 << 53;
/// The largest limit of a window: the script multiplies it by parts of a window.
const MAX_WINDOW_LIMIT: u64 = 1 << 36;

/// A call, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    keys: Vec<Key>,
    args: Vec<u8>,
    // Invariant: in order, each at most `args.len()`.
    ends: Vec<usize>,
    kinds: Vec<Kind>,
}

/// Gathers the operations of a [`Call`].
#[derive(Debug, Clone)]
pub struct CallBuilder {
    call: Call,
    n_groups: u32,
    error: Option<CallError>,
}

/// Why operations are not a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The script has no way to tell these apart.
    #[error("key {0} is twice in one group")]
    KeyTwice(Key),
    /// A cluster would refuse it.
    #[error("key {key} is not in the slot of {epoch}")]
    OtherSlot {
        /// The key.
        key: Key,
        /// The epoch's key, which says which slot it is.
        epoch: Key,
    },
    /// Only the server knows what it has, and only within one call is that what was meant.
    #[error("key {0} leaves out what is held, but was not in the call before")]
    NothingHeld(Key),
    /// A number of an operation that the script would not treat right.
    #[error("{what} of key {key} is out of range: {got}")]
    Range {
        /// Which number.
        what: &'static str,
        /// The operation's key; the epoch's for the TTL.
        key: Key,
        /// What it is.
        got: i128,
    },
}

impl Call {
    /// Begins a call for the slot of `epoch`.
    pub fn builder(epoch: Key, session: &Session, ttl: Duration) -> CallBuilder {
        let call = Self { keys: vec![epoch], args: Vec::new(), ends: Vec::new(), kinds: Vec::new() };
        let mut builder = CallBuilder { call, n_groups: 0, error: None };
        builder.text(session.as_str());
        builder.number("ttl", ttl.as_micros() as i128, 1, i128::from(MAX_EXACT >> 8));
        builder
    }

    /// `KEYS`: the epoch, and one for each operation.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// `ARGV[2..]`; `ARGV[1]` is the run id of the server that it goes to, or empty.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let start = |n: usize| n.checked_sub(1).map_or(0, |before| self.ends[before]);
        (0..self.ends.len()).map(move |n| &self.args[start(n)..self.ends[n]])
    }

    /// How many operations it has.
    pub fn n_ops(&self) -> usize {
        self.kinds.len()
    }

    /// Reads the server's answer to this call.
    pub fn read(&self, value: &Value) -> Result<Replies, ReplyError> {
        Replies::read(&self.kinds, value)
    }
}

impl CallBuilder {
    /// Adds an operation that is decided by itself. Its reply is at the operation's place in the call, from 0.
    pub fn op(&mut self, key: &Key, op: Op) -> &mut Self {
        self.add(0, key, &op);
        self
    }

    /// Adds operations that are granted all or none; no two have the same key.
    pub fn group(&mut self, ops: &[(&Key, Op)]) -> &mut Self {
        self.n_groups += 1;
        for (index, (key, op)) in ops.iter().enumerate() {
            if ops[..index].iter().any(|(before, _)| before == key) {
                self.fail(CallError::KeyTwice((*key).clone()));
            }
            self.add(self.n_groups, key, op);
        }
        self
    }

    /// How many operations there are so far: the place of the next one's reply.
    pub fn n_ops(&self) -> usize {
        self.call.n_ops()
    }

    /// The call; or the first thing that was wrong.
    pub fn build(self) -> Result<Call, CallError> {
        self.error.map_or(Ok(self.call), Err)
    }

    fn add(&mut self, group: u32, key: &Key, op: &Op) {
        let epoch = &self.call.keys[0];
        if key.tag() != epoch.tag() {
            let error = CallError::OtherSlot { key: key.clone(), epoch: epoch.clone() };
            self.fail(error);
        }
        if matches!(op, Op::Permits(Permits { held: None, .. })) && !self.call.keys[1..].contains(key) {
            self.fail(CallError::NothingHeld(key.clone()));
        }
        self.call.keys.push(key.clone());
        self.call.kinds.push(kind(op));
        match op {
            Op::Permits(op) => self.permits(group, op),
            Op::Tokens(op) => self.tokens(group, op),
            Op::Window(op) => self.window(group, op),
            Op::Shape(op) => self.shape(group, op),
        }
    }

    fn permits(&mut self, group: u32, op: &Permits) {
        self.head("p", group);
        self.any("limit", op.limit);
        self.any("seq", op.seq.get());
        self.number("held", op.held.map_or(-1, i128::from), -1, u32::MAX.into());
        self.any("want", op.want);
        self.any("min", op.min);
        self.dealing(op.want, op.dealing);
    }

    fn tokens(&mut self, group: u32, op: &Tokens) {
        self.head("t", group);
        self.any("n", op.bucket.rate().tokens());
        self.any("p", op.bucket.rate().period_us());
        self.any("capacity", op.bucket.capacity());
        self.report(op.report);
        self.any("want", op.want);
        self.any("min", op.min);
        self.dealing(op.want, op.dealing);
    }

    fn window(&mut self, group: u32, op: &Window) {
        self.head("w", group);
        self.number("window", op.window_s.into(), 1, u32::MAX.into());
        self.number("limit", op.limit.into(), 1, MAX_WINDOW_LIMIT.into());
        self.report(op.report);
        self.any("want", op.want);
        self.any("min", op.min);
        self.dealing(op.want, op.dealing);
    }

    fn shape(&mut self, group: u32, op: &Shape) {
        let period_us = op.rate.period_us();
        self.head("s", group);
        self.any("n", op.rate.tokens());
        self.any("p", period_us);
        self.number("depth", op.depth.into(), 0, i128::from(MAX_EXACT / period_us) - 1);
        self.number("max wait", op.max_wait.as_micros() as i128, 0, MAX_EXACT.into());
    }

    fn report(&mut self, report: Report) {
        let exact = i128::from(MAX_EXACT);
        let [seq, held, spent] = report.numbers();
        self.number("seq", seq, 0, exact);
        self.number("held", held, 0, exact);
        self.number("spent", spent, -exact, exact);
    }

    fn dealing(&mut self, want: u32, dealing: Dealing) {
        self.number("need", dealing.need.into(), 0, want.into());
        self.number("parts", dealing.parts.into(), 1, u32::MAX.into());
        self.text(match dealing.keeps {
            Keeps::Nothing => 0,
            Keeps::Spare => 1,
            Keeps::Returned => 2,
        });
    }

    fn head(&mut self, kind: &str, group: u32) {
        self.text(kind);
        self.text(group);
    }

    fn any(&mut self, what: &'static str, got: impl Into<u64>) {
        self.number(what, got.into().into(), 0, MAX_EXACT.into());
    }

    /// Adds a number of the operation that was begun last.
    fn number(&mut self, what: &'static str, got: i128, least: i128, most: i128) {
        if got < least || got > most {
            let key = self.call.keys[self.call.keys.len() - 1].clone();
            self.fail(CallError::Range { what, key, got });
        }
        self.text(got);
    }

    fn text(&mut self, text: impl fmt::Display) {
        use std::io::Write;
        // Writing to memory cannot fail.
        let _ = write!(self.call.args, "{text}");
        self.call.ends.push(self.call.args.len());
    }

    fn fail(&mut self, error: CallError) {
        self.error.get_or_insert(error);
    }
}

fn kind(op: &Op) -> Kind {
    match op {
        Op::Permits(_) => Kind::Permits,
        Op::Tokens(_) => Kind::Tokens,
        Op::Window(_) => Kind::Window,
        Op::Shape(_) => Kind::Shape,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use cofferdam_model::{Alphabet, TenantId};

    use super::*;
    use crate::BucketPolicy;
    use crate::RouteKey;
    use crate::redis::Fleet;

    const SEQ: NonZeroU64 = NonZeroU64::new(7).unwrap();
    const DEALING: Dealing = Dealing { need: 1, parts: 4, keeps: Keeps::Returned };
    const ONE: Permits = Permits { limit: 6, seq: SEQ, held: Some(4), want: 2, min: 1, dealing: DEALING };

    fn fleet() -> Fleet {
        Fleet::parse("f").unwrap()
    }

    fn tenant(id: &str) -> TenantId {
        TenantId::parse(id.as_bytes(), &Alphabet::default()).unwrap()
    }

    fn builder() -> CallBuilder {
        let session = Session::parse("session1").unwrap();
        Call::builder(fleet().epoch(225), &session, Duration::from_secs(6))
    }

    fn tokens(report: Report) -> Op {
        let bucket = BucketPolicy::new("5/s".parse().unwrap(), 10).unwrap();
        Op::Tokens(Tokens { bucket, report, want: 3, min: 2, dealing: Dealing::PLAIN })
    }

    #[test]
    fn operations_are_written_in_order_behind_the_session_and_the_ttl() {
        let (permits, bucket) = (fleet().permits(&tenant("acme")), fleet().tokens(&tenant("acme")));
        let window = fleet().window(60, &tenant("acme"));
        let lease = Report::Account { seq: SEQ, held: 5, spent: -6 };
        let dealing = Dealing { keeps: Keeps::Spare, ..Dealing::PLAIN };
        let quota = Window { window_s: 60, limit: 1000, report: lease, want: 1, min: 0, dealing };
        let mut builder = builder();
        builder.group(&[(&permits, Op::Permits(ONE)), (&bucket, tokens(Report::Spent(-4)))]);
        builder.op(&permits, Op::Permits(Permits { held: None, ..ONE }));
        builder.group(&[(&window, Op::Window(quota))]);
        assert_eq!(builder.n_ops(), 4);
        let call = builder.build().unwrap();
        let keys: Vec<_> = call.keys().iter().map(Key::as_str).collect();
        assert_eq!(keys, ["{f:225}e", "{f:225}p:acme", "{f:225}t:acme", "{f:225}p:acme", "{f:225}w60:acme"]);
        let args: Vec<_> = call.args().map(|arg| str::from_utf8(arg).unwrap()).collect();
        assert_eq!(
            args.join(" "),
            "session1 6000000 p 1 6 7 4 2 1 1 4 2 t 1 1 200000 10 0 0 -4 3 2 0 1 0 \
             p 0 6 7 -1 2 1 1 4 2 w 2 60 1000 7 5 -6 1 0 0 1 1"
        );
        assert_eq!(call.args().len(), args.len());
    }

    #[test]
    fn a_shape_has_a_slot_of_its_own() {
        let route = RouteKey(7);
        let session = Session::parse("session1").unwrap();
        let mut builder = Call::builder(fleet().shape_epoch(route), &session, Duration::from_secs(6));
        let shape = Shape { rate: "20/s".parse().unwrap(), depth: 10, max_wait: Duration::from_millis(400) };
        builder.op(&fleet().shape(route), Op::Shape(shape));
        let call = builder.build().unwrap();
        assert_eq!(call.args().skip(2).collect::<Vec<_>>().join(&b' '), b"s 0 1 50000 10 400000");
    }

    #[test]
    fn what_the_script_would_get_wrong_is_refused() {
        let (acme, other) = (fleet().permits(&tenant("acme")), fleet().permits(&tenant("globex")));
        let build = |ops: &dyn Fn(&mut CallBuilder)| {
            let mut builder = builder();
            ops(&mut builder);
            builder.build().unwrap_err()
        };
        let twice = [(&acme, Op::Permits(ONE)), (&acme, Op::Permits(ONE))];
        assert_eq!(build(&|builder| _ = builder.group(&twice)), CallError::KeyTwice(acme.clone()));
        let error = build(&|builder| _ = builder.op(&other, Op::Permits(ONE)));
        assert_eq!(error, CallError::OtherSlot { key: other.clone(), epoch: fleet().epoch(225) });
        let stored = Op::Permits(Permits { held: None, ..ONE });
        assert_eq!(build(&|builder| _ = builder.op(&acme, stored)), CallError::NothingHeld(acme.clone()));
        let bucket = fleet().tokens(&tenant("acme"));
        let error = build(&|builder| _ = builder.op(&bucket, tokens(Report::Spent(i64::MIN))));
        assert_eq!(error, CallError::Range { what: "spent", key: bucket, got: i64::MIN.into() });
    }

    #[test]
    fn a_session_is_8_to_16_small_letters_and_digits() {
        for bad in ["", "short12", "17characters12345", "Capitals1", "with:colon", "with space"] {
            assert!(Session::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Session::parse("0123456789abcdef").unwrap().as_str(), "0123456789abcdef");
    }
}
