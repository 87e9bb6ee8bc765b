//! What an intermediary takes out of a head and adds to it: the target, Connection's nominations, Via, Forwarded. The first
//! line is a method and a target, those behind it are fields.

#![no_main]

use cofferdam_fuzz::fields;
use cofferdam_proxy::fields::{strip_hop_by_hop, strip_where};
use cofferdam_proxy::forwarding::{Came, Forwarding, Scheme, is_said_anew, say};
use cofferdam_proxy::lines::FieldLines;
use cofferdam_proxy::target::{self, Target};
use cofferdam_proxy::via::Via;
use http::{Request, Version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let Ok(line) = std::str::from_utf8(&input[..end]) else { return };
    let Some((method, target)) = line.split_once(' ') else { return };
    let Ok(request) = Request::builder().method(method).uri(target).body(()) else { return };
    let (mut head, ()) = request.into_parts();
    head.headers = fields(&input[end..]);
    if head.headers.contains_key("x-http-2") {
        head.version = Version::HTTP_2;
    }
    if target::settle(&mut head) != Ok(Target::Onward) {
        return;
    }
    assert!(head.uri.path().starts_with('/') && head.uri.authority().is_none());
    assert_eq!(head.headers.get_all("host").iter().count(), 1);
    let via = Via::new("cofferdam-test").unwrap();
    let (map, mut lines) = (&mut head.headers, FieldLines::default());
    strip_hop_by_hop(map);
    strip_where(map, |name| name.as_str().starts_with("internal-"));
    assert!(!map.keys().any(|name| {
        ["connection", "te", "upgrade", "transfer-encoding"].contains(&name.as_str())
            || name.as_str().starts_with("internal-")
    }));
    let came = Came { peer: [10, 0, 0, 7].into(), trusted: map.contains_key("x-trusted"), scheme: Scheme::Http };
    say(map, &mut lines, came, &Forwarding::default());
    via.add_line(map, &mut lines, head.version);
    let text = String::from_utf8_lossy(lines.as_bytes());
    let added = fields(lines.as_bytes());
    assert!(via.is_in(&added), "{map:?} {text}");
    assert_eq!(added.len(), lines.as_bytes().split(|byte| *byte == b'\n').count() - 1);
    assert!(added.keys().all(|name| is_said_anew(name) || !map.contains_key(name)), "{map:?} {text}");
});
