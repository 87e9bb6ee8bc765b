//! Where a layout's classes and caps are in the compartments. It knows no counts.

/// Where a layout's classes and caps are in the compartments: the index of each, in the layout's order.
///
/// What a change leaves keeps its index. What a change takes away goes on under its index for whoever still asks by the
/// layout before, without a floor, and its index is used again by a later change, once nobody holds or waits for
/// anything there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indices {
    /// By position in [`Layout::classes`](crate::Layout::classes).
    pub classes: Vec<usize>,
    /// By position in [`Layout::caps`](crate::Layout::caps).
    pub caps: Vec<usize>,
}
