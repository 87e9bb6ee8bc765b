//! What a request must be before anything else is asked of it: a target that can go on, and no loop. It knows no
//! tenant and no class.

use cofferdam_fleet::has_ambiguous_dots;
use cofferdam_proxy::grpc::TimeoutError;
use cofferdam_proxy::look_alikes::OddName;
use cofferdam_proxy::target::{self, Target, TargetError};
use cofferdam_proxy::via::Via;
use http::request::Parts;
use http::uri::PathAndQuery;

/// Why a request is turned away for its form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRequest {
    /// The method, the target or Host.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// This agent has handled the request before.
    #[error("request came back to this agent")]
    Loop,
    /// Backends read the path in two ways.
    #[error("a path segment of dots has parameters")]
    AmbiguousPath,
    /// A field's name is one that backends read as another, and the fleet file refuses those.
    #[error(transparent)]
    Name(#[from] OddName),
    /// How long the caller waits cannot be read.
    #[error(transparent)]
    Timeout(#[from] TimeoutError),
}

/// Brings a head into origin form and finds its target; what asks about the agent itself has none. `via` is this agent's
/// pseudonym.
pub(crate) fn check(head: &mut Parts, via: &Via) -> Result<Option<PathAndQuery>, BadRequest> {
    let target = target::settle(head)?;
    if via.is_in(&head.headers) {
        return Err(BadRequest::Loop);
    }
    if has_ambiguous_dots(head.uri.path()) {
        return Err(BadRequest::AmbiguousPath);
    }
    match (target, head.uri.path_and_query()) {
        (Target::Server, _) => Ok(None),
        (Target::Onward, Some(path)) => Ok(Some(path.clone())),
        (Target::Onward, None) => Err(TargetError::Path.into()),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn checked(method: &str, uri: &str, via: &str) -> Result<Option<PathAndQuery>, BadRequest> {
        let request =
            Request::builder().method(method).uri(uri).header("host", "a.example").header("via", via);
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        check(&mut head, &Via::new("cofferdam-test+cell-a").unwrap())
    }

    #[test]
    fn only_a_path_goes_on_and_never_twice_through_one_agent() {
        assert_eq!(checked("GET", "/a?b", "1.1 router").unwrap().unwrap(), "/a?b");
        assert_eq!(checked("OPTIONS", "*", "1.1 router"), Ok(None));
        assert_eq!(checked("TRACE", "/", "1.1 router"), Err(TargetError::Method.into()));
        assert_eq!(checked("GET", "/", "1.1 router, 1.1 cofferdam-test+cell-a"), Err(BadRequest::Loop));
        assert!(checked("GET", "/", "1.1 cell-a").is_ok(), "another's name that is a cell's too is no loop");
    }
}
