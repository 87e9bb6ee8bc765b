//! The image and the fleet file of the containers: what each process's health is, and that an edited file is seen.

use std::process::Command;

use crate::engine::{self, health, must};
use crate::fleet::Fleet;
use crate::support::eventually;
use crate::support::metrics::scrape;

const CELLS: [&str; 4] = ["cell-a", "cell-b", "cell-c", "cell-d"];

#[tokio::test]
async fn every_container_is_healthy_and_an_edited_fleet_file_reaches_all_of_them() {
    if let Err(why) = engine::answers() {
        engine::skipped("every_container_is_healthy_and_an_edited_fleet_file_reaches_all_of_them", &why);
        return;
    }
    let fleet = Fleet::up();
    let published = fleet.ready().await;
    for service in CELLS.into_iter().chain(["router-a", "router-b"]) {
        let is_healthy = async || (fleet.health(service) == "healthy").then_some(());
        eventually(&format!("{service} to be healthy"), is_healthy).await;
    }
    fleet.edit(|text| text.replace("revision: 1", "revision: 2"));
    for router in published.routers {
        eventually("the router to run the edited file", async || {
            let metrics = scrape(router.probes).await;
            (metrics.sum("cofferdam_router_revision", &[]) == 2.0).then_some(())
        })
        .await;
    }
    for cell in CELLS {
        let taken = async || fleet.logs(cell).contains("fleet file taken").then_some(());
        eventually(&format!("{cell} to take the edited file"), taken).await;
    }
}

#[tokio::test]
async fn a_sample_backend_in_the_image_is_healthy() {
    if let Err(why) = engine::answers() {
        engine::skipped("a_sample_backend_in_the_image_is_healthy", &why);
        return;
    }
    let fleet = Fleet::built();
    let container = must(Command::new("docker").args(["run", "--detach", fleet.name(), "backend"]));
    let container = Container(container);
    let told = eventually("a word on its health", async || {
        Some(health(&container.0)).filter(|health| health != "starting")
    })
    .await;
    assert_eq!(told, "healthy");
}

/// A container, which goes with this.
struct Container(String);

impl Drop for Container {
    fn drop(&mut self) {
        let _ = engine::run(Command::new("docker").args(["rm", "--force", &self.0]));
    }
}
