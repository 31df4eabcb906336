//! The map of a network in a real browser: a click on a block leads to its weights.
//!
//! Needs Chromium or Chrome on the path. Without one, the test prints a notice and passes.

use crate::common::browser::{between, dom};
use chumoku::WeightSample;
use chumoku::count::{CountConfig, StepParameter};
use chumoku_view::{CountReport, Lang};

fn sample(step: &'static str, layer: Option<usize>, name: &str, first: Vec<Vec<f32>>) -> WeightSample {
    WeightSample {
        step: StepParameter { part: "", step, layer, rows: 0..first.len() },
        name: name.into(),
        // A vector is one row.
        shape: [if name.ends_with("bias") { 1 } else { 64 }, first[0].len()],
        statistics: [-0.25, 1.5, 0.000_123_45, 0.5],
        first,
    }
}

fn report() -> CountReport {
    let config = CountConfig { vocab_size: 100, num_classes: 2, num_layers: 2, ..CountConfig::default() };
    CountReport::new(config, None).unwrap()
}

/// Clicks on the block with this title, chooses a layer, and returns the panel of weights.
fn panel(page: &str, block: &str, layer: &str) -> Option<String> {
    let policy = between(page, "<meta http-equiv", ">");
    let page = page.replace(&format!("<meta http-equiv{policy}>"), "");
    let script = format!(
        "<script>addEventListener('load', () => {{
          const block = [...document.querySelectorAll('.figure:not([hidden]) rect[role=button]')].find(one => one.getAttribute('aria-label').includes('{block}'));
          // The name lies on the block, which catches its clicks.
          const outer = block.getBoundingClientRect(), isInside = box => box.left >= outer.left && box.right <= outer.right && box.top >= outer.top && box.bottom <= outer.bottom;
          const name = [...block.closest('svg').querySelectorAll('text')].find(one => isInside(one.getBoundingClientRect()) && one.textContent === '{block}'.split('_')[0]);
          name.scrollIntoView({{ block: 'center' }});
          const box = name.getBoundingClientRect();
          document.documentElement.dataset.caught = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2) === block;
          block.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter', bubbles: true }}));
          const select = document.getElementById('weights-layer');
          if ([...select.options].some(one => one.value === '{layer}')) {{ select.value = '{layer}'; select.dispatchEvent(new Event('change')); }}
          document.documentElement.dataset.focused = document.activeElement.tagName;
        }});</script></body>"
    );
    let dom = dom(&page.replace("</body>", &script), "")?;
    assert!(!dom.contains("data-error="), "{}", &dom[..300]);
    assert_eq!(between(&dom, "data-caught=\"", "\""), "true");
    let focused = between(&dom, "data-focused=\"", "\"");
    let panel = between(&dom, "id=\"weights\"", "</section>").to_owned();
    assert_eq!(focused, if panel.starts_with(" hidden") { "TR" } else { "H2" });
    Some(panel)
}

#[test]
fn a_block_leads_to_its_weights() {
    let weights = [
        sample("W_Q", Some(0), "encoder.layers.0.self_attn.in_proj_bias", vec![vec![0.5]]),
        sample("W_Q", Some(0), "encoder.layers.0.self_attn.in_proj_weight", vec![vec![0.25, -0.123_456]]),
        sample("W_Q", Some(1), "encoder.layers.1.self_attn.in_proj_weight", vec![vec![0.75, -1.0], vec![0.0, 2e-6]]),
        sample("embedding", None, "embedding.</script>weight", vec![vec![1.0, 2.0, 3.0]]),
    ];
    let report = report();
    let page = report.map_to_html(Some(&weights), Lang::En);
    assert!(page.contains("Click a block") && page.contains("ブロックをクリック"));
    // Unknown steps have no block.
    let odd = report.map_to_html(Some(&[sample("W_X", None, "odd", vec![vec![1.0]])]), Lang::En);
    assert!(odd.contains("id=\"weights-data\">[]</script>"));
    let Some(panel) = self::panel(&page, "W_Q", "1") else { return };
    let cells = |panel: &str| -> Vec<String> {
        panel.split("<td style=").skip(1).map(|cell| between(cell, ">", "<").to_owned()).collect()
    };
    assert!(between(&panel, "<h2", "</h2>").ends_with("· W<sub>Q</sub>"), "{panel}");
    assert!(panel.contains("encoder.layers.1.self_attn.in_proj_weight: 64 × 2 numbers. Minimum −0.25, maximum 1.5"));
    assert!(panel.contains("mean 1.23e−4, standard deviation 0.5"), "{panel}");
    assert!(panel.contains("The first 2 rows and 2 columns only"), "{panel}");
    assert_eq!(cells(&panel), ["0.75", "−1", "0", "2.00e−6"]);
    // The matrix comes before the bias.
    let panel = self::panel(&page, "W_Q", "0").unwrap();
    assert_eq!(cells(&panel), ["0.25", "−0.1235"]);
    let japanese = self::panel(&report.map_to_html(Some(&weights), Lang::Ja), "埋め込み", "").unwrap();
    assert!(japanese.contains("標準偏差") && cells(&japanese) == ["1", "2", "3"], "{japanese}");
    // A block without weights, and a map without a model, lead to the table.
    assert!(self::panel(&page, "softmax", "").unwrap().starts_with(" hidden"));
    assert!(!report.map_to_html(None, Lang::En).contains("id=\"weights\""));
}
