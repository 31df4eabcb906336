//! The language in which people are spoken to.

mod common;

use common::Place;

#[test]
fn the_flag_goes_before_the_environment_and_english_is_the_default() {
    let place = Place::new();
    let text = |args: &[&str], language: Option<&str>| {
        let mut command = place.command(args);
        if let Some(language) = language {
            command.env("LANG", language);
        }
        String::from_utf8(command.output().expect("runs").stdout).expect("UTF-8")
    };
    let example = ["trace", "--example", "book"];
    let japanese = ["trace", "--example", "book", "--lang", "ja"];
    let english = ["trace", "--example", "book", "--lang", "en"];
    // Of the example's own words some are Japanese; the heading over the weights is ours.
    assert!(text(&japanese, None).contains("重み") && !text(&english, None).contains("重み"));
    assert_eq!(text(&example, None), text(&english, None));
    assert_eq!(text(&example, Some("C.UTF-8")), text(&english, None));
    assert_eq!(text(&example, Some("ja_JP.UTF-8")), text(&japanese, None));
    assert_eq!(text(&english, Some("ja_JP.UTF-8")), text(&english, None));
    // Before the command as well as behind it.
    assert_eq!(text(&["--lang", "ja", "trace", "--example", "book"], None), text(&japanese, None));
}
