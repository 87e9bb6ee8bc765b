//! The demonstration, run as a user runs it. A binary of its own: it loads the machine for half a minute, and must not
//! do so beside tests that count milliseconds.

use std::process::{Command, Stdio};

use serde_json::Value;

// P10
#[test]
fn who_is_hurt_is_who_should_be_in_every_act() {
    let demo = Command::new(env!("CARGO_BIN_EXE_cofferdam"))
        .args(["demo", "--output", "json"])
        .stdin(Stdio::null())
        .output()
        .expect("the demonstration starts");
    let errors = String::from_utf8_lossy(&demo.stderr);
    assert!(demo.status.success(), "{errors}");
    let told: Value = serde_json::from_slice(&demo.stdout).expect("one JSON object");
    let acts = told["acts"].as_array().expect("acts");
    let n_hurt = |act: &Value| act["hurt"].as_array().map(Vec::len);
    let seen: Vec<_> = acts.iter().map(|act| (act["layout"].as_str(), n_hurt(act))).collect();
    let expected = [("shuffle", 0), ("pool", 56), ("fixed", 14), ("shuffle", 2), ("guarded", 1)];
    assert_eq!(seen, expected.map(|(layout, n)| (Some(layout), Some(n))), "{told}");
    for act in acts {
        assert_eq!(act["hurt"], act["expected"], "{act}");
        // With the guard the poisonous tenant is watched as well, and is the only one that is hurt.
        let is_guarded = act["layout"] == "guarded";
        assert_eq!(act["tenants"], if is_guarded { 57 } else { 56 });
        assert!(!is_guarded || act["hurt"][0] == "poisonous");
        let others = &act["others_success"];
        assert!(
            others.is_null() == (act["layout"] == "pool") && others.as_f64().is_none_or(|share| share == 1.0)
        );
    }
}
