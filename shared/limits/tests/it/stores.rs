//! The stores that the contract runs over: the embedded one, and one that has to be asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use cofferdam_limits::{
    Answer, Decision, Demand, Embedded, Grant, LevelPolicy, LimitStore, ManualClock, OwnedDemand, Refusal,
    RouteKey, Standing, StoreError, StoreMetrics,
};
use cofferdam_model::TenantId;
use tokio::sync::oneshot;

pub(crate) use crate::shared_store::{RedisExact, RedisInContainer, RedisLease};
use crate::subject::{START_US, Subject};

/// Decides at once, from memory.
pub(crate) struct AtOnce {
    clock: ManualClock,
    store: Arc<Embedded>,
}

impl Subject for AtOnce {
    const N_TRUTHS: u32 = 1;

    fn new() -> Self {
        let clock = ManualClock::at(START_US);
        Self { store: Arc::new(Embedded::new(clock.clone().into())), clock }
    }

    fn store(&self) -> Arc<dyn LimitStore> {
        self.store.clone()
    }

    fn set_us(&self, now_us: u64) {
        self.clock.set_us(now_us);
    }

    fn settle(&self) {}
}

type Reply = oneshot::Sender<Result<Decision, StoreError>>;

enum Question {
    Admit(Box<OwnedDemand>, Reply),
    Settle(mpsc::Sender<()>),
}

/// Has to be asked, and answers late, from a thread of its own. What it decides is what [`Embedded`] decides; what it falls
/// back to is another one.
pub(crate) struct Asked {
    store: Arc<Embedded>,
    pub(crate) fallback: Arc<Embedded>,
    questions: mpsc::Sender<Question>,
    n_asked: AtomicUsize,
    // Every so many questions have no answer, until somebody settles; 0 is none.
    never: usize,
    limbo: Mutex<Vec<oneshot::Receiver<Result<Decision, StoreError>>>>,
}

impl Asked {
    pub(crate) fn new(clock: ManualClock, never: usize) -> Arc<Self> {
        let store = Arc::new(Embedded::new(clock.into()));
        let fallback = Arc::new(Embedded::new(ManualClock::at(START_US).into()));
        let (questions, inbox) = mpsc::channel();
        let decider = Arc::clone(&store);
        std::thread::spawn(move || answer(&decider, &inbox));
        let (n_asked, limbo) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { store, fallback, questions, n_asked, never, limbo })
    }

    /// Everything that was asked is decided, and every answer that nobody waits for any more has been dropped.
    pub(crate) fn settle(&self) {
        let (done, wait) = mpsc::channel();
        self.questions.send(Question::Settle(done)).unwrap();
        wait.recv().unwrap();
        self.limbo.lock().unwrap().clear();
    }
}

fn answer(store: &Embedded, inbox: &mpsc::Receiver<Question>) {
    for question in inbox {
        match question {
            Question::Settle(done) => done.send(()).unwrap(),
            Question::Admit(demand, reply) => {
                let mut grant = Grant::new();
                let decision = match store.admit(&demand.lend(), &mut grant) {
                    Answer::Admitted => Decision::Admitted(grant),
                    Answer::Refused(refusal) => Decision::Refused(refusal),
                    Answer::Ask(_) => unreachable!("the embedded store never has to be asked"),
                };
                // Where nobody waits any more, the decision comes back here, and the grant in it is dropped.
                let _ = reply.send(Ok(decision));
            }
        }
    }
}

impl LimitStore for Asked {
    fn admit(&self, demand: &Demand<'_>, _: &mut Grant) -> Answer {
        let (reply, answer) = oneshot::channel();
        let question = Question::Admit(Box::new(demand.owned()), reply);
        let lost = self.questions.send(question).is_err();
        let n_asked = self.n_asked.fetch_add(1, Ordering::Relaxed) + 1;
        if self.never > 0 && n_asked.is_multiple_of(self.never) {
            // It is decided, and what was granted is on its way for ever: nobody hears of it.
            self.limbo.lock().unwrap().push(answer);
            return Answer::Ask(Box::pin(std::future::pending()));
        }
        Answer::Ask(Box::pin(async move {
            if lost { Err(StoreError::Gone) } else { answer.await.unwrap_or(Err(StoreError::Gone)) }
        }))
    }

    fn fall_back(&self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Refusal> {
        self.fallback.fall_back(demand, grant)
    }

    fn look(&self, tenant: &TenantId, route: RouteKey, policy: &LevelPolicy) -> Standing {
        self.store.look(tenant, route, policy)
    }

    fn metrics(&self) -> StoreMetrics {
        self.store.metrics()
    }
}

/// Answers late, from another thread, and always.
pub(crate) struct Late(ManualClock, Arc<Asked>);

impl Subject for Late {
    const N_TRUTHS: u32 = 1;

    fn new() -> Self {
        let clock = ManualClock::at(START_US);
        Self(clock.clone(), Asked::new(clock, 0))
    }

    fn store(&self) -> Arc<dyn LimitStore> {
        self.1.clone()
    }

    fn set_us(&self, now_us: u64) {
        self.0.set_us(now_us);
    }

    fn settle(&self) {
        self.1.settle();
    }
}

/// Answers late, from another thread, and sometimes never; then it falls back.
pub(crate) struct SometimesNever(ManualClock, Arc<Asked>);

impl Subject for SometimesNever {
    const N_TRUTHS: u32 = 2;

    fn new() -> Self {
        let clock = ManualClock::at(START_US);
        Self(clock.clone(), Asked::new(clock, 3))
    }

    fn store(&self) -> Arc<dyn LimitStore> {
        self.1.clone()
    }

    fn fallback(&self) -> Option<Arc<dyn LimitStore>> {
        Some(self.1.fallback.clone())
    }

    fn set_us(&self, now_us: u64) {
        self.0.set_us(now_us);
    }

    fn settle(&self) {
        self.1.settle();
    }
}
