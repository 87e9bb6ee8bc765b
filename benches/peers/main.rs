//! What stands on both sides of a proxy that `run.py` measures: a backend that costs next to nothing, and a generator
//! of load at a fixed rate, which read no more of HTTP than the other one writes. And one peer: a plain proxy.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a load program fails where it stands and prints its figures"
)]

mod backend;
mod open_loop;
mod plain_proxy;

use std::env;
use std::str::FromStr;

fn main() {
    let mut arguments = env::args().skip(1);
    match arguments.next().as_deref() {
        Some("backend") => backend::serve(next(&mut arguments), next(&mut arguments)),
        Some("open-loop") => {
            let plan = open_loop::Plan {
                proxy: next(&mut arguments),
                path: next(&mut arguments),
                rate: next(&mut arguments),
                connections: next(&mut arguments),
                seconds: next(&mut arguments),
                tenants: next(&mut arguments),
            };
            println!("{}", open_loop::run(&plan));
        }
        Some("proxy") => {
            plain_proxy::serve(next(&mut arguments), next(&mut arguments), next(&mut arguments));
        }
        _ => println!(
            "backend FIRST_PORT N | proxy PORT FIRST_CELL N | open-loop ADDRESS PATH RATE CONNECTIONS SECONDS TENANTS"
        ),
    }
}

fn next<T: FromStr>(arguments: &mut impl Iterator<Item = String>) -> T {
    arguments.next().and_then(|text| text.parse().ok()).expect("an argument is missing or cannot be read")
}
