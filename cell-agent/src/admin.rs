//! What an operator may ask of a running agent: drills. On a listener of its own, which exists only where they are allowed.
//!
//! `GET /drills` lists what goes on. `POST /drills` begins one: `{"latency": "200ms"}`, `{"status": 503}` or `{"hang": true}`,
//! with `"for": "1m"` and at least one of `class`, `tenant` and `dependency`. `DELETE /drills` ends all of them, and
//! `DELETE /drills/{number}` one. What is not understood is 400, with the reason.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Json, Router};
use cofferdam_fleet::Fleet;
use cofferdam_model::{ClassName, TenantId};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::drills::{Drill, Drills, What, Whom};
use crate::rules::Rules;

/// The longest time that a drill may last, and that it may hold a request up.
const LONGEST: Duration = Duration::from_secs(3600);

/// Whom the routes ask.
#[derive(Clone)]
struct Operated {
    drills: Arc<Drills>,
    rules: Arc<ArcSwap<Rules>>,
}

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    latency: Option<String>,
    status: Option<u16>,
    #[serde(default)]
    hang: bool,
    class: Option<String>,
    tenant: Option<String>,
    dependency: Option<String>,
    #[serde(rename = "for")]
    lasting: String,
}

/// Why there is no other answer.
type Refused = (StatusCode, String);

/// The routes.
pub(crate) fn routes(drills: Arc<Drills>, rules: Arc<ArcSwap<Rules>>) -> Router {
    Router::new()
        .route("/drills", get(list).post(begin).delete(end_all))
        .route("/drills/{number}", delete(end))
        .with_state(Operated { drills, rules })
}

async fn list(State(operated): State<Operated>) -> Json<Value> {
    let drills = operated.drills.going_on(Instant::now());
    Json(json!({ "drills": drills.iter().map(|drill| view(drill)).collect::<Vec<_>>() }))
}

async fn begin(State(operated): State<Operated>, body: Bytes) -> Result<Json<Value>, Refused> {
    let wrong = |why: String| (StatusCode::BAD_REQUEST, format!("{why}\n"));
    let asked: Asked = serde_json::from_slice(&body).map_err(|error| wrong(error.to_string()))?;
    let what = asked.what().map_err(wrong)?;
    let lasting = asked.lasting().map_err(wrong)?;
    let whom = asked.whom(&operated.rules.load().fleet).map_err(wrong)?;
    let begun = operated.drills.begin(whom, what, lasting);
    let drill = begun.map_err(|error| (StatusCode::CONFLICT, format!("{error}\n")))?;
    Ok(Json(view(&drill)))
}

async fn end_all(State(operated): State<Operated>) -> Json<Value> {
    Json(json!({ "ended": operated.drills.end(None) }))
}

async fn end(State(operated): State<Operated>, Path(number): Path<u64>) -> Result<Json<Value>, Refused> {
    match operated.drills.end(Some(number)) {
        0 => Err((StatusCode::NOT_FOUND, format!("there is no drill {number}\n"))),
        ended => Ok(Json(json!({ "ended": ended }))),
    }
}

impl Asked {
    fn what(&self) -> Result<What, String> {
        match (&self.latency, self.status, self.hang) {
            (Some(text), None, false) => time("latency", text, "200ms").map(What::Latency),
            (None, Some(code), false) => match StatusCode::from_u16(code) {
                Ok(status) if status.is_client_error() || status.is_server_error() => {
                    Ok(What::Status(status))
                }
                _ => Err(format!("status: {code} is no error of 400 to 599")),
            },
            (None, None, true) => Ok(What::Hang),
            _ => Err("one of latency, status and hang says what happens".to_owned()),
        }
    }

    fn lasting(&self) -> Result<Duration, String> {
        time("for", &self.lasting, "30s")
    }

    /// Names that the fleet file does not have would strike nobody, which is not what was meant.
    fn whom(&self, fleet: &Fleet) -> Result<Whom, String> {
        let class = self.class.as_deref().map(|name| {
            let known = ClassName::parse(name).ok();
            let known = known.filter(|name| fleet.cell.classes.iter().any(|class| class.name == *name));
            known.ok_or_else(|| format!("class: the fleet file has no class {name:?}"))
        });
        let tenant = self.tenant.as_deref().map(|name| {
            TenantId::parse(name.as_bytes(), &fleet.tenant.alphabet)
                .map_err(|error| format!("tenant: {error}"))
        });
        let dependency = self.dependency.clone().map(|name| {
            let known = fleet.cell.dependencies.iter().any(|each| each.name.as_str() == name);
            known.then(|| name.clone()).ok_or_else(|| format!("dependency: the fleet file has no {name:?}"))
        });
        let whom = Whom {
            class: class.transpose()?,
            tenant: tenant.transpose()?,
            dependency: dependency.transpose()?,
        };
        if whom == Whom::default() {
            return Err("class, tenant or dependency says whom it strikes".to_owned());
        }
        Ok(whom)
    }
}

/// A time under a key; one without a bound could not be added to a clock.
fn time(key: &str, text: &str, example: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if !time.is_zero() && time <= LONGEST => Ok(time),
        Ok(_) => Err(format!("{key}: {text:?} is outside 1ns to 1h")),
        Err(_) => Err(format!("{key}: {text:?} is not a time such as {example}")),
    }
}

fn view(drill: &Drill) -> Value {
    let until = drill.until.duration_since(UNIX_EPOCH).unwrap_or_default();
    let left = drill.until.duration_since(SystemTime::now()).unwrap_or_default();
    json!({
        "drill": drill.number,
        "does": drill.to_string(),
        "struck": drill.struck(),
        "until_ms": until.as_millis() as u64,
        "left_s": left.as_secs_f64().ceil(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_not_understood_is_told() {
        let text = "fleet: f\ncells: [{ id: a, url: 'http://a:1' }, { id: b, url: 'http://b:1' }]\n";
        let fleet = Fleet::parse(text, Path::new(".")).unwrap().fleet;
        let said = |json: &str| {
            let asked: Asked = serde_json::from_str(json).unwrap();
            let checked = asked.what().and_then(|_| asked.lasting()).and_then(|_| asked.whom(&fleet));
            checked.map_or_else(|why| why, |whom| format!("{whom:?}"))
        };
        for (json, why) in [
            (
                r#"{"hang": true, "status": 500, "class": "default", "for": "1s"}"#,
                "one of latency, status and hang",
            ),
            (r#"{"class": "default", "for": "1s"}"#, "one of latency, status and hang"),
            (r#"{"status": 200, "class": "default", "for": "1s"}"#, "status: 200 is no error"),
            (r#"{"latency": "soon", "class": "default", "for": "1s"}"#, "latency: \"soon\" is not a time"),
            (r#"{"latency": "2h", "class": "default", "for": "1s"}"#, "latency: \"2h\" is outside"),
            (
                r#"{"latency": "300000000000years", "class": "default", "for": "1s"}"#,
                "latency: \"300000000000years\" is outside 1ns to 1h",
            ),
            (r#"{"hang": true, "class": "default", "for": "2h"}"#, "for: \"2h\" is outside"),
            (r#"{"hang": true, "class": "default", "for": "0s"}"#, "for: \"0s\" is outside"),
            (
                r#"{"hang": true, "class": "search", "for": "1s"}"#,
                "class: the fleet file has no class \"search\"",
            ),
            (r#"{"hang": true, "tenant": "a b", "for": "1s"}"#, "tenant: "),
            (r#"{"hang": true, "for": "1s"}"#, "says whom it strikes"),
            (r#"{"hang": true, "class": "default", "tenant": "acme", "for": "1h"}"#, "Whom"),
        ] {
            assert!(said(json).contains(why), "{json}: {}", said(json));
        }
    }
}
