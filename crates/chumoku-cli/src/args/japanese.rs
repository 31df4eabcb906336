//! Help in Japanese.
//!
//! The catalog `japanese.txt` has entries with a blank line between them: an English paragraph, and its Japanese on the
//! next line. clap wraps text at spaces only, so Japanese is wrapped here and clap prints it as it is.

use crate::report::wrap_phrases as wrap;
use clap::builder::{PossibleValue, PossibleValuesParser, Resettable, StyledStr};
use clap::{Arg, Command};
use std::collections::HashMap;
use unicode_width::UnicodeWidthStr;

const CATALOG: &str = include_str!("japanese.txt");

/// Indentation of help below its flag.
const INDENT: usize = 10;

/// Columns around a name that has its help on the same line.
const MARGINS: usize = 4;

/// Translates the help of a command tree. Paragraphs without an entry stay English.
pub(super) fn translate(mut command: Command) -> Command {
    command.build();
    let entries = CATALOG.split("\n\n").filter_map(|entry| entry.trim().split_once('\n'));
    translate_with(command, &entries.collect())
}

fn translate_with(command: Command, catalog: &HashMap<&str, &str>) -> Command {
    let text = |english: Option<&StyledStr>| {
        map_text(english, |text| {
            let paragraphs = text.split("\n\n").map(|paragraph| *catalog.get(paragraph).unwrap_or(&paragraph));
            paragraphs.collect::<Vec<_>>().join("\n\n")
        })
    };
    let [about, long_about] = [text(command.get_about()), text(command.get_long_about())];
    let [after, long_after] = [text(command.get_after_help()), text(command.get_after_long_help())];
    let command = command.about(about).long_about(long_about).after_help(after).after_long_help(long_after);
    let command = command.mut_args(|arg| {
        let [help, long_help] = [text(arg.get_help()), text(arg.get_long_help())];
        let values = arg.get_possible_values();
        let arg = arg.help(help).long_help(long_help);
        if !values.iter().any(|value| value.get_help().is_some()) {
            return arg;
        }
        let values = values.into_iter().map(|value| {
            let help = text(value.get_help());
            value.help(help)
        });
        arg.value_parser(PossibleValuesParser::new(values))
    });
    command.mut_subcommands(|child| translate_with(child, catalog))
}

/// Lays translated help out in `width` columns.
pub(super) fn lay_out(mut command: Command, width: usize) -> Command {
    let text = |text: Option<&StyledStr>| map_text(text, |text| wrap_paragraphs(text, width));
    let (about, long_about) = (command.get_about(), command.get_long_about().or(command.get_about()));
    let (after, long_after) = (command.get_after_help(), command.get_after_long_help());
    let [about, long_about, after, long_after] = [about, long_about, after, long_after].map(text);
    let style = *command.get_styles().get_usage();
    let names = command.get_subcommands().map(|child| child.get_name().len()).max().unwrap_or(0);
    let starts_below = [true, false].map(|positional| overflows(&command, positional, width));
    let usage = translate_usage(&mut command, width);
    command
        .term_width(0)
        // The parent lists `about` in another width, so the command shows a copy.
        .before_help(about)
        .before_long_help(long_about)
        .after_help(after)
        .after_long_help(long_after)
        .override_usage(usage)
        .help_template(format!("{{before-help}}{style}使い方:{style:#}{{usage}}\n\n{{all-args}}{{after-help}}"))
        .subcommand_help_heading("コマンド")
        .mut_args(|arg| {
            let starts_below = starts_below[usize::from(!arg.is_positional())];
            lay_out_arg(arg, width, starts_below)
        })
        .mut_subcommands(|child| {
            let child = lay_out(child, width);
            let about = map_text(child.get_about(), |about| wrap(about, width.saturating_sub(names + MARGINS)));
            child.about(about)
        })
}

fn lay_out_arg(arg: Arg, width: usize, starts_below: bool) -> Arg {
    let width = width.saturating_sub(INDENT);
    let short = if starts_below { wrapped_short_help(&arg, width) } else { short_help(&arg) };
    let long = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut long = wrap_paragraphs(&long, width);
    let values = visible_values(&arg);
    if values.iter().any(|value| value.get_help().is_some()) {
        let longest = values.iter().map(|value| value.get_name().len()).max().unwrap_or(0);
        long += "\n\n使える値:";
        for value in &values {
            let help = value.get_help().map(ToString::to_string).unwrap_or_default();
            let help =
                wrap(&help, width.saturating_sub(longest + 4)).replace('\n', &format!("\n{:1$}", "", longest + 4));
            long += &format!("\n- {:1$} {help}", format!("{}:", value.get_name()), longest + 1);
        }
    }
    for note in notes(&arg, true) {
        long += &format!("\n\n{}", wrap(&note, width));
    }
    let (heading, order) = match arg.get_index() {
        Some(index) => ("引数", index),
        None => ("オプション", arg.get_display_order()),
    };
    let arg = arg.help(short).long_help(long).help_heading(heading).display_order(order);
    arg.next_line_help(starts_below).hide_default_value(true).hide_possible_values(true)
}

/// Returns true if the help of an argument does not fit next to its name. All of them then start below the names.
fn overflows(command: &Command, positional: bool, width: usize) -> bool {
    let args = || command.get_arguments().filter(|arg| arg.is_positional() == positional && !arg.is_hide_set());
    let name = |arg: &Arg| arg.to_string().width() + if arg.get_long().is_some() { 4 } else { 0 };
    let names = args().map(name).max().unwrap_or(0);
    args().any(|arg| names + MARGINS + short_help(arg).width() > width)
}

fn short_help(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string);
    help.into_iter().chain(notes(arg, false)).collect::<Vec<_>>().join(" ")
}

/// Wraps the short help of an argument. Notes stay whole as far as they fit in a line.
fn wrapped_short_help(arg: &Arg, width: usize) -> String {
    let mut help = wrap(&arg.get_help().map(ToString::to_string).unwrap_or_default(), width);
    for note in notes(arg, false) {
        let last = help.lines().last().unwrap_or_default().width();
        let fits = last + 1 + note.width() <= width;
        help = help + if fits { " " } else { "\n" } + &wrap(&note, width);
    }
    help
}

/// Returns the default and the values of an argument, in brackets. Long help lists values with explanations elsewhere.
fn notes(arg: &Arg, is_long: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !arg.get_action().takes_values() {
        return notes;
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let defaults = defaults.join(" ");
        notes.push(format!("[既定: {}]", if defaults.is_empty() { "\"\"" } else { &defaults }));
    }
    let values = visible_values(arg);
    let are_listed = is_long && values.iter().any(|value| value.get_help().is_some());
    if !values.is_empty() && !are_listed {
        let names: Vec<_> = values.iter().map(PossibleValue::get_name).collect();
        notes.push(format!("[使える値: {}]", names.join(", ")));
    }
    notes
}

fn visible_values(arg: &Arg) -> Vec<PossibleValue> {
    let values = if arg.is_hide_possible_values_set() { Vec::new() } else { arg.get_possible_values() };
    values.into_iter().filter(|value| !value.is_hide_set()).collect()
}

/// Returns the usage of a command with the space after its heading, or a line break if it is too long.
fn translate_usage(command: &mut Command, width: usize) -> String {
    let style = *command.get_styles().get_usage();
    let usage = command.render_usage();
    let shown = usage.ansi().to_string();
    let shown = shown.trim_start_matches(&format!("{style}Usage:{style:#} "));
    let translate = |usage: &str| {
        usage.replace("[OPTIONS]", "[オプション]").replace("<COMMAND>", "<コマンド>").replace("[COMMAND]", "[コマンド]")
    };
    // The Japanese heading is one column wider than the English.
    let is_long = translate(&usage.to_string()).width() + 1 > width;
    format!("{}{}", if is_long { "\n  " } else { " " }, translate(shown))
}

fn wrap_paragraphs(text: &str, width: usize) -> String {
    text.split("\n\n").map(|paragraph| wrap(paragraph, width)).collect::<Vec<_>>().join("\n\n")
}

fn map_text(text: Option<&StyledStr>, change: impl Fn(&str) -> String) -> Resettable<StyledStr> {
    text.map(|text| StyledStr::from(change(&text.to_string()))).into()
}
