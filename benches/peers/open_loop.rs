//! Load at a fixed rate. Requests fall due at random moments (a Poisson process), whatever the proxy does, and a latency
//! runs from the moment when its request was due: a proxy that stalls cannot hide the queue before it.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

/// What is due in this time is sent and not counted.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long answers may come after the last request.
const PATIENCE: Duration = Duration::from_secs(2);

/// The timer among the connections' keys.
const TIMER: u64 = u64::MAX;

/// What to send, where, and how fast.
pub(crate) struct Plan {
    pub(crate) proxy: SocketAddr,
    pub(crate) path: String,
    pub(crate) rate: f64,
    pub(crate) connections: usize,
    pub(crate) seconds: f64,
    pub(crate) tenants: u64,
}

struct Connection {
    stream: TcpStream,
    due: Duration,
    answer: Vec<u8>,
}

struct Load {
    poll: OwnedFd,
    timer: OwnedFd,
    started: Instant,
    requests: Vec<Vec<u8>>,
    connections: Vec<Connection>,
    idle: VecDeque<usize>,
    waiting: VecDeque<Duration>,
    latencies_us: Vec<f64>,
    answers: u64,
    bad: u64,
    random: u64,
}

/// Runs the plan; the figures as one line of JSON.
pub(crate) fn run(plan: &Plan) -> String {
    let mut load = Load::connect(plan);
    let stop = WARM_UP + Duration::from_secs_f64(plan.seconds);
    let mut next = Duration::ZERO;
    let mut events: Vec<Event> = Vec::with_capacity(512);
    loop {
        let now = load.started.elapsed();
        while next <= now && next < stop {
            load.waiting.push_back(next);
            next += Duration::from_secs_f64(-(1.0 - load.fraction()).ln() / plan.rate);
        }
        load.send_what_waits();
        let done = load.idle.len() == load.connections.len() && load.waiting.is_empty();
        if now > stop + PATIENCE || (next >= stop && done) {
            return load.figures();
        }
        load.wake_in(next.min(stop + PATIENCE).saturating_sub(load.started.elapsed()));
        events.clear();
        let _ = epoll::wait(&load.poll, rustix::buffer::spare_capacity(&mut events), None);
        for event in &events {
            match event.data.u64() {
                TIMER => drop(rustix::io::read(&load.timer, &mut [0; 8])),
                index => load.read(index as usize),
            }
        }
    }
}

impl Load {
    fn connect(plan: &Plan) -> Self {
        let poll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK).unwrap();
        epoll::add(&poll, &timer, EventData::new_u64(TIMER), EventFlags::IN).unwrap();
        let request = |tenant| {
            format!("GET {} HTTP/1.1\r\nhost: bench\r\nx-tenant-id: tenant-{tenant}\r\n\r\n", plan.path)
        };
        let connections = (0..plan.connections).map(|index| {
            let stream = TcpStream::connect(plan.proxy).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_nonblocking(true).unwrap();
            epoll::add(&poll, &stream, EventData::new_u64(index as u64), EventFlags::IN).unwrap();
            Connection { stream, due: Duration::ZERO, answer: Vec::new() }
        });
        Self {
            connections: connections.collect(),
            poll,
            timer,
            started: Instant::now(),
            requests: (0..plan.tenants).map(|tenant| request(tenant).into_bytes()).collect(),
            idle: (0..plan.connections).collect(),
            waiting: VecDeque::new(),
            latencies_us: Vec::new(),
            answers: 0,
            bad: 0,
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }

    /// Xorshift: the same arrivals for every proxy.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn fraction(&mut self) -> f64 {
        (self.random() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn send_what_waits(&mut self) {
        while let Some(&due) = self.waiting.front()
            && let Some(index) = self.idle.pop_front()
        {
            self.waiting.pop_front();
            let tenant = self.random() as usize % self.requests.len();
            let connection = &mut self.connections[index];
            connection.due = due;
            connection.stream.write_all(&self.requests[tenant]).expect("a request could not be sent");
        }
    }

    fn wake_in(&self, pause: Duration) {
        // A timer of zero would be none at all.
        let value = Timespec::try_from(pause.max(Duration::from_nanos(1))).unwrap();
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).unwrap();
    }

    fn read(&mut self, index: usize) {
        let mut buffer = [0; 64 * 1024];
        let connection = &mut self.connections[index];
        match connection.stream.read(&mut buffer) {
            Ok(0) => panic!("the proxy closed a connection that it should keep"),
            Ok(n) => connection.answer.extend_from_slice(&buffer[..n]),
            Err(_) => return,
        }
        let Some(good) = whole_answer(&connection.answer) else { return };
        connection.answer.clear();
        self.idle.push_back(index);
        self.answers += 1;
        self.bad += u64::from(!good);
        if connection.due >= WARM_UP {
            self.latencies_us.push((self.started.elapsed() - connection.due).as_secs_f64() * 1e6);
        }
    }

    fn figures(mut self) -> String {
        self.latencies_us.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (self.latencies_us.len() as f64 * share) as usize;
            self.latencies_us.get(index).copied().unwrap_or(f64::MAX)
        };
        let unfinished = self.waiting.len() + self.connections.len() - self.idle.len();
        format!(
            r#"{{"requests":{},"bad":{},"p50_us":{:.1},"p99_us":{:.1}}}"#,
            self.answers,
            self.bad + unfinished as u64,
            at(0.5),
            at(0.99)
        )
    }
}

/// Whether a whole answer is a 200; nothing where more of it is to come.
fn whole_answer(bytes: &[u8]) -> Option<bool> {
    let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.expect("an answer without a length");
    (bytes.len() >= end + 4 + length).then(|| head.starts_with("HTTP/1.1 200"))
}
