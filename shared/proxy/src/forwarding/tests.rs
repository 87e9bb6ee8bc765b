//! What the next hop is told, read by code that shares nothing with what wrote it.

use std::net::Ipv6Addr;

use http::{HeaderName, HeaderValue};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

use super::*;

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));

fn map(fields: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    map
}

/// What goes on of these fields: the map's, without what is said anew, and the lines.
fn told(fields: &[(&str, &str)], came: Came, which: &Forwarding) -> Vec<(String, String)> {
    let (mut fields, mut lines) = (map(fields), FieldLines::default());
    say(&mut fields, &mut lines, came, which);
    remove_where(&mut fields, is_said_anew);
    let lines: Vec<_> = lines.fields().collect();
    let all = fields.iter().map(|(name, value)| (name.clone(), value.clone())).chain(lines);
    all.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
}

fn came(trusted: bool) -> Came {
    Came { peer: PEER, trusted, scheme: Scheme::Http }
}

#[track_caller]
fn assert_told(trusted: bool, fields: &[(&str, &str)], expected: &[(&str, &str)]) {
    let told = told(fields, came(trusted), &Forwarding::default());
    let told: Vec<_> = told.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(told, expected, "{fields:?}");
}

#[test]
fn an_untrusted_peer_cannot_forge_where_a_request_came_from() {
    let forged = [
        ("host", "a.example"),
        ("x-forwarded-for", "6.6.6.6"),
        ("forwarded", "for=6.6.6.6;proto=https"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "b.example"),
        ("x-forwarded-port", "443"),
        ("x-forwarded-prefix", "/x"),
        ("x_forwarded_server", "x"),
        ("x-real-ip", "6.6.6.6"),
        ("true-client-ip", "6.6.6.6"),
        ("x-kept", "1"),
    ];
    let ours = [
        ("host", "a.example"),
        ("x-kept", "1"),
        ("x-forwarded-for", "10.0.0.7"),
        ("forwarded", "for=10.0.0.7;proto=http;host=a.example"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "a.example"),
    ];
    assert_told(false, &forged, &ours);
    let https = Came { scheme: Scheme::Https, ..came(false) };
    let told = told(&forged, https, &Forwarding::default());
    assert_eq!(told[3].1, "for=10.0.0.7;proto=https;host=a.example");
    assert_eq!(told[4].1, "https");
}

#[test]
fn what_a_trusted_peer_says_of_other_kinds_goes_on() {
    let said = [("host", "a"), ("x-forwarded-prefix", "/x"), ("x-real-ip", "192.0.2.7")];
    let ours = [
        ("host", "a"),
        ("x-forwarded-prefix", "/x"),
        ("x-forwarded-for", "10.0.0.7"),
        ("forwarded", "for=10.0.0.7;proto=http;host=a"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "a"),
        ("x-real-ip", "192.0.2.7"),
    ];
    assert_told(true, &said, &ours);
}

#[test]
fn each_form_of_a_trusted_peer_is_derived_from_the_other() {
    let both = |for_: &'static str, forwarded: &'static str, proto: &'static str, host: &'static str| {
        [
            ("x-forwarded-for", for_),
            ("forwarded", forwarded),
            ("x-forwarded-proto", proto),
            ("x-forwarded-host", host),
        ]
    };
    let xs = [
        ("x-forwarded-for", "192.0.2.7, 2001:db8::7"),
        ("x-forwarded-for", "198.51.100.1:4711, junk!"),
        ("x-forwarded-proto", "HTTPS, http"),
        ("x-forwarded-host", "shop.example:8443, other"),
    ];
    let expected = both(
        "192.0.2.7, 2001:db8::7, 198.51.100.1:4711, junk!, 10.0.0.7",
        "for=192.0.2.7;proto=https;host=\"shop.example:8443\", for=\"[2001:db8::7]\", for=\"198.51.100.1:4711\", \
         for=unknown, for=10.0.0.7;proto=https;host=\"shop.example:8443\"",
        "https",
        "shop.example:8443",
    );
    assert_told(true, &xs, &expected);
    let forwarded =
        [("forwarded", "For=\"[2001:db8::7]:80\";by=_x;PROTO=https, for=_hidden;host=shop.example")];
    let expected = both(
        "[2001:db8::7]:80, _hidden, 10.0.0.7",
        "For=\"[2001:db8::7]:80\";by=_x;PROTO=https, for=_hidden;host=shop.example, \
         for=10.0.0.7;proto=https;host=shop.example",
        "https",
        "shop.example",
    );
    assert_told(true, &forwarded, &expected);
}

#[test]
fn where_a_trusted_peers_forms_differ_the_one_that_balancers_make_decides() {
    // A balancer that makes X-Forwarded-For alone passes on what its client says in Forwarded.
    for forged in ["for=6.6.6.6", "for=192.0.2.7;proto=https", "for=192.0.2.7;host=evil", "for=\"192.0.2.7"] {
        let said = [("host", "a"), ("x-forwarded-for", "192.0.2.7"), ("forwarded", forged)];
        let expected = [
            ("host", "a"),
            ("x-forwarded-for", "192.0.2.7, 10.0.0.7"),
            ("forwarded", "for=192.0.2.7;proto=http;host=a, for=10.0.0.7;proto=http;host=a"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "a"),
        ];
        assert_told(true, &said, &expected);
    }
}

#[test]
fn a_port_is_said_with_the_host_it_belongs_to() {
    for (proto, host, said, port, expected) in [
        ("https", "a", None, "443", ("a", "443")),
        ("https", "a:8080", None, "443", ("a", "443")),
        ("https", "a", None, "8443", ("a:8443", "8443")),
        ("https", "a", Some("b:1"), "8443", ("b:1", "1")),
        ("https", "a", Some("b"), "8443", ("b:8443", "8443")),
        ("http", "[::1]:81", None, "82", ("[::1]:82", "82")),
        ("http", "a", None, "0", ("a", "80")),
        ("http", "a", Some("b/x"), "many", ("a", "80")),
    ] {
        let mut fields = vec![("host", host), ("x-forwarded-proto", proto), ("x-forwarded-port", port)];
        fields.extend(said.map(|said| ("x-forwarded-host", said)));
        let told = told(&fields, came(true), &Forwarding::default());
        let of = |name: &str| told.iter().find(|(known, _)| known == name).unwrap().1.clone();
        let (host, port) = (of("x-forwarded-host"), of("x-forwarded-port"));
        assert_eq!((host.as_str(), port.as_str()), expected, "{fields:?}");
    }
}

#[test]
fn exactly_what_is_chosen_is_written() {
    let names = [
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-forwarded-port",
        "x-real-ip",
    ];
    let said: Vec<_> = names.iter().map(|name| (*name, "1")).chain([("host", "a")]).collect();
    for chosen in 0..1 << names.len() {
        let chosen: Vec<_> =
            (0..names.len()).filter(|at| chosen >> at & 1 == 1).map(|at| names[at]).collect();
        for trusted in [true, false] {
            let told = told(&said, came(trusted), &Forwarding::only(chosen.iter().copied()));
            let mut written: Vec<_> =
                told.iter().map(|(name, _)| name.as_str()).filter(|it| *it != "host").collect();
            written.sort_by_key(|name| names.iter().position(|known| known == name));
            assert_eq!(written, chosen, "{trusted}");
        }
    }
}

/// The entries of a list, and of each the pairs that it has, all out of their quotes.
fn read_forwarded(text: &str) -> Vec<Vec<(String, String)>> {
    let (mut entries, mut pairs, mut word, mut name, mut quoted) =
        (vec![], vec![], String::new(), None, false);
    for character in text.chars().chain([',']) {
        match character {
            '"' => quoted = !quoted,
            '=' if !quoted && name.is_none() => name = Some(std::mem::take(&mut word).trim().to_lowercase()),
            ';' | ',' if !quoted => {
                pairs.extend(name.take().map(|name| (name, std::mem::take(&mut word).trim().to_owned())));
                if character == ',' && !pairs.is_empty() {
                    entries.push(std::mem::take(&mut pairs));
                }
            }
            other => word.push(other),
        }
    }
    assert!(!quoted && word.trim().is_empty(), "{text}");
    entries
}

/// An address in one form, whichever it was written in.
fn plain(address: &str) -> String {
    let inner = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
    let hidden = |rest: &str| rest.chars().all(|it| it.is_ascii_alphanumeric() || "._-".contains(it));
    let is_one = inner.parse::<IpAddr>().is_ok() && (inner == address || inner.parse::<Ipv6Addr>().is_ok())
        || address.parse::<std::net::SocketAddr>().is_ok()
        || address.strip_prefix('_').is_some_and(|rest| !rest.is_empty() && hidden(rest));
    if is_one { inner.to_lowercase() } else { "unknown".to_owned() }
}

/// Holds both forms against each other.
fn assert_agrees(told: &[(String, String)]) {
    let of = |name: &str| {
        let mut values = told.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} is there twice in {told:?}");
        value
    };
    let entries = read_forwarded(of("forwarded").unwrap());
    let pair = |entry: &[(String, String)], name: &str| {
        entry.iter().find(|(known, _)| known == name).map(|(_, value)| value.to_lowercase())
    };
    let nodes: Vec<_> = entries.iter().map(|entry| plain(&pair(entry, "for").unwrap_or_default())).collect();
    let addresses = of("x-forwarded-for").unwrap().split(',').map(str::trim).filter(|it| !it.is_empty());
    assert_eq!(addresses.map(plain).collect::<Vec<_>>(), nodes, "{told:?}");
    assert_eq!(nodes.last().unwrap(), "10.0.0.7");
    let all = |name| entries.iter().filter_map(|entry| pair(entry, name)).collect::<Vec<_>>();
    let (protos, hosts) = (all("proto"), all("host"));
    let (proto, host) = (of("x-forwarded-proto").unwrap(), of("x-forwarded-host").unwrap().to_lowercase());
    // Some servers read the first entry that says it, and some the last.
    for said in [protos.first(), protos.last()] {
        assert_eq!(said.unwrap(), proto, "{told:?}");
    }
    for said in [hosts.first(), hosts.last()] {
        assert_eq!(said.unwrap(), &host, "{told:?}");
    }
    if let Some(port) = of("x-forwarded-port") {
        let usual = if ["https", "wss"].contains(&proto) { "443" } else { "80" };
        let of_host = host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.contains(']'));
        assert_eq!(of_host.unwrap_or(usual), port, "{told:?}");
    }
}

const ADDRESSES: [&str; 14] = [
    "192.0.2.7",
    "192.0.2.7:81",
    "2001:DB8::7",
    "[2001:db8::7]",
    "[2001:db8::7]:81",
    "unknown",
    "_hidden",
    "_",
    "junk",
    "ju\"nk",
    "[junk]",
    "",
    "10.0.0.7",
    "6.6.6.6;proto=https",
];
const PROTOS: [&str; 8] = ["http", "https", "HTTPS", "wss", "gopher", "", "https,http", "ht tp"];
const HOSTS: [&str; 9] =
    ["a.example", "A.example:81", "[::1]", "[::1]:443", "a/b", "", "a,b", "a\"b", "user@a"];

fn list(of: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(select(of), 0..4).prop_map(|all| all.join(", "))
}

fn forwarded() -> impl Strategy<Value = String> {
    let value = |of: &'static [&'static str]| {
        (select(of), any::<bool>()).prop_map(|(text, quotes)| match quotes {
            true => format!("\"{text}\""),
            false => text.to_owned(),
        })
    };
    let pair = prop_oneof![
        4 => value(&ADDRESSES).prop_map(|it| format!("for={it}")),
        2 => value(&PROTOS).prop_map(|it| format!("Proto={it}")),
        2 => value(&HOSTS).prop_map(|it| format!("host={it}")),
        1 => value(&ADDRESSES).prop_map(|it| format!("by={it}")),
        1 => Just("=;".to_owned()),
    ];
    let element = prop::collection::vec(pair, 0..4).prop_map(|pairs| pairs.join(";"));
    prop::collection::vec(element, 0..4).prop_map(|elements| elements.join(", "))
}

fn field() -> impl Strategy<Value = (&'static str, String)> {
    prop_oneof![
        3 => list(&ADDRESSES).prop_map(|it| ("x-forwarded-for", it)),
        3 => forwarded().prop_map(|it| ("forwarded", it)),
        2 => list(&PROTOS).prop_map(|it| ("x-forwarded-proto", it)),
        2 => list(&HOSTS).prop_map(|it| ("x-forwarded-host", it)),
        2 => select(&["443", "80", "8443", "0", "x", ""][..]).prop_map(|it| ("x-forwarded-port", it.to_owned())),
        1 => list(&ADDRESSES).prop_map(|it| ("x-real-ip", it)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, rng_seed: RngSeed::Fixed(13), ..ProptestConfig::default() })]

    #[test]
    fn both_forms_agree_whatever_anybody_says(
        said in prop::collection::vec(field(), 0..6),
        host in select(&["a.example", "a.example:8080", "[::1]:80"][..]),
        trusted: bool,
        https: bool,
    ) {
        let mut fields: Vec<_> = said.iter().map(|(name, value)| (*name, value.as_str())).collect();
        fields.push(("host", host));
        let came = Came { scheme: if https { Scheme::Https } else { Scheme::Http }, ..came(trusted) };
        let first = told(&fields, came, &Forwarding::default());
        assert_agrees(&first);
        if !trusted {
            let alone = told(&[("host", host)], came, &Forwarding::default());
            prop_assert_eq!(&first, &alone);
        }
        // The next hop, which trusts this one, adds itself and changes nothing.
        let fields: Vec<_> = first.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let second = told(&fields, Came { trusted: true, ..came }, &Forwarding::default());
        assert_agrees(&second);
        for (name, value) in &first {
            let after = &second.iter().find(|(known, _)| known == name).unwrap().1;
            match name.as_str() {
                "forwarded" | "x-forwarded-for" => prop_assert!(after.starts_with(&format!("{value}, ")), "{after} {value}"),
                _ => prop_assert_eq!(after, value),
            }
        }
    }
}
