//! Terminal colors: the color depth, the scale for weights, and readable text on it.

/// Number of colors that a terminal shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColorDepth {
    /// No color and no other escape sequence.
    #[default]
    None,
    /// The sixteen standard colors.
    Ansi16,
    /// The palette of 256 colors.
    Ansi256,
    /// Any 24-bit color.
    TrueColor,
}

impl ColorDepth {
    /// Detects the color depth from the environment and from whether the output is a terminal.
    ///
    /// A non-empty `NO_COLOR` turns color off and overrides everything else. `FORCE_COLOR` and `CLICOLOR_FORCE` turn
    /// color on for output that is not a terminal; `FORCE_COLOR=2` and `3` also set the depth. `CLICOLOR=0`,
    /// `TERM=dumb`, `COLORTERM` and `TERM` then have their usual meaning.
    #[must_use]
    pub fn detect(is_terminal: bool, env: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        if set("NO_COLOR").is_some() {
            return Self::None;
        }
        // An empty `FORCE_COLOR` counts as set, as in other programs.
        let force = env("FORCE_COLOR");
        match force.as_deref() {
            Some("0" | "false") => return Self::None,
            Some("2") => return Self::Ansi256,
            Some("3") => return Self::TrueColor,
            _ => {}
        }
        let forced = force.is_some() || set("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        if !forced && (!is_terminal || set("CLICOLOR").is_some_and(|value| value == "0")) {
            return Self::None;
        }
        let term = set("TERM").unwrap_or_default();
        let colors = set("COLORTERM").unwrap_or_default();
        if term == "dumb" {
            return if forced { Self::Ansi16 } else { Self::None };
        }
        if colors == "truecolor" || colors == "24bit" || term.ends_with("-direct") {
            return Self::TrueColor;
        }
        // Windows Terminal does not set COLORTERM, and Windows does not set TERM.
        if set("WT_SESSION").is_some() {
            return Self::TrueColor;
        }
        if term.contains("256color") {
            return Self::Ansi256;
        }
        if term.is_empty() && !forced && !cfg!(windows) {
            return Self::None;
        }
        Self::Ansi16
    }
}

/// Anchors of the scale from zero to the maximum, dark to light, evenly spaced in lightness.
///
/// Lightness alone carries the order, so every kind of color blindness preserves it. The page's dark theme has the same
/// anchors.
const SCALE_COLORS: [[u8; 3]; 6] = [
    [0x1b, 0x21, 0x2b],
    [0x1c, 0x44, 0x5c],
    [0x20, 0x6f, 0x80],
    [0x3c, 0x9d, 0x93],
    [0x86, 0xc8, 0xa0],
    [0xe6, 0xf2, 0xb8],
];

/// The same scale in the palette of 256 colors.
const SCALE_256: [u8; 7] = [235, 23, 30, 36, 78, 150, 193];

/// The same scale in sixteen colors: background and readable foreground.
const SCALE_16: [[u8; 2]; 4] = [[40, 97], [44, 97], [46, 30], [103, 30]];

/// Signs of the scale without color.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// Adds color to text, as far as the terminal supports it.
#[derive(Clone, Copy)]
pub struct Painter {
    depth: ColorDepth,
}

impl Painter {
    /// Creates a painter for a terminal of this color depth.
    pub fn new(depth: ColorDepth) -> Self {
        Self { depth }
    }

    /// Returns whether there are no colors, so only space separates numbers.
    pub fn is_plain(self) -> bool {
        self.depth == ColorDepth::None
    }

    fn with_codes(self, codes: &str, text: &str) -> String {
        if self.depth == ColorDepth::None || text.is_empty() {
            text.to_owned()
        } else {
            format!("\u{1b}[{codes}m{text}\u{1b}[0m")
        }
    }

    /// Formats a heading.
    pub fn strong(self, text: &str) -> String {
        self.with_codes("1", text)
    }

    /// Formats secondary text.
    pub fn quiet(self, text: &str) -> String {
        // "Faint" is missing on some terminals and too faint on others; gray avoids both where it exists.
        match self.depth {
            ColorDepth::None => text.to_owned(),
            ColorDepth::Ansi16 => self.with_codes("2", text),
            ColorDepth::Ansi256 => self.with_codes("38;5;245", text),
            ColorDepth::TrueColor => self.with_codes("38;2;138;143;152", text),
        }
    }

    /// Formats a positive effect: blue.
    pub fn positive(self, text: &str) -> String {
        match self.depth {
            ColorDepth::None => text.to_owned(),
            ColorDepth::Ansi16 => self.with_codes("94", text),
            ColorDepth::Ansi256 => self.with_codes("38;5;68", text),
            ColorDepth::TrueColor => self.with_codes("38;2;74;134;207", text),
        }
    }

    /// Formats a negative effect: orange.
    pub fn negative(self, text: &str) -> String {
        match self.depth {
            ColorDepth::None => text.to_owned(),
            ColorDepth::Ansi16 => self.with_codes("33", text),
            ColorDepth::Ansi256 => self.with_codes("38;5;172", text),
            ColorDepth::TrueColor => self.with_codes("38;2;214;122;40", text),
        }
    }

    /// Colors a number by a level between −1 and 1: blue above 0, orange below.
    pub(crate) fn signed(self, level: f32, text: &str) -> String {
        match level {
            x if x > 0.005 => self.positive(text),
            x if x < -0.005 => self.negative(text),
            _ => self.quiet(text),
        }
    }

    /// Returns a cell without a number, two columns wide, for a level from 0 to 1.
    pub(crate) fn shade(self, level: f32) -> String {
        match self.depth {
            ColorDepth::None => {
                let level = if level.is_finite() { level.clamp(0.0, 1.0) } else { 0.0 };
                // A small share must stay visible.
                let least = usize::from(level >= 0.02);
                SHADES[nearest_step(level, SHADES.len()).max(least)].to_string().repeat(2)
            }
            _ => self.cell(level, "  "),
        }
    }

    /// Returns a heatmap cell for a level from 0 to 1.
    ///
    /// Without color the spaces before the digits become shade signs.
    pub fn cell(self, level: f32, text: &str) -> String {
        let level = if level.is_finite() { level.clamp(0.0, 1.0) } else { 0.0 };
        match self.depth {
            ColorDepth::None => {
                let shade = SHADES[nearest_step(level, SHADES.len())];
                let digits = text.trim_start_matches(' ');
                let shades = std::iter::repeat_n(shade, text.len() - digits.len());
                shades.collect::<String>() + digits
            }
            ColorDepth::Ansi16 => {
                let [back, front] = SCALE_16[nearest_step(level, SCALE_16.len())];
                self.with_codes(&format!("{back};{front}"), text)
            }
            ColorDepth::Ansi256 => {
                let i = nearest_step(level, SCALE_256.len());
                let front = if i < 3 { 231 } else { 16 };
                self.with_codes(&format!("48;5;{};38;5;{front}", SCALE_256[i]), text)
            }
            ColorDepth::TrueColor => {
                let [r, g, b] = scale_color(level);
                let front = if needs_dark_text(r, g, b) { "16;20;26" } else { "244;246;248" };
                self.with_codes(&format!("48;2;{r};{g};{b};38;2;{front}"), text)
            }
        }
    }
}

/// Returns the nearest of `steps` equal steps; step 0 stands for zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the level is within 0 to 1 and the steps are few"
)]
fn nearest_step(level: f32, steps: usize) -> usize {
    (level * (steps - 1) as f32).round() as usize
}

/// Returns the color of a level.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "channels stay within 0 to 255"
)]
fn scale_color(level: f32) -> [u8; 3] {
    let place = level * (SCALE_COLORS.len() - 1) as f32;
    let below = (place as usize).min(SCALE_COLORS.len() - 2);
    let share = place - below as f32;
    std::array::from_fn(|c| {
        let (a, b) = (f32::from(SCALE_COLORS[below][c]), f32::from(SCALE_COLORS[below + 1][c]));
        (a + (b - a) * share).round() as u8
    })
}

/// Returns whether dark text has more contrast than light text on a color, as WCAG defines contrast.
fn needs_dark_text(r: u8, g: u8, b: u8) -> bool {
    let linear = |channel: u8| {
        let c = f32::from(channel) / 255.0;
        if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    // At this luminance the contrasts with black and with white are equal.
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) > 0.179
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(is_terminal: bool, vars: &[(&str, &str)]) -> ColorDepth {
        ColorDepth::detect(is_terminal, |name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn color_depth_follows_the_environment() {
        use ColorDepth::{Ansi16, Ansi256, None, TrueColor};
        let term = |t| ("TERM", t);
        assert_eq!(detect(true, &[term("xterm")]), Ansi16);
        assert_eq!(detect(true, &[term("xterm-256color")]), Ansi256);
        assert_eq!(detect(true, &[term("xterm-256color"), ("COLORTERM", "truecolor")]), TrueColor);
        assert_eq!(detect(true, &[term("xterm"), ("COLORTERM", "24bit")]), TrueColor);
        assert_eq!(detect(true, &[term("dumb"), ("COLORTERM", "truecolor")]), None);
        assert_eq!(detect(true, &[term("xterm"), ("NO_COLOR", "1")]), None);
        assert_eq!(detect(true, &[term("xterm"), ("NO_COLOR", "")]), Ansi16);
        assert_eq!(detect(true, &[term("xterm"), ("CLICOLOR", "0")]), None);
        assert_eq!(detect(false, &[term("xterm-256color")]), None);
        assert_eq!(detect(false, &[term("xterm-256color"), ("FORCE_COLOR", "1")]), Ansi256);
        assert_eq!(detect(false, &[("FORCE_COLOR", "3")]), TrueColor);
        assert_eq!(detect(true, &[term("xterm"), ("FORCE_COLOR", "0")]), None);
        assert_eq!(detect(false, &[("CLICOLOR_FORCE", "1")]), Ansi16);
        assert_eq!(detect(false, &[("CLICOLOR_FORCE", "0"), term("xterm")]), None);
        assert_eq!(detect(false, &[("FORCE_COLOR", "1"), ("NO_COLOR", "1")]), None);
    }

    #[test]
    fn scale_lightness_increases_monotonically() {
        let brightness = |level| {
            let [r, g, b] = scale_color(level).map(f32::from);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        for i in 0..100u8 {
            let at = |i: u8| brightness(f32::from(i) / 100.0);
            assert!(at(i) < at(i + 1), "at {i} %");
        }
    }

    #[test]
    fn shades_precede_digits_without_color() {
        let paint = Painter::new(ColorDepth::None);
        assert_eq!(paint.cell(0.0, "  0"), "  0");
        assert_eq!(paint.cell(0.5, " 37"), "▒37");
        assert_eq!(paint.cell(1.0, "100"), "100");
        assert_eq!(paint.cell(f32::NAN, "nan"), "nan");
    }
}
