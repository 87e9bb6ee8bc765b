//! A store's URL, as it is read and as it is shown.

use cofferdam_limits::redis::link::{Endpoint, EndpointError};

fn refused(url: &str) -> EndpointError {
    url.parse::<Endpoint>().unwrap_err()
}

#[test]
fn every_kind_of_place_is_read_and_shown_without_its_secrets() {
    for (url, shown) in [
        ("redis://localhost", "redis://localhost:6379/0"),
        ("redis://localhost:7000/3", "redis://localhost:7000/3"),
        ("redis://[::1]:7000", "redis://[::1]:7000/0"),
        ("rediss://user:hidden@host:7000?ca=/x@y/ca.pem", "rediss://host:7000/0"),
        ("redis+unix:///run/redis@1/redis.sock?db=2&user=u", "redis+unix:///run/redis@1/redis.sock"),
        ("redis-sentinel://:hidden@a:1,b,[::1]:3/limits/1", "redis-sentinel://a:1,b:26379,[::1]:3/limits/1"),
        ("rediss-sentinel://a/limits?sentinel_password_env=S", "rediss-sentinel://a:26379/limits/0"),
        ("redis-cluster://a:1,b:2,c:3/", "redis-cluster://a:1,b:2,c:3"),
        ("rediss-cluster://user@a?server_name=redis.example", "rediss-cluster://a:6379"),
        ("redis://:p%40ss%2F%3F@a?", "redis://a:6379/0"),
        ("redis://:unescaped@hidden/hidden@a", "redis://a:6379/0"),
    ] {
        let endpoint: Endpoint = url.parse().unwrap();
        assert_eq!(endpoint.to_string(), shown);
        assert_eq!(format!("{endpoint:?}"), format!("Endpoint({shown})"));
    }
}

#[test]
fn what_is_no_url_of_a_store_is_refused_for_what_is_wrong_with_it() {
    for url in ["", "localhost:6379", "http://localhost", "redis:/localhost"] {
        assert_eq!(refused(url), EndpointError::Scheme, "{url}");
    }
    for host in ["", "host:", "host:0", "host:65536", "a:b:c", "[::1", "[::1]x", "a b"] {
        assert_eq!(refused(&format!("redis://{host}")), EndpointError::Host(host.to_owned()), "{host}");
    }
    // What stands behind a colon may be a password that was meant to have a host.
    assert_eq!(refused("redis://:6379"), EndpointError::Host("..".to_owned()));
    assert_eq!(refused("redis-cluster://a,,b"), EndpointError::Host(String::new()));
    assert_eq!(refused("redis://a:1,b:2"), EndpointError::SeveralServers);
    assert_eq!(refused("redis://a/x"), EndpointError::Database("x".to_owned()));
    assert_eq!(refused("redis-cluster://a/1"), EndpointError::Database("1".to_owned()));
    assert_eq!(refused("redis-sentinel://a"), EndpointError::Service);
    assert_eq!(refused("redis+unix://run/redis.sock"), EndpointError::Path);
    assert_eq!(refused("redis://a?timeout=1s"), EndpointError::Option("timeout".to_owned()));
    assert_eq!(refused("redis://a?ca=/ca.pem"), EndpointError::Option("ca".to_owned()));
    assert_eq!(refused("redis://%ff@a"), EndpointError::Encoding("user"));
    for url in [
        "redis://:x@a?password_file=/x",
        "redis://u@a?user=u",
        "redis://a?password_file=/x&password_env=X",
        "rediss://a?cert=/x",
    ] {
        assert!(matches!(refused(url), EndpointError::Conflict(_)), "{url}");
    }
}

#[test]
fn a_refusal_shows_no_password_that_was_not_encoded() {
    for url in [
        "redis://:pass/word@",
        "redis://user:pass?word@host",
        "redis://user:pass@word:x",
        "redis://:pass@a/word",
        "redis://:p@a?password=word",
        "pass://word@a",
    ] {
        let error = refused(url);
        for shown in [format!("{error}"), format!("{error:?}")] {
            assert!(!shown.contains("pass") && !shown.contains("word"), "{url}: {shown}");
        }
    }
}
