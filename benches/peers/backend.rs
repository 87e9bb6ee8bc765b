//! The backend: one thread, one epoll, a port for each cell. `GET .../N` answers N bytes; answers are made once. It
//! knows no other method and no request body.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// Bytes of an answer whose path names no size.
const DEFAULT_SIZE: usize = 128;

struct Connection {
    stream: TcpStream,
    asked: Vec<u8>,
    unsent: Vec<u8>,
}

/// Answers on `n` ports from `first_port` on, until the process is ended.
pub(crate) fn serve(first_port: u16, n: u16) {
    let poll = epoll::create(CreateFlags::CLOEXEC).unwrap();
    let mut listeners = HashMap::new();
    for port in first_port..first_port + n {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let key = listener.as_raw_fd() as u64;
        epoll::add(&poll, &listener, EventData::new_u64(key), EventFlags::IN).unwrap();
        listeners.insert(key, listener);
    }
    let (mut connections, mut answers) = (HashMap::new(), HashMap::new());
    let mut events: Vec<Event> = Vec::with_capacity(512);
    loop {
        events.clear();
        // A signal that interrupts the wait brings no event.
        let _ = epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None);
        for event in &events {
            let key = event.data.u64();
            if let Some(listener) = listeners.get(&key) {
                accept(listener, &poll, &mut connections);
            } else if let Some(connection) = connections.get_mut(&key)
                && !connection.turn(&mut answers)
            {
                connections.remove(&key);
            }
        }
    }
}

fn accept(listener: &TcpListener, poll: &OwnedFd, connections: &mut HashMap<u64, Connection>) {
    while let Ok((stream, _)) = listener.accept() {
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        let key = stream.as_raw_fd() as u64;
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(poll, &stream, EventData::new_u64(key), interest).unwrap();
        connections.insert(key, Connection { stream, asked: Vec::new(), unsent: Vec::new() });
    }
}

impl Connection {
    /// Reads and answers as far as the socket allows; whether the connection goes on.
    fn turn(&mut self, answers: &mut HashMap<usize, Vec<u8>>) -> bool {
        let mut buffer = [0; 16 * 1024];
        let mut open = true;
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => open = false,
                Ok(n) => {
                    self.asked.extend_from_slice(&buffer[..n]);
                    if n == buffer.len() {
                        continue;
                    }
                }
                Err(error) => open = error.kind() == ErrorKind::WouldBlock,
            }
            break;
        }
        while let Some(end) = self.asked.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let size = size_asked(&self.asked[..end]);
            self.unsent.extend_from_slice(answers.entry(size).or_insert_with(|| answer(size)));
            self.asked.drain(..end + 4);
        }
        open && self.send()
    }

    fn send(&mut self) -> bool {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match self.stream.write(&self.unsent[sent..]) {
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        self.unsent.drain(..sent);
        true
    }
}

fn size_asked(head: &[u8]) -> usize {
    let path = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let last = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    std::str::from_utf8(last).ok().and_then(|size| size.parse().ok()).unwrap_or(DEFAULT_SIZE)
}

fn answer(size: usize) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {size}\r\n\r\n");
    let mut answer = head.into_bytes();
    answer.resize(answer.len() + size, b'x');
    answer
}
