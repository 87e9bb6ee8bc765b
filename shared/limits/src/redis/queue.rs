//! Who has something to say to the store, each at most once, from every worker to the one task that calls. It does not know
//! what they have to say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// What is in the queue.
#[derive(Debug)]
pub(super) enum Item<T> {
    /// One who has something to say.
    Subject(Arc<T>),
    /// Somebody who waits until everything was said.
    Settle(oneshot::Sender<()>),
    /// All that idles is to go back first.
    Leave(oneshot::Sender<()>),
}

/// Where they are put. It is at most as long as there are some, since each is in it once.
#[derive(Debug)]
pub(super) struct Queue<T>(UnboundedSender<Item<T>>);

/// Where they are taken out.
#[derive(Debug)]
pub(super) struct Queued<T>(UnboundedReceiver<Item<T>>);

/// One who can be in the queue.
pub(super) trait Queueable {
    /// Whether it is.
    fn queueing(&self) -> &Queueing;
}

/// Whether somebody is in the queue.
#[derive(Debug, Default)]
pub(super) struct Queueing(AtomicBool);

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// A queue, and its end.
pub(super) fn queue<T: Queueable>() -> (Queue<T>, Queued<T>) {
    let (sender, receiver) = unbounded_channel();
    (Queue(sender), Queued(receiver))
}

impl<T: Queueable> Queue<T> {
    /// Puts `subject` in, unless it is in already.
    pub(super) fn put(&self, subject: &Arc<T>) {
        if !subject.queueing().0.swap(true, Ordering::AcqRel) {
            // Where nobody takes anything out any more, the process ends.
            let _ = self.0.send(Item::Subject(Arc::clone(subject)));
        }
    }

    /// Asks to be told once everything that is to be said has been said, and was heard.
    pub(super) fn settle(&self) -> oneshot::Receiver<()> {
        self.ask(Item::Settle)
    }

    /// Asks to be told once all that idles has gone back, and everything else has been said and was heard.
    pub(super) fn leave(&self) -> oneshot::Receiver<()> {
        self.ask(Item::Leave)
    }

    fn ask(&self, item: impl FnOnce(oneshot::Sender<()>) -> Item<T>) -> oneshot::Receiver<()> {
        let (done, is_done) = oneshot::channel();
        // Where nobody takes anything out, the answer is that nobody answers.
        let _ = self.0.send(item(done));
        is_done
    }
}

impl<T: Queueable> Queued<T> {
    /// The next item; `None` once every queue is gone.
    pub(super) async fn next(&mut self) -> Option<Item<T>> {
        self.0.recv().await.map(out)
    }

    /// Whether nobody is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next item, if there is one already.
    pub(super) fn next_now(&mut self) -> Option<Item<T>> {
        self.0.try_recv().ok().map(out)
    }
}

/// From here on it may be put in again: whoever takes it out looks at it afterwards.
fn out<T: Queueable>(item: Item<T>) -> Item<T> {
    if let Item::Subject(subject) = &item {
        subject.queueing().0.store(false, Ordering::Release);
    }
    item
}
