//! Names of request classes, of plans and of dependencies.

use crate::cell::name;

name! {
    /// A class of work with compartments of its own in every cell, such as `checkout`.
    ClassName
}

name! {
    /// A plan: the limits that a tenant has bought.
    PlanName
}

name! {
    /// Something that a cell's backend needs of others, such as `payments`.
    DependencyName
}
