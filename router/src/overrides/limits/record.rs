//! One override as it is kept: what it changes, until when, and who said so.

use cofferdam_fleet::Plan;
use cofferdam_model::Rate;
use serde::{Deserialize, Serialize};

/// An override. What is absent stays as the plan has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Override {
    // Stays the first field, for the store's script.
    pub(crate) until_ms: u64,
    pub(crate) since_ms: u64,
    #[serde(default, with = "rate_text", skip_serializing_if = "Option::is_none")]
    pub(crate) sustained: Option<Rate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) burst: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_in_flight: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

impl Override {
    /// What a tenant of `plan` has.
    pub(super) fn over(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        plan.bucket.sustained = self.sustained.unwrap_or(plan.bucket.sustained);
        plan.bucket.burst = self.burst.unwrap_or(plan.bucket.burst);
        plan.max_in_flight = self.max_in_flight.unwrap_or(plan.max_in_flight);
        plan
    }
}

/// Rates as `N/Pus`, which every rate can be written as, and read again.
mod rate_text {
    use cofferdam_model::Rate;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(rate: &Option<Rate>, to: S) -> Result<S::Ok, S::Error> {
        match rate {
            Some(rate) => to.collect_str(&format_args!("{}/{}us", rate.tokens(), rate.period_us())),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Rate>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_with_its_end_and_reads_back_as_itself() {
        let whole = Override {
            until_ms: 7,
            since_ms: 3,
            sustained: Rate::new(1_000_000_000, 1_000),
            burst: Some(5),
            max_in_flight: Some(2),
            author: Some("ops".to_owned()),
            reason: Some("a \"word\"".to_owned()),
        };
        let part = Override { sustained: None, burst: None, author: None, reason: None, ..whole.clone() };
        for one in [whole, part] {
            let text = serde_json::to_string(&one).unwrap();
            assert!(text.starts_with(r#"{"until_ms":7,"#), "{text}");
            assert_eq!(serde_json::from_str::<Override>(&text).unwrap(), one);
        }
    }
}
