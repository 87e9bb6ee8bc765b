//! Names of request classes and of plans.

use crate::cell::name;

name! {
    /// A class of work with compartments of its own in every cell, such as `checkout`.
    ClassName
}

name! {
    /// A plan: the limits that a tenant has bought.
    PlanName
}
