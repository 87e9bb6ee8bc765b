//! From how full a shard's cells are on which class of requests is shed before it is sent: the lowest priority first. The
//! highest is always sent, and its agent decides.

use cofferdam_fleet::Class;
use cofferdam_model::Saturation;

use super::avoidance::AVOID;

/// By class: from where on it is shed; nothing for those who never are. The bounds lie evenly between where cells begin to be
/// avoided, for the lowest priority, and full, for the highest.
pub(crate) fn shed_bounds(classes: &[Class]) -> Vec<Option<Saturation>> {
    let mut priorities: Vec<_> = classes.iter().map(|class| class.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let lowest = priorities.len().saturating_sub(1) as u64;
    let bound = |class: &Class| match priorities.binary_search(&class.priority) {
        Ok(0) | Err(_) => None,
        Ok(place) => {
            let room = u64::from(Saturation::FULL.thousandths() - AVOID);
            Some(Saturation::ratio(u64::from(AVOID) + room * (lowest - place as u64) / lowest, 1000))
        }
    };
    classes.iter().map(bound).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cofferdam_fleet::Fleet;

    use super::*;

    fn bounds(classes: &str) -> Vec<Option<u16>> {
        let text = format!(
            "fleet: f\ncells: [{{ id: a, url: 'http://a:1' }}]\nplacement: {{ shard_size: 1 }}\ncell: {{ classes: {{ {classes} }} }}\n"
        );
        let classes = Fleet::parse(&text, Path::new(".")).unwrap().fleet.cell.classes;
        shed_bounds(&classes).into_iter().map(|bound| bound.map(Saturation::thousandths)).collect()
    }

    #[test]
    fn the_lowest_priority_is_shed_first_and_the_highest_never() {
        assert_eq!(
            bounds("a: { priority: 0 }, b: { priority: 7 }, default: { priority: 2 }"),
            [None, Some(900), Some(950)]
        );
        assert_eq!(bounds("a: { priority: 1 }, default: { priority: 1 }"), [None, None]);
        assert_eq!(
            bounds("a: { priority: 5 }, b: { priority: 5 }, default: {}"),
            [Some(900), Some(900), None]
        );
    }
}
