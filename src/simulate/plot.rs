//! A simulation as one picture, SVG written by hand: what two tenants share, what bad ones do, and load by cell. Bars are
//! what was simulated, with lines from the least to the most that a trial had; the dark marks are this table's exact shares.

use std::fmt::Write;

use super::report::{Figure, Load, Report, Share};

/// The picture's size, in pixels.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 680.0;

/// One colour for each zone, over again where there are more. They differ for colour-blind eyes too.
const COLOURS: [&str; 6] = ["#4c78a8", "#f2a541", "#54a24b", "#b279a2", "#9d755d", "#72b7b2"];

/// The most bars whose names and shares have room below and above them.
const MOST_NAMED: usize = 16;

/// A part of the picture with bars in it.
struct Panel {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

struct Bar<'a> {
    name: &'a str,
    /// What is simulated: the mean, the least, the most.
    simulated: [f64; 3],
    exact: Option<f64>,
    colour: &'static str,
}

/// The picture's text.
pub(super) fn svg(report: &Report) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let head = format!(
        "Fleet {} at revision {}: {} cells, shards of {}",
        report.fleet, report.revision, report.n_cells, report.shard_size
    );
    let trials = format!(
        "{} trials of {} tenants, seed {}. Bars: simulated, with the range of single trials. Dark marks: exact, for this table.",
        report.trials, report.tenants, report.seed
    );
    text(&mut svg, (30.0, 34.0), "start", "font-size=\"18\" font-weight=\"bold\"", &head);
    text(&mut svg, (30.0, 56.0), "start", "fill=\"#555\"", &trials);

    let shared: Vec<String> = (0..report.overlap.len()).map(|shared| shared.to_string()).collect();
    let bars = report.overlap.iter().zip(&shared);
    let bars: Vec<_> = bars.map(|(figure, name)| of_figure(name, figure)).collect();
    let panel = Panel { left: 70.0, top: 120.0, width: 380.0, height: 190.0 };
    panel.draw(&mut svg, "Cells that two tenants share", &bars);

    let bars = report.effects().map(|(name, figure)| of_figure(name, figure));
    let title = match report.bad {
        1 => "What one bad tenant does to the others".to_owned(),
        bad => format!("What {bad} bad tenants do to the others"),
    };
    let panel = Panel { left: 540.0, top: 120.0, width: 390.0, height: 190.0 };
    panel.draw(&mut svg, &title, &bars);

    let bars: Vec<_> = report.cells.iter().map(|cell| of_cell(cell, report)).collect();
    let panel = Panel { left: 70.0, top: 420.0, width: 860.0, height: 190.0 };
    panel.draw(&mut svg, "Tenants by their home cell", &bars);
    legend(&mut svg, report);
    svg.push_str("</svg>\n");
    svg
}

fn of_figure<'a>(name: &'a str, figure: &Figure) -> Bar<'a> {
    let estimate = figure.simulated;
    let simulated = [estimate.mean, estimate.low, estimate.high];
    Bar { name, simulated, exact: figure.table, colour: COLOURS[0] }
}

fn of_cell<'a>(cell: &'a Load, report: &Report) -> Bar<'a> {
    let Share { simulated, table } = &cell.home;
    let zone = report.zones.iter().position(|zone| cell.zone.as_ref() == Some(&zone.id)).unwrap_or_default();
    Bar {
        name: &cell.id,
        simulated: [simulated.mean, simulated.low, simulated.high],
        exact: Some(*table),
        colour: COLOURS[zone % COLOURS.len()],
    }
}

impl Panel {
    fn draw(&self, svg: &mut String, title: &str, bars: &[Bar<'_>]) {
        let Self { left, top, width, height } = *self;
        let bottom = top + height;
        text(svg, (left, top - 24.0), "start", "font-size=\"15\" font-weight=\"bold\"", title);
        let highest =
            bars.iter().map(|bar| bar.simulated[2].max(bar.exact.unwrap_or(0.0))).fold(0.0, f64::max);
        let step = grid_step(highest);
        // Whole steps, at least one, and never more than the largest share asks for.
        let steps = (highest / step).ceil().max(1.0);
        let y = |share: f64| bottom - height * share / (step * steps);
        for line in 0..=steps as u32 {
            let share = f64::from(line) * step;
            let _ = writeln!(svg, "<path d=\"M{left:.1} {0:.1}h{width:.1}\" stroke=\"#ddd\"/>", y(share));
            text(svg, (left - 8.0, y(share) + 4.0), "end", "fill=\"#555\"", &percent(share));
        }
        let pitch = width / bars.len() as f64;
        let thick = (pitch * 0.56).min(64.0);
        for (at, bar) in bars.iter().enumerate() {
            let middle = left + pitch * (at as f64 + 0.5);
            let [mean, low, high] = bar.simulated.map(y);
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{mean:.1}\" width=\"{thick:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                middle - thick / 2.0,
                bottom - mean,
                bar.colour
            );
            let _ = writeln!(
                svg,
                "<path d=\"M{middle:.1} {low:.1}V{high:.1}\" stroke=\"#888\" stroke-width=\"1.5\"/>"
            );
            if let Some(exact) = bar.exact {
                let _ = writeln!(
                    svg,
                    "<path d=\"M{:.1} {:.1}h{:.1}\" stroke=\"#111\" stroke-width=\"2\"/>",
                    middle - thick * 0.7,
                    y(exact),
                    thick * 1.4
                );
            }
            if bars.len() <= MOST_NAMED {
                let above = high.min(bar.exact.map_or(high, y)) - 6.0;
                text(svg, (middle, above), "middle", "font-size=\"11\"", &percent(bar.simulated[0]));
                text(svg, (middle, bottom + 18.0), "middle", "font-size=\"12\"", bar.name);
            }
        }
    }
}

/// Which colour is which zone, below the cells.
fn legend(svg: &mut String, report: &Report) {
    let shown = report.zones.len().min(COLOURS.len());
    for (at, zone) in report.zones.iter().take(shown).enumerate() {
        let x = 70.0 + 140.0 * at as f64;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"648\" width=\"12\" height=\"12\" fill=\"{}\"/>",
            COLOURS[at]
        );
        text(svg, (x + 18.0, 659.0), "start", "font-size=\"12\"", &zone.id);
    }
    if report.zones.len() > shown {
        let more = format!("and {} zones more", report.zones.len() - shown);
        text(svg, (930.0, 659.0), "end", "font-size=\"12\" fill=\"#555\"", &more);
    }
}

/// The distance of the lines behind the bars: 1, 2 or 5 of a power of ten, so that there are two to five of them.
fn grid_step(highest: f64) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let power = 10.0_f64.powf((highest / 2.0).log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|step| step * power).find(|step| highest / step >= 2.0).unwrap_or(power)
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    // As many digits as tell small shares from none.
    let digits = if percent == 0.0 || percent >= 10.0 {
        1
    } else if percent >= 0.1 {
        2
    } else {
        4
    };
    let text = format!("{percent:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// Text at a place. Names of the fleet file have no character that SVG would take for its own.
fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, style: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{text}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_at_round_shares_and_not_many() {
        for (highest, step) in [(1.0, 0.5), (0.9, 0.2), (0.43, 0.2), (0.125, 0.05), (0.0002, 0.0001)] {
            let got = grid_step(highest);
            assert!((got / step - 1.0).abs() < 1e-9, "{highest}: {got}");
            assert!((2.0..=5.0).contains(&(highest / got)), "{highest}: {got}");
        }
    }

    #[test]
    fn a_small_share_has_more_digits() {
        let shares = [0.0, 1.0, 0.3571, 0.035_714, 0.000_202, 0.0357];
        assert_eq!(shares.map(percent), ["0 %", "100 %", "35.7 %", "3.57 %", "0.0202 %", "3.57 %"]);
    }
}
