//! `cofferdam blast` as a process: who shares cells with a tenant or has a cell, of a running router and of a list.

use std::process::Output;

use serde_json::{Value, json};

use crate::support::files::{fleet, revision};
use crate::support::processes::{free_port, run};
use crate::support::raw::{self, get};
use crate::support::routers::TestRouter;
use crate::support::scripted::Scripted;

const FILE: &str = "
placement:
  pins:
    acme: [cell-a, cell-b]
    globex: [cell-b, cell-a]
    hooli: [cell-a, cell-b]
    initech: [cell-a, cell-c]
    umbrella: [cell-c, cell-d]
plans:
  wide: { sustained: 1M/s, burst: 1M, max_in_flight: 100 }
  tight: { sustained: 1/h, burst: 1, max_in_flight: 10 }
tenant: { unknown: wide, plan_of: { hooli: tight } }
";

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// The tenants of a group, and each one's requests and refusals.
fn group(answer: &Value, at: usize) -> Vec<(String, Option<u64>, Option<u64>)> {
    let tenant = |told: &Value| {
        (told["tenant"].as_str().unwrap().to_owned(), told["requests"].as_u64(), told["refused"].as_u64())
    };
    answer["groups"][at]["tenants"].as_array().unwrap().iter().map(tenant).collect()
}

async fn start() -> (TestRouter, Vec<Scripted>) {
    let cells = Scripted::cells(4).await;
    let addresses: Vec<_> = cells.iter().map(|cell| cell.address).collect();
    let router = TestRouter::start(&fleet(&addresses, FILE));
    for (tenant, times) in [("acme", 3), ("hooli", 3), ("globex", 5), ("initech", 2), ("umbrella", 1)] {
        let mut client = raw::Client::connect(router.data).await;
        for _ in 0..times {
            client.ask(get("/", tenant)).await;
        }
    }
    (router, cells)
}

async fn blast(router: &TestRouter, words: &[&str]) -> Output {
    let at = format!("http://{}", router.admin);
    let words = [&["blast", "--admin", &at], words].concat();
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let words = move || run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(words).await.unwrap()
}

#[tokio::test]
async fn a_running_router_tells_whom_it_has_seen_on_a_tenants_cells_and_what_they_sent() {
    let (router, _cells) = start().await;
    let answer: Value = serde_json::from_slice(&blast(&router, &["acme", "--json"]).await.stdout).unwrap();
    assert_eq!((&answer["tenant"], &answer["cells"]), (&json!("acme"), &json!(["cell-a", "cell-b"])));
    let of = |name: &str, requests, refused| (name.to_owned(), Some(requests), Some(refused));
    assert_eq!(group(&answer, 0), [of("globex", 5, 0), of("hooli", 1, 2)], "all of its cells");
    assert_eq!(group(&answer, 1), [of("initech", 2, 0)], "one of them");
    assert_eq!((&answer["groups"][0]["requests"], &answer["share_none"]), (&json!(6), &json!(1)));
    let seen = &answer["seen"];
    assert_eq!((&seen["tenants"], &seen["requests"]), (&json!(5), &json!(12)));
    assert_eq!((&seen["counted_above"], &seen["tenants_with_limits"]), (&json!(0), &json!(5)));

    let printed = text(blast(&router, &["acme", "-n", "1"]).await.stdout);
    for said in [
        "tenant acme is on cell-a, cell-b\n",
        "of 12 requests in the last ",
        "5 tenants counted, everybody who sent something among them; 5 have a state here\n",
        "2 tenants have all its cells, and are lost with it; 6 requests\n",
        " and 1 more, not shown (-n)\n",
        "1 tenant has some of its cells, and others left; 2 requests\n",
        "1 tenants share no cell with it",
    ] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    assert!(printed.contains("globex") && !printed.contains("hooli"), "{printed}");
}

#[tokio::test]
async fn a_cells_tenants_are_told_by_whether_it_is_their_home() {
    let (router, _cells) = start().await;
    let answer: Value =
        serde_json::from_slice(&blast(&router, &["--cell", "cell-a", "--json"]).await.stdout).unwrap();
    let names = |at| group(&answer, at).into_iter().map(|(name, ..)| name).collect::<Vec<_>>();
    assert_eq!(
        (names(0), names(1)),
        (vec!["acme".into(), "initech".into(), "hooli".into()], vec!["globex".to_owned()])
    );
    assert_eq!((&answer["tenant"], &answer["share_none"]), (&Value::Null, &json!(1)));
    let printed = text(blast(&router, &["--cell", "cell-c"]).await.stdout);
    assert!(printed.contains("1 tenant is at home there; 1 requests\n"), "{printed}");
    assert!(printed.contains("1 tenant has it besides another home; 2 requests\n"), "{printed}");
}

#[tokio::test]
async fn two_routers_are_asked_as_one_and_a_tenant_that_both_have_seen_is_one() {
    let (router, cells) = start().await;
    let addresses: Vec<_> = cells.iter().map(|cell| cell.address).collect();
    let second = TestRouter::start(&fleet(&addresses, FILE));
    // `hooli` has one request an hour at each, and `acme` itself was at the first alone.
    for (tenant, times) in [("globex", 2), ("hooli", 4), ("umbrella", 1), ("initech", 1)] {
        let mut client = raw::Client::connect(second.data).await;
        for _ in 0..times {
            client.ask(get("/", tenant)).await;
        }
    }
    let at = format!("http://{}/", second.admin);
    let told = async |words: &[&str]| {
        let words = [&["--admin", &at], words].concat();
        let output = blast(&router, &words).await;
        assert!(output.status.success(), "{output:?}");
        text(output.stdout)
    };
    let answer: Value = serde_json::from_str(&told(&["acme", "--json"]).await).unwrap();
    let of = |name: &str, requests, refused| (name.to_owned(), Some(requests), Some(refused));
    assert_eq!(group(&answer, 0), [of("globex", 7, 0), of("hooli", 2, 5)], "all of its cells");
    assert_eq!(group(&answer, 1), [of("initech", 3, 0)], "one of them");
    assert_eq!((&answer["groups"][0]["requests"], &answer["share_none"]), (&json!(9), &json!(1)));
    let seen = &answer["seen"];
    assert_eq!((&seen["tenants"], &seen["requests"]), (&json!(5), &json!(17)));

    let printed = told(&["acme", "-n", "1"]).await;
    for said in [
        "of 17 requests in the last ",
        " s at 2 routers: 5 tenants counted, everybody who sent something among them\n",
        "2 tenants have all its cells, and are lost with it; 9 requests\n",
        " and 1 more, not shown (-n)\n",
    ] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    assert!(!printed.contains("differ"), "{printed}");
    // The same router twice has not seen twice as much.
    let twice = format!("http://{}", router.admin);
    let output = blast(&router, &["--admin", &twice, "acme", "--json"]).await;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["seen"]["requests"], 12);
    // One that has another file is told apart.
    second.reload(&revision(2, &addresses, &FILE.replace("hooli: [cell-a", "hooli: [cell-d"))).await.unwrap();
    let printed = told(&["acme"]).await;
    for said in [
        "at revision 1, ",
        "at revision 2, ",
        "the routers differ, and a tenant is shown where it shares most",
    ] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    let answer: Value = serde_json::from_str(&told(&["acme", "--json"]).await).unwrap();
    assert_eq!(group(&answer, 0), [of("globex", 7, 0), of("hooli", 2, 5)], "at one of them");
    let nobody = format!("http://{}", free_port());
    let output = blast(&router, &["acme", "--admin", &nobody]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(text(output.stderr).contains(&format!("could not ask the router at {nobody}")));
}

#[tokio::test]
async fn what_is_no_tenant_and_no_cell_has_no_neighbours() {
    let (router, _cells) = start().await;
    for (words, code, said) in [
        (&["NOT ONE"][..], 2, "tenant id has 'N' at 0"),
        (&["--cell", "cell-z"], 1, "cell \"cell-z\" is not in this fleet"),
        (&["acme", "--cell", "cell-a"], 2, "cannot be used with"),
        (&[], 2, "required"),
    ] {
        let output = blast(&router, words).await;
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        let told = text(output.stderr);
        assert!(told.contains(said), "{told}");
    }
    for query in ["", "?tenant=acme&cell=cell-a", "?tenant=acme&m=3", "?tenant=acme&n=-1"] {
        let asked = format!("GET /blast{query} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        assert_eq!(raw::ask(router.admin, asked).await.status(), 400, "{query}");
    }
}

#[test]
fn a_list_of_tenants_is_sorted_by_a_file_and_has_no_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let cells: Vec<_> = (1..5).map(|port| std::net::SocketAddr::from(([127, 0, 0, 1], port))).collect();
    std::fs::write(path("fleet.yaml"), fleet(&cells, FILE)).unwrap();
    std::fs::write(path("list"), "umbrella\nhooli\nacme\nglobex\ninitech\n").unwrap();
    let (file, list) = (path("fleet.yaml"), path("list"));
    let blast = |words: &[&str]| run(&[&["blast", "--fleet", &file, "--tenants", &list], words].concat());
    let answer: Value = serde_json::from_slice(&blast(&["acme", "--json"]).stdout).unwrap();
    let of = |name: &str| (name.to_owned(), None, None);
    assert_eq!(
        (group(&answer, 0), group(&answer, 1)),
        (vec![of("hooli"), of("globex")], vec![of("initech")])
    );
    let printed = text(blast(&["acme"]).stdout);
    assert!(printed.contains("the list has 5 tenants\n") && !printed.contains("requests"), "{printed}");
    let printed = text(blast(&["--cell", "cell-d"]).stdout);
    assert!(printed.contains("0 tenants are at home there\n"), "{printed}");
    assert!(printed.contains("4 tenants do not have the cell"), "{printed}");
    assert_eq!(blast(&["--cell", "cell-z"]).status.code(), Some(2));
    std::fs::write(path("list"), "Bad\n").unwrap();
    assert_eq!(blast(&["acme"]).status.code(), Some(2));
}
