//! What is said of sources that would trust the wrong ones, or do nothing.

use crate::refused;

#[test]
fn fields_that_would_be_chosen_twice_or_not_at_all_are_refused() {
    refused(&[
        ("edge: { underscores: keep }", "5:22: edge.underscores: \"keep\" is not guard, drop or refuse"),
        (
            "edge: { forwarded: [forwarded, x-forwarded-server] }",
            "5:32: edge.forwarded[1]: \"x-forwarded-server\" is not one of forwarded, x-forwarded-for, x-forwarded-host, \
             x-forwarded-port, x-forwarded-proto, x-real-ip",
        ),
        (
            "edge: { forwarded: [x-real-ip, X-Real-IP] }",
            "5:32: edge.forwarded[1]: x-real-ip is chosen already",
        ),
        (
            "edge: { forwarded: x-real-ip }",
            "5:20: edge.forwarded: expected a list of fields such as x-forwarded-for, found \"x-real-ip\"",
        ),
        (
            "edge: { underscore: drop }",
            "5:9: edge.underscore: unknown key `underscore`; did you mean `underscores`?",
        ),
    ]);
}

#[test]
fn a_source_that_would_trust_the_wrong_ones_is_refused() {
    refused(&[
        (
            "tenant: { from: [{ header: { name: x, trusted: [10.0.0.0] } }] }",
            "5:49: tenant.from[0].header.trusted[0]: \"10.0.0.0\" is not a network such as 10.0.0.0/8 or fd00::/8",
        ),
        (
            "tenant: { from: [{ header: { name: x, trusted: [10.0.0.1/8] } }] }",
            "5:49: tenant.from[0].header.trusted[0]: network 10.0.0.1/8 has bits set behind its prefix: \
             expected 10.0.0.0/8",
        ),
        (
            "tenant: { from: [{ header: { name: cofferdam-tenant } }] }",
            "5:36: tenant.from[0].header.name: header cofferdam-tenant has another use: it can never name a tenant",
        ),
        (
            "tenant: { from: [{ header: { name: cofferdam_tenant } }] }",
            "5:36: tenant.from[0].header.name: header cofferdam_tenant has another use: it can never name a tenant",
        ),
        (
            "tenant: { from: [{ header: { name: content_length } }] }",
            "5:36: tenant.from[0].header.name: header content_length has another use: it can never name a tenant",
        ),
        (
            "tenant: { from: [{ host: { pattern: 'app.example' } }] }",
            "5:37: tenant.from[0].host.pattern: \"app.example\" is not a host such as {tenant}.app.example",
        ),
        (
            "tenant: { from: [{ host: { pattern: '{tenant}.{tenant}.x' } }] }",
            "5:37: tenant.from[0].host.pattern: \"{tenant}.{tenant}.x\" is not a host such as {tenant}.app.example",
        ),
        (
            "tenant: { from: [{ host: { pattern: 'x-{tenant}.x' } }] }",
            "5:37: tenant.from[0].host.pattern: \"x-{tenant}.x\" is not a host such as {tenant}.app.example",
        ),
        (
            "tenant: { from: [{ path: { pattern: '/t{tenant}' } }] }",
            "5:37: tenant.from[0].path.pattern: \"/t{tenant}\" is not a path such as /t/{tenant}",
        ),
        (
            "tenant: { from: [{ path: { pattern: '/{tenant}', must_agree: maybe } }] }",
            "5:62: tenant.from[0].path.must_agree: \"maybe\" is not true or false",
        ),
        ("tenant: { from: [{}] }", "5:18: tenant.from[0]: a source is exactly one of header, host and path"),
        (
            "tenant: { from: [] }",
            "5:17: tenant.from: expected a list of sources such as header: { name: x-tenant-id }, found an empty list",
        ),
        (
            "tenant: { extra_characters: '{' }",
            "5:29: tenant.extra_characters: character '{' can never be part of a tenant id",
        ),
    ]);
}

#[test]
fn a_source_that_would_do_nothing_is_refused() {
    refused(&[
        (
            "tenant: { from: [{ header: { name: x, must_agree: true } }, { path: { pattern: '/{tenant}' } }] }",
            "5:51: tenant.from[0].header.must_agree: the first source has none before it to agree with: \
             set this on a later one",
        ),
        (
            "tenant: { from: [{ header: { name: x } }, { header: { name: X, trusted: [10.0.0.0/8] } }] }",
            "5:43: tenant.from[1]: header x is a source already",
        ),
        (
            "tenant: { from: [{ host: { pattern: '{tenant}.A' } }, { host: { pattern: '{tenant}.a' } }] }",
            "5:55: tenant.from[1]: host {tenant}.a is a source already",
        ),
    ]);
}
