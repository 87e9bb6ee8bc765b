//! Lists whose links lie in the elements, and a slab that the elements lie in. They know nothing of what is listed.
//!
//! An element is in at most one list for each [`Link`] that it has. Every operation is O(1).

/// No element.
const NONE: u32 = u32::MAX;

/// A list's ends, and how many are in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

/// An element's neighbours in a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    previous: u32,
    next: u32,
}

/// An element's number, or that there is none, in 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Maybe(u32);

/// Elements by number. What was taken out leaves its number to the next that comes.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    elements: Vec<T>,
    vacant: Vec<u32>,
}

impl Maybe {
    pub(crate) const NONE: Self = Self(NONE);

    pub(crate) fn some(at: u32) -> Self {
        Self(at)
    }

    pub(crate) fn get(self) -> Option<u32> {
        (self.0 != NONE).then_some(self.0)
    }
}

impl Link {
    pub(crate) const NONE: Self = Self { previous: NONE, next: NONE };

    /// Who is behind it in the list.
    pub(crate) fn next(self) -> Option<u32> {
        Maybe(self.next).get()
    }
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first element.
    pub(crate) fn first(&self) -> Option<u32> {
        Maybe(self.head).get()
    }

    /// Puts an element at the end; `link` is its link for this list.
    pub(crate) fn push<T>(&mut self, slab: &mut Slab<T>, at: u32, link: impl Fn(&mut T) -> &mut Link) {
        *link(slab.get_mut(at)) = Link { previous: self.tail, next: NONE };
        match self.tail {
            NONE => self.head = at,
            tail => link(slab.get_mut(tail)).next = at,
        }
        self.tail = at;
        self.len += 1;
    }

    /// Takes out an element that is in this list.
    pub(crate) fn remove<T>(&mut self, slab: &mut Slab<T>, at: u32, link: impl Fn(&mut T) -> &mut Link) {
        let Link { previous, next } = *link(slab.get_mut(at));
        match previous {
            NONE => self.head = next,
            previous => link(slab.get_mut(previous)).next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => link(slab.get_mut(next)).previous = previous,
        }
        self.len -= 1;
    }
}

impl<T> Slab<T> {
    pub(crate) fn get(&self, at: u32) -> &T {
        &self.elements[at as usize]
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.elements[at as usize]
    }

    /// Puts an element in; its number.
    pub(crate) fn insert(&mut self, element: T) -> u32 {
        match self.vacant.pop() {
            Some(at) => {
                self.elements[at as usize] = element;
                at
            }
            None => {
                self.elements.push(element);
                // Elements are requests that wait, which bounded queues keep far below what a `u32` counts.
                (self.elements.len() - 1) as u32
            }
        }
    }

    /// Gives an element's number up. What lies there stays until the number is used again.
    pub(crate) fn vacate(&mut self, at: u32) {
        self.vacant.push(at);
    }

    /// Whether nothing is in it.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.elements.len() == self.vacant.len()
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { elements: Vec::new(), vacant: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(list: &List, slab: &Slab<Link>) -> Vec<u32> {
        std::iter::successors(list.first(), |&at| slab.get(at).next()).collect()
    }

    #[test]
    fn elements_leave_from_anywhere_and_their_numbers_are_used_again() {
        let (mut list, mut slab) = (List::EMPTY, Slab::default());
        for _ in 0..5 {
            let at = slab.insert(Link::NONE);
            list.push(&mut slab, at, |link| link);
        }
        for (at, left) in
            [(2, vec![0, 1, 3, 4]), (0, vec![1, 3, 4]), (4, vec![1, 3]), (3, vec![1]), (1, vec![])]
        {
            list.remove(&mut slab, at, |link| link);
            slab.vacate(at);
            assert_eq!((all(&list, &slab), list.len()), (left.clone(), left.len() as u32));
        }
        assert!(slab.is_empty() && list.is_empty());
        assert_eq!(slab.insert(Link::NONE), 1, "the last that was given up");
    }
}
