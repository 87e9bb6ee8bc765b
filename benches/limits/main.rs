//! What sharing limits through Redis costs beside the requests themselves: calls of the store for each admission, and memory
//! for each tenant, in Redis and in the router. `make bench-limits` starts a Redis of its own.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program speaks to its user, or ends"
)]

mod memory;
mod server;
mod steady;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // `cargo bench` and `cargo test` hand on flags of their own; without `--bench` nothing is measured.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let server = server::Server::start();
    println!("| limit | offered | calls for an admission | admitted of what the bucket has | target |");
    println!("|---|---|---|---|---|");
    for (rate, target) in [(10_000, 0.01), (1_000, 0.07), (100, 0.6)] {
        for overload in [1, 5] {
            let seen = steady::measure(&server, rate, rate * overload);
            let [calls, admitted] = [seen.calls_for_each, seen.admitted_share];
            println!("| {rate}/s | {}/s | {calls:.4} | {admitted:.3} | {target} |", rate * overload);
        }
    }
    let memory = memory::measure(&server);
    println!("\n| {} tenants within a minute | bytes for each | target |", memory.n_tenants);
    println!("|---|---|---|");
    println!("| Redis, at its most | {:.0} | 200 |", memory.redis);
    println!("| router, at its most | {:.0} | 400 |", memory.router);
    println!("| Redis, 20 s later | {:.0} | |", memory.redis_later);
    println!("| tenants in the router, 20 s later | {} | 0 |", memory.tenants_later);
    println!("| errors | {} | 0 |", memory.errors);
}
