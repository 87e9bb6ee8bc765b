//! Drills: faults that an operator lets loose on purpose, to see that a compartment keeps them in. They strike behind the gate,
//! where a backend's own faults would, and end by themselves. No agent has any, unless it was started so that it may.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use cofferdam_model::{ClassName, TenantId};
use http::StatusCode;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::{Instant, sleep_until};

/// Drills that may go on at once.
pub(crate) const MOST: usize = 16;

/// The drills of one agent.
#[derive(Debug, Default)]
pub(crate) struct Drills {
    /// In the order in which they began. One that has ended stays until the next begins, and strikes nobody.
    going_on: ArcSwap<Vec<Arc<Drill>>>,
    /// Whoever changes them, and the next one's number.
    next: Mutex<u64>,
}

/// One drill.
#[derive(Debug)]
pub(crate) struct Drill {
    pub(crate) number: u64,
    pub(crate) whom: Whom,
    pub(crate) what: What,
    pub(crate) until: SystemTime,
    ends: Instant,
    struck: AtomicU64,
}

/// Whom it strikes: whatever is named has to agree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Whom {
    pub(crate) class: Option<ClassName>,
    pub(crate) tenant: Option<TenantId>,
    pub(crate) dependency: Option<String>,
}

/// Who comes to the backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comer<'a> {
    pub(crate) class: &'a ClassName,
    pub(crate) tenant: &'a TenantId,
    pub(crate) dependency: Option<&'a str>,
    /// When its answer must be there.
    pub(crate) deadline: Instant,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// It comes to the backend so much later.
    Latency(Duration),
    /// It is answered this instead.
    Status(StatusCode),
    /// It comes to nothing, until its deadline.
    Hang,
}

/// How a drill ends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Struck {
    /// With this status.
    #[error("a drill answers {0}")]
    Status(StatusCode),
    /// By its deadline.
    #[error("a drill held it until its deadline")]
    Deadline,
}

/// There are as many drills as there may be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MOST} drills go on already")]
pub(crate) struct TooMany;

impl Drills {
    /// Begins a drill that ends after `lasting`.
    pub(crate) fn begin(&self, whom: Whom, what: What, lasting: Duration) -> Result<Arc<Drill>, TooMany> {
        let mut next = self.next.lock();
        let mut drills = self.going_on(Instant::now());
        if drills.len() >= MOST {
            return Err(TooMany);
        }
        *next += 1;
        let (ends, until) = (Instant::now() + lasting, SystemTime::now() + lasting);
        let drill = Arc::new(Drill { number: *next, whom, what, until, ends, struck: AtomicU64::new(0) });
        drills.push(Arc::clone(&drill));
        self.going_on.store(Arc::new(drills));
        tracing::warn!(number = drill.number, %drill, ?lasting, "a drill begins");
        Ok(drill)
    }

    /// Ends the drill of that number, or all; how many that were.
    pub(crate) fn end(&self, number: Option<u64>) -> usize {
        let _next = self.next.lock();
        let is_meant = |drill: &Arc<Drill>| number.is_none_or(|number| drill.number == number);
        let (ended, left): (Vec<_>, Vec<_>) = self.going_on(Instant::now()).into_iter().partition(is_meant);
        self.going_on.store(Arc::new(left));
        for drill in &ended {
            tracing::warn!(number = drill.number, %drill, struck = drill.struck(), "a drill was ended");
        }
        ended.len()
    }

    /// Those that go on at `now`.
    pub(crate) fn going_on(&self, now: Instant) -> Vec<Arc<Drill>> {
        self.going_on.load().iter().filter(|drill| now < drill.ends).cloned().collect()
    }

    /// Lets the first drill that means `comer` strike it, if any does.
    pub(crate) async fn strike(&self, comer: Comer<'_>) -> Result<(), Struck> {
        let Some(drill) = self.meant_for(&comer) else { return Ok(()) };
        drill.struck.fetch_add(1, Ordering::Relaxed);
        match drill.what {
            What::Status(status) => Err(Struck::Status(status)),
            What::Latency(latency) => {
                let late = Instant::now() + latency;
                sleep_until(late.min(comer.deadline)).await;
                if late < comer.deadline { Ok(()) } else { Err(Struck::Deadline) }
            }
            What::Hang => {
                sleep_until(comer.deadline).await;
                Err(Struck::Deadline)
            }
        }
    }

    /// Whether a drill makes `comer` late.
    pub(crate) fn delays(&self, comer: &Comer<'_>) -> bool {
        self.meant_for(comer).is_some_and(|drill| matches!(drill.what, What::Latency(_)))
    }

    fn meant_for(&self, comer: &Comer<'_>) -> Option<Arc<Drill>> {
        let drills = self.going_on.load();
        if drills.is_empty() {
            return None;
        }
        let now = Instant::now();
        drills.iter().find(|drill| now < drill.ends && drill.whom.means(comer)).cloned()
    }
}

/// Shows how many go on, so that nobody takes a drill for the real thing.
#[derive(Debug)]
pub(crate) struct DrillsCollector(pub(crate) Arc<Drills>);

impl Collector for DrillsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) =
            ("cofferdam_agent_drills", "Drills that go on: faults that were let loose on purpose");
        let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(self.0.going_on(Instant::now()).len() as f64).encode(gauge)
    }
}

impl Drill {
    /// What it does, without the name of a tenant: for listeners that tell no names.
    pub(crate) fn without_names(&self) -> String {
        let Whom { class, tenant, dependency } = &self.whom;
        let mut text = self.what.to_string();
        let class = class.as_ref().map(|name| format!(" for class {name}"));
        let dependency = dependency.as_ref().map(|name| format!(" for dependency {name}"));
        let tenant = tenant.as_ref().map(|_| " for one tenant".to_owned());
        text.extend([class, dependency, tenant].into_iter().flatten());
        text
    }

    /// The requests that it struck.
    pub(crate) fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }
}

impl Whom {
    fn means(&self, comer: &Comer<'_>) -> bool {
        self.class.as_ref().is_none_or(|class| class == comer.class)
            && self.tenant.as_ref().is_none_or(|tenant| tenant == comer.tenant)
            && self.dependency.as_deref().is_none_or(|dependency| Some(dependency) == comer.dependency)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(latency) => write!(f, "latency of {latency:?}"),
            Self::Status(status) => write!(f, "status {}", status.as_u16()),
            Self::Hang => f.write_str("hang"),
        }
    }
}

impl fmt::Display for Drill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for", self.what)?;
        let Whom { class, tenant, dependency } = &self.whom;
        let tenant = tenant.as_ref().map(TenantId::as_str);
        for (kind, name) in [
            ("class", class.as_ref().map(ClassName::as_str)),
            ("tenant", tenant),
            ("dependency", dependency.as_deref()),
        ] {
            if let Some(name) = name {
                write!(f, " {kind} {name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Alphabet;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name.as_bytes(), &Alphabet::default()).unwrap()
    }

    fn class(name: &str) -> ClassName {
        ClassName::parse(name).unwrap()
    }

    async fn strike(
        drills: &Drills,
        who: &str,
        of: &str,
        patience: Duration,
    ) -> (Result<(), Struck>, Duration) {
        let (tenant, class, came) = (tenant(who), class(of), Instant::now());
        let deadline = came + patience;
        let struck =
            drills.strike(Comer { class: &class, tenant: &tenant, dependency: Some("db"), deadline }).await;
        (struck, came.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_drill_strikes_whom_it_means_and_nobody_else() {
        // P26
        let drills = Drills::default();
        let search = Whom { class: Some(class("search")), ..Whom::default() };
        let acme = Whom { tenant: Some(tenant("acme")), ..Whom::default() };
        let nobody = Whom { dependency: Some("mail".to_owned()), ..Whom::default() };
        drills.begin(nobody, What::Hang, MINUTE).unwrap();
        drills.begin(search, What::Latency(Duration::from_millis(200)), MINUTE).unwrap();
        drills.begin(acme, What::Status(StatusCode::BAD_GATEWAY), MINUTE).unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(strike(&drills, "globex", "checkout", second).await, (Ok(()), Duration::ZERO));
        assert_eq!(strike(&drills, "globex", "search", second).await, (Ok(()), Duration::from_millis(200)));
        let bad = Err(Struck::Status(StatusCode::BAD_GATEWAY));
        assert_eq!(strike(&drills, "acme", "checkout", second).await, (bad, Duration::ZERO));
        let short = Duration::from_millis(100);
        assert_eq!(strike(&drills, "globex", "search", short).await, (Err(Struck::Deadline), short));
        let struck: Vec<_> = drills.going_on(Instant::now()).iter().map(|drill| drill.struck()).collect();
        assert_eq!(struck, [0, 2, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hang_lasts_until_the_deadline_and_a_drill_until_its_end() {
        let drills = Drills::default();
        let all = Whom { dependency: Some("db".to_owned()), ..Whom::default() };
        drills.begin(all, What::Hang, MINUTE).unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(strike(&drills, "acme", "search", second).await, (Err(Struck::Deadline), second));
        tokio::time::sleep(MINUTE).await;
        assert_eq!(strike(&drills, "acme", "search", second).await, (Ok(()), Duration::ZERO));
        assert!(drills.going_on(Instant::now()).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn drills_are_ended_by_number_or_all_at_once_and_there_are_not_too_many() {
        let drills = Drills::default();
        let begin = || drills.begin(Whom::default(), What::Hang, MINUTE);
        for number in 1..=MOST as u64 {
            assert_eq!(begin().unwrap().number, number);
        }
        assert_eq!(begin().unwrap_err(), TooMany);
        assert_eq!((drills.end(Some(3)), drills.end(Some(3))), (1, 0));
        assert_eq!(begin().unwrap().number, 17);
        assert_eq!(drills.end(None), MOST);
        begin().unwrap();
        tokio::time::sleep(MINUTE).await;
        for _ in 0..MOST {
            begin().unwrap();
        }
    }
}
