//! Colors by meaning, which allow a page to switch between light and dark.

/// A color: red, green, blue.
pub(crate) type Rgb = [u8; 3];

/// The meaning of a color.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Paint {
    /// Background.
    Background,
    /// Primary text.
    Text,
    /// Secondary text.
    SecondaryText,
    /// Guide lines.
    GuideLine,
    /// A share between 0 and 1.
    Share(f32),
    /// Text on a share.
    TextOnShare(f32),
    /// A signed number between −1 and 1, relative to the largest absolute value.
    Signed(f32),
    /// Text on a number with a sign.
    TextOnSigned(f32),
    /// One of several curves.
    Series(usize),
}

/// Light or dark theme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Light background, for paper.
    Light,
    /// Dark background, for screens.
    Dark,
}

/// Colors from 0 to 1. Lightness alone carries the order, which every kind of color blindness preserves.
const SHARE_COLORS: [[Rgb; 6]; 2] = [
    [
        [0xf1, 0xf5, 0xf3],
        [0xc3, 0xde, 0xd5],
        [0x86, 0xc0, 0xb8],
        [0x3d, 0x9a, 0x9c],
        [0x21, 0x64, 0x7d],
        [0x17, 0x36, 0x5c],
    ],
    [
        [0x1f, 0x26, 0x2f],
        [0x1c, 0x44, 0x5c],
        [0x20, 0x6f, 0x80],
        [0x3c, 0x9d, 0x93],
        [0x86, 0xc8, 0xa0],
        [0xe6, 0xf2, 0xb8],
    ],
];

/// Colors from −1 through 0 to 1: orange and blue, which remain distinct under every kind of color blindness.
const SIGNED_COLORS: [[Rgb; 5]; 2] = [
    [[0xa6, 0x49, 0x00], [0xee, 0xb0, 0x78], [0xf6, 0xf5, 0xf2], [0x8f, 0xb8, 0xe3], [0x1d, 0x55, 0x9c]],
    [[0xff, 0xb9, 0x70], [0x9c, 0x58, 0x1f], [0x1f, 0x26, 0x2f], [0x33, 0x64, 0x9e], [0x9c, 0xc6, 0xff]],
];

/// Colors of curves, distinct in hue and lightness (Okabe and Ito's palette).
const SERIES_COLORS: [[Rgb; 6]; 2] = [
    [
        [0x00, 0x72, 0xb2],
        [0xd5, 0x5e, 0x00],
        [0x00, 0x9e, 0x73],
        [0xcc, 0x79, 0xa7],
        [0x8a, 0x6d, 0x00],
        [0x3b, 0x3b, 0x3b],
    ],
    [
        [0x56, 0xb4, 0xe9],
        [0xf0, 0x9a, 0x4a],
        [0x2c, 0xc9, 0x9b],
        [0xe0, 0x9a, 0xc2],
        [0xf0, 0xe4, 0x42],
        [0xc8, 0xc8, 0xc8],
    ],
];

const INK_COLORS: [Rgb; 2] = [[0x17, 0x21, 0x2b], [0xe6, 0xea, 0xef]];

/// Interpolates between evenly spaced colors.
fn interpolate(colors: &[Rgb], share: f32) -> Rgb {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let place = share * (colors.len() - 1) as f32;
    let low = (place as usize).min(colors.len() - 2);
    let part = place - low as f32;
    std::array::from_fn(|i| {
        let [from, to] = [colors[low][i], colors[low + 1][i]].map(f32::from);
        (from + (to - from) * part).round() as u8
    })
}

/// Relative luminance of a color, 0 to 1 (WCAG 2).
fn luminance(color: Rgb) -> f32 {
    let [r, g, b] = color.map(|x| {
        let x = f32::from(x) / 255.0;
        if x <= 0.04045 { x / 12.92 } else { ((x + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

/// Returns black or white, whichever has more contrast.
fn readable_on(color: Rgb) -> Rgb {
    // One of black and white has a contrast of at least 4.5 with every color.
    let [dark, light] = [[0; 3], [0xff; 3]];
    let against = |other: Rgb| {
        let [a, b] = [luminance(color), luminance(other)];
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    };
    if against(dark) >= against(light) { dark } else { light }
}

impl Paint {
    /// Returns the color in a theme.
    #[must_use]
    pub fn rgb(self, theme: Theme) -> Rgb {
        let at = usize::from(theme == Theme::Dark);
        match self {
            Paint::Background => [[0xff, 0xff, 0xff], [0x19, 0x1f, 0x27]][at],
            Paint::Text => INK_COLORS[at],
            Paint::SecondaryText => [[0x5b, 0x68, 0x75], [0x9b, 0xa6, 0xb3]][at],
            Paint::GuideLine => [[0xdd, 0xe1, 0xe4], [0x36, 0x40, 0x4c]][at],
            Paint::Share(share) => interpolate(&SHARE_COLORS[at], share),
            Paint::TextOnShare(share) => readable_on(interpolate(&SHARE_COLORS[at], share)),
            Paint::Signed(x) => interpolate(&SIGNED_COLORS[at], 0.5 + 0.5 * x),
            Paint::TextOnSigned(x) => readable_on(interpolate(&SIGNED_COLORS[at], 0.5 + 0.5 * x)),
            Paint::Series(i) => SERIES_COLORS[at][i % SERIES_COLORS[at].len()],
        }
    }

    /// Returns the class name in a page's style sheet. Scales have [`SCALE_STEPS`] classes.
    pub(crate) fn class(self) -> String {
        let step = |share: f32| (share.clamp(0.0, 1.0) * (SCALE_STEPS - 1) as f32).round() as usize;
        match self {
            Paint::Background => "p".into(),
            Paint::Text => "i".into(),
            Paint::SecondaryText => "o".into(),
            Paint::GuideLine => "f".into(),
            Paint::Share(share) => format!("s{}", step(share)),
            Paint::TextOnShare(share) => format!("t{}", step(share)),
            Paint::Signed(x) => format!("d{}", step(0.5 + 0.5 * x)),
            Paint::TextOnSigned(x) => format!("u{}", step(0.5 + 0.5 * x)),
            Paint::Series(i) => format!("c{}", i % SERIES_COLORS[0].len()),
        }
    }

    /// Returns every paint that has a class in the style sheet.
    pub(crate) fn classes() -> impl Iterator<Item = Paint> {
        let share = |step: usize| step as f32 / (SCALE_STEPS - 1) as f32;
        let scales = (0..SCALE_STEPS).flat_map(move |step| {
            let (share, sign) = (share(step), 2.0 * share(step) - 1.0);
            [Paint::Share(share), Paint::TextOnShare(share), Paint::Signed(sign), Paint::TextOnSigned(sign)]
        });
        let series = (0..SERIES_COLORS[0].len()).map(Paint::Series);
        [Paint::Background, Paint::Text, Paint::SecondaryText, Paint::GuideLine].into_iter().chain(series).chain(scales)
    }
}

/// Steps of a color scale on a page.
const SCALE_STEPS: usize = 65;

pub(crate) fn hex([r, g, b]: Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_shares_are_darker_on_light_and_lighter_on_dark() {
        for i in 0..50 {
            let [less, more] = [i, i + 1].map(|i| Paint::Share(i as f32 / 50.0));
            assert!(luminance(more.rgb(Theme::Light)) < luminance(less.rgb(Theme::Light)), "{i}");
            assert!(luminance(more.rgb(Theme::Dark)) > luminance(less.rgb(Theme::Dark)), "{i}");
        }
    }

    #[test]
    fn text_is_readable_on_every_color_step() {
        for theme in [Theme::Light, Theme::Dark] {
            for paint in Paint::classes() {
                let (back, text) = match paint {
                    Paint::TextOnShare(x) => (Paint::Share(x), paint),
                    Paint::TextOnSigned(x) => (Paint::Signed(x), paint),
                    Paint::Text | Paint::SecondaryText | Paint::Series(_) => (Paint::Background, paint),
                    _ => continue,
                };
                let [a, b] = [back, text].map(|paint| luminance(paint.rgb(theme)));
                let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                let least = if matches!(paint, Paint::Series(_)) { 3.0 } else { 4.5 };
                assert!(contrast >= least, "{paint:?} {theme:?}: {contrast}");
            }
        }
    }

    #[test]
    fn class_names_are_unique() {
        let mut names: Vec<String> = Paint::classes().map(Paint::class).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(Paint::Signed(-1.0).class(), "d0");
        assert_eq!(Paint::Signed(f32::NAN).class(), "d0");
    }
}
