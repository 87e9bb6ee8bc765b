//! The one lock around the counts. Under this crate's own tests it is the model checker's, which tries every order in
//! which threads can come to it.

#[cfg(not(test))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

#[cfg(test)]
pub(crate) use checked::{Mutex, MutexGuard};

#[cfg(test)]
mod checked {
    pub(crate) use loom::sync::MutexGuard;

    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}
