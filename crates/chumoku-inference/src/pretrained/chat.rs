//! Chat templates: turn messages into the prompt that a model continues.

use super::files;
use crate::calendar::{Date, MONTHS, WEEKDAYS};
use crate::lang::show_controls_in_text;
use crate::model_folder::{CHAT_TEMPLATE, SPECIAL_TOKENS, Snapshot, TOKENIZER_CONFIG, model_file_error};
use crate::{Error, Result, tr};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Kwargs;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::{Deserialize, Serialize as _};
use serde_json::ser::Formatter;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Largest template in bytes, a hundred times the size of common ones.
const MAX_TEMPLATE_BYTES: usize = 1 << 20;
/// Most steps of a template. Long conversations take far fewer, and the limit takes less than a second.
const MAX_STEPS: u64 = 5_000_000;
/// Characters of a template's own error message that are shown.
const MAX_ERROR_CHARS: usize = 300;

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// The role: "system", "user" or "assistant".
    pub role: String,
    /// The text.
    pub content: String,
}

impl ChatMessage {
    /// Creates a message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        ChatMessage { role: role.into(), content: content.into() }
    }
}

/// The Jinja template of a model, and the special tokens that it may refer to.
#[derive(Clone, Debug)]
pub(crate) struct ChatTemplate {
    /// The file that contains the template.
    path: PathBuf,
    source: String,
    tokens: BTreeMap<String, String>,
}

/// The settings read from `tokenizer_config.json`.
#[derive(Default, Deserialize)]
struct ChatSettings {
    chat_template: Option<TemplateField>,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

/// One template, or several named ones.
#[derive(Deserialize)]
#[serde(untagged)]
enum TemplateField {
    One(String),
    Several(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

impl ChatTemplate {
    /// Reads the template of a folder, if it has one.
    ///
    /// # Errors
    /// If the file cannot be read, or the template is invalid.
    pub(crate) fn read(folder: &Snapshot) -> Result<Option<ChatTemplate>> {
        let settings: ChatSettings = files::optional_json(folder, TOKENIZER_CONFIG)?.unwrap_or_default();
        let mut tokens = special_tokens(&settings.rest);
        if tokens.is_empty()
            && let Some(map) = files::optional_json::<serde_json::Map<_, _>>(folder, SPECIAL_TOKENS)?
        {
            tokens = special_tokens(&map);
        }
        let (name, source) = if files::exists(folder, CHAT_TEMPLATE) {
            let bytes = files::read(folder, CHAT_TEMPLATE)?;
            let text = String::from_utf8(bytes);
            let text = text
                .map_err(|_| model_file_error(folder, CHAT_TEMPLATE, tr!("expected UTF-8", "UTF-8 ではありません")))?;
            (CHAT_TEMPLATE, text)
        } else {
            match settings.chat_template {
                None => return Ok(None),
                Some(TemplateField::One(source)) => (TOKENIZER_CONFIG, source),
                Some(TemplateField::Several(all)) => {
                    let Some(found) = all.into_iter().find(|named| named.name == "default") else { return Ok(None) };
                    (TOKENIZER_CONFIG, found.template)
                }
            }
        };
        if source.len() > MAX_TEMPLATE_BYTES {
            let found = source.len();
            let problem = tr!(
                "expected a chat template of at most {MAX_TEMPLATE_BYTES} bytes, found {found}",
                "チャットテンプレートは {MAX_TEMPLATE_BYTES} バイトまでですが、{found} バイトあります"
            );
            return Err(model_file_error(folder, name, problem));
        }
        let template = ChatTemplate { path: folder.join(name), source: without_generation_tags(&source), tokens };
        environment().template_from_str(&template.source).map_err(|error| template.error(&error))?;
        Ok(Some(template))
    }

    /// Renders messages to the prompt that the model answers.
    ///
    /// # Errors
    /// If the template rejects the messages, is invalid, or takes too many steps.
    pub(crate) fn render(&self, messages: &[ChatMessage]) -> Result<String> {
        let environment = environment();
        let template = environment.template_from_str(&self.source).map_err(|error| self.error(&error))?;
        let text = |text: &String| Value::from(text.clone());
        let messages: Vec<Value> = messages
            .iter()
            .map(|message| Value::from_pairs([("role", text(&message.role)), ("content", text(&message.content))]))
            .collect();
        let given = [
            ("messages", Value::from(messages)),
            ("add_generation_prompt", Value::from(true)),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
        ];
        let tokens = self.tokens.iter().map(|(name, token)| (name.as_str(), text(token)));
        template.render(Value::from_pairs(tokens.chain(given))).map_err(|error| self.error(&error))
    }

    fn error(&self, error: &minijinja::Error) -> Error {
        let message: String = show_controls_in_text(error.to_string()).chars().take(MAX_ERROR_CHARS).collect();
        let problem = match error.kind() {
            ErrorKind::OutOfFuel => tr!(
                "the chat template takes more than {MAX_STEPS} steps; --no-chat continues the prompt without it",
                "チャットテンプレートのステップが {MAX_STEPS} を超えました。--no-chat ならテンプレートなしで続きを書けます"
            ),
            _ => tr!(
                "the chat template cannot be used: {message}; --no-chat continues the prompt without it",
                "チャットテンプレートを使えません: {message}。--no-chat ならテンプレートなしで続きを書けます"
            ),
        };
        Error::Model { path: self.path.clone(), problem }
    }
}

/// Returns the named special tokens, such as `bos_token`. A token is a string, or an object with a `content` string.
fn special_tokens(settings: &serde_json::Map<String, serde_json::Value>) -> BTreeMap<String, String> {
    let text = |value: &serde_json::Value| value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned);
    let named = settings.iter().filter(|(name, _)| name.ends_with("_token"));
    named.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect()
}

/// Removes the training-only tags around the assistant's messages.
fn without_generation_tags(source: &str) -> String {
    let mut plain = source.to_owned();
    for (mark, block) in [("generation", "if(1)"), ("endgeneration", "endif")] {
        for open in ["{%", "{%-", "{%+"] {
            for close in ["%}", "-%}", "+%}"] {
                plain = plain.replace(&format!("{open} {mark} {close}"), &format!("{open} {block} {close}"));
            }
        }
    }
    plain
}

/// Creates the environment of functions and filters that transformers offers to templates.
fn environment<'a>() -> Environment<'a> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("the usual marks"));
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_unknown_method_callback(unknown_method_callback);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment
}

fn template_error(problem: String) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, problem)
}

fn raise_exception(message: String) -> Result<String, minijinja::Error> {
    Err(template_error(message))
}

/// Formats the current time in UTC as Python's `strftime` does in English.
fn strftime_now(format: &str) -> Result<String, minijinja::Error> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    strftime(format, seconds).map_err(template_error)
}

fn strftime(format: &str, seconds: u64) -> Result<String, String> {
    let date = Date::from_days((seconds / 86_400) as i64);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let (day, month) = (WEEKDAYS[date.weekday()], MONTHS[date.month as usize - 1]);
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        out += &match letters.next() {
            Some('Y') => date.year.to_string(),
            Some('y') => format!("{:02}", date.year.rem_euclid(100)),
            Some('m') => format!("{:02}", date.month),
            Some('d') => format!("{:02}", date.day),
            Some('B') => month.to_owned(),
            Some('b') => month[..3].to_owned(),
            Some('A') => day.to_owned(),
            Some('a') => day[..3].to_owned(),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{:02}", (hour + 11) % 12 + 1),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{second:02}"),
            Some('%') => "%".to_owned(),
            other => {
                let letter = other.unwrap_or(' ');
                return Err(tr!("strftime_now: %{letter} is not known", "strftime_now: %{letter} は使えません"));
            }
        };
    }
    Ok(out)
}

/// Largest indentation per level, in spaces.
const MAX_INDENT: usize = 16;

/// Formats JSON as Python's `json.dumps` does, whose separators differ from serde's.
fn to_json(value: &Value, options: Kwargs) -> Result<String, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    let mut out = Vec::new();
    let written = match indent {
        Some(width) if width <= MAX_INDENT => {
            let spaces = vec![b' '; width];
            let pretty = serde_json::ser::PrettyFormatter::with_indent(&spaces);
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, pretty))
        }
        Some(width) => {
            return Err(template_error(tr!(
                "tojson: expected an indent of at most {MAX_INDENT}, got {width}",
                "tojson: indent は {MAX_INDENT} までですが、{width} です"
            )));
        }
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, PythonJsonFormatter)),
    };
    written.map_err(|error| template_error(error.to_string()))?;
    String::from_utf8(out).map_err(|error| template_error(error.to_string()))
}

/// A JSON formatter with a space after each comma and colon.
struct PythonJsonFormatter;

impl Formatter for PythonJsonFormatter {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.begin_array_value(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renders a conversation with a template and these tokenizer settings.
    fn render_with(template: &str, settings: serde_json::Value) -> Result<Option<String>> {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings;
        settings["chat_template"] = template.into();
        std::fs::write(folder.path().join(TOKENIZER_CONFIG), settings.to_string()).unwrap();
        let messages = [ChatMessage::new("system", "Be brief."), ChatMessage::new("user", " \"Hi\" <b> ")];
        ChatTemplate::read(&Snapshot::of(folder.path()))?.map(|template| template.render(&messages)).transpose()
    }

    fn rendered(template: &str) -> String {
        render_with(template, serde_json::json!({ "bos_token": { "content": "<s>" } })).unwrap().unwrap()
    }

    #[test]
    fn common_template_features_work() {
        let chatml = "{{ bos_token }}{% for message in messages %}\n    {{- '<|' + message['role'] + '|>' }}\n    \
                      {{- message.content.strip() }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";
        assert_eq!(rendered(chatml), "<s><|system|>Be brief.<|user|>\"Hi\" <b><|assistant|>");
        let python = "{%- set ns = namespace(n=0) -%}{%- for m in messages[1:] -%}{%- set ns.n = ns.n + 1 -%}\
                      {%- if m.content.strip().startswith('\"Hi') and tools is none -%}{{ m | tojson }}{%- continue -%}\
                      {%- endif -%}never{%- endfor -%}{{ ns.n }}{{ messages | length }}{{ nothing }}";
        assert_eq!(rendered(python), r#"{"role": "user", "content": " \"Hi\" <b> "}12"#);
        assert_eq!(rendered("{% generation %}a{%- endgeneration %}\n b"), "a b");
        assert_eq!(rendered("{% if true %}\nx\n{% endif %}\n"), "x\n");
        assert_eq!(
            rendered("{{ {'a': [1, none, 'é']} | tojson(indent=1) }}"),
            "{\n \"a\": [\n  1,\n  null,\n  \"é\"\n ]\n}"
        );
        assert_eq!(rendered("{{ strftime_now('%Y') | length }}"), "4");
    }

    #[test]
    fn times_are_formatted_as_in_python() {
        let time = 1_709_210_096; // 2024-02-29 12:34:56, a Thursday
        let all = "%Y %y %m %d %B %b %A %a %H %I %p %M %S 100%%";
        assert_eq!(strftime(all, time).unwrap(), "2024 24 02 29 February Feb Thursday Thu 12 12 PM 34 56 100%");
        assert!(strftime("%Q", time).is_err() && strftime("%", time).is_err());
    }

    #[test]
    fn template_errors_are_one_line() {
        for (template, expected) in [
            ("{{ raise_exception('only\nusers') }}", "only"),
            ("{% for %}", "cannot be used"),
            ("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "5000000"),
            ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "cannot be used"),
            ("{{ messages.nothing.at_all }}", "undefined"),
            ("{% include '/etc/passwd' %}", "cannot be used"),
            (&"(".repeat(10_000), ""),
            (&format!("{{{{ {} }}}}", "(".repeat(10_000)), "cannot be used"),
        ] {
            match render_with(template, serde_json::json!({})) {
                Ok(_) => assert!(expected.is_empty(), "{template}"),
                Err(error) => {
                    let found = error.to_string();
                    assert!(
                        found.contains(expected) && !found.contains('\n') && found.contains("--no-chat"),
                        "{found}"
                    );
                }
            }
        }
        let huge = "x".repeat(MAX_TEMPLATE_BYTES + 1);
        assert!(render_with(&huge, serde_json::json!({})).unwrap_err().to_string().contains("1048576"));
    }
}
