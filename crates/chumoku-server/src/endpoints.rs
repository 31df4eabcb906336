//! The endpoints of the service: the one list, from which the routes, the OpenAPI document and the pages are made.

use serde_json::{Map, Value, json};

/// What is asked with POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointKind {
    Predict,
    Embed,
    OpenAiEmbeddings,
    Tokenize,
    Explain,
    Translate,
    Generate,
}

/// An endpoint that is asked with POST.
pub(crate) struct Endpoint {
    pub(crate) kind: EndpointKind,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// Its fields: name, type, what it is, and whether it must be there.
    fields: &'static [EndpointField],
    /// A request to try.
    pub(crate) example: &'static str,
}

impl Endpoint {
    /// Whether a request here may have this field; others are passed over.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.0 == name)
    }
}

type EndpointField = (&'static str, &'static str, &'static str, bool);

const MODEL: EndpointField =
    ("model", "string", "The name of a model; without it, the first of the fitting kind", false);
const COLUMNS: EndpointField =
    ("columns", "object", "For a model that reads columns beside the text: their values", false);

/// Those that are asked with POST. Each stands at `/models/NAME/…` too.
pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        kind: EndpointKind::Predict,
        path: "/predict",
        summary: "Classes, labels, a number or spans of texts, by falling score",
        fields: &[
            ("inputs", "texts", "A text, or a list of texts or of pairs", true),
            ("raw_scores", "boolean", "Logarithms of the probabilities (of several labels: of the odds)", false),
            ("truncate", "boolean", "Accepted, and without effect: long texts are read whole", false),
            ("full", "boolean", "The objects of `chumoku predict --json`", false),
            (
                "abstain",
                "number",
                "With full: no label where fewer answers than this share would be right (0.95: 95 of 100)",
                false,
            ),
            ("top", "integer", "With full: how many classes are told", false),
            COLUMNS,
            MODEL,
        ],
        example: r#"{"inputs": "Slow, cold and not worth the money."}"#,
    },
    Endpoint {
        kind: EndpointKind::Explain,
        path: "/explain",
        summary: "Why a text got its answer: the effect of each word, attention, alignment (`chumoku explain --json`)",
        fields: &[
            ("inputs", "texts", "One text, or one pair", true),
            ("target", "string", "For an encoder a text to compare with, for a translator a translation", false),
            (
                "span",
                "object",
                "For a tagger a span that it marks or does not: its start and end in characters, its label if one is meant",
                false,
            ),
            (
                "label",
                "string",
                "For a model of any number of labels the label that is explained (default: the most probable)",
                false,
            ),
            ("method", "string", "leave-one-out, or integrated-gradients for a classifier's network", false),
            ("html", "boolean", "Answer with the page of `chumoku explain --html`", false),
            COLUMNS,
            MODEL,
        ],
        example: r#"{"inputs": "Slow, cold and not worth the money."}"#,
    },
    Endpoint {
        kind: EndpointKind::Embed,
        path: "/embed",
        summary: "A vector for each text, of a pretrained encoder",
        fields: &[
            ("inputs", "strings", "A text, or a list of texts", true),
            ("normalize", "boolean", "Whether vectors have length 1 (default: as the model says)", false),
            ("truncate", "boolean", "Leave out what is longer than the model reads, instead of refusing it", false),
            ("prompt_name", "string", "The name of one of the model's prompts", false),
            MODEL,
        ],
        example: r#"{"inputs": ["A man sleeps.", "Nobody sleeps."]}"#,
    },
    Endpoint {
        kind: EndpointKind::OpenAiEmbeddings,
        path: "/v1/embeddings",
        summary: "The same in the form of OpenAI's interface",
        fields: &[
            ("input", "strings", "A text, or a list of texts", true),
            ("encoding_format", "string", "float or base64", false),
            ("model", "string", "The name of a model; any name where there is one encoder", false),
            ("dimensions", "integer", "Only the number that the model's vectors have", false),
            ("user", "string", "Accepted, and without effect", false),
        ],
        example: r#"{"input": ["A man sleeps.", "Nobody sleeps."]}"#,
    },
    Endpoint {
        kind: EndpointKind::Tokenize,
        path: "/tokenize",
        summary: "The tokens of texts, with their positions in characters",
        fields: &[
            ("inputs", "strings", "A text, or a list of texts", true),
            ("add_special_tokens", "boolean", "Whether those around a text are given (default: true)", false),
            MODEL,
        ],
        example: r#"{"inputs": "Slow and cold."}"#,
    },
    Endpoint {
        kind: EndpointKind::Translate,
        path: "/translate",
        summary: "Translations of texts (`chumoku translate --json`)",
        fields: &[
            ("inputs", "strings", "A text, or a list of texts", true),
            ("beam", "integer", "Hypotheses followed at a time (default: 5)", false),
            ("length_penalty", "number", "Exponent of the length normalisation (default: 0.6)", false),
            ("n_best", "integer", "How many translations of each text are told (default: 1)", false),
            ("alignment", "boolean", "Where each token looks in the source", false),
            (
                "stream",
                "boolean",
                "Of one text: send each word as soon as the search has it, and where it looks",
                false,
            ),
            MODEL,
        ],
        example: r#"{"inputs": "2026-11-20"}"#,
    },
    Endpoint {
        kind: EndpointKind::Generate,
        path: "/generate",
        summary: "A text that goes on (`chumoku generate --json`), or with \"stream\" as server-sent events",
        fields: &[
            ("inputs", "string", "What the text begins with; for a model with a chat template, what it is told", true),
            ("stream", "boolean", "Send each piece as soon as it is written, with its probability", false),
            ("max_tokens", "integer", "Tokens at most (default: 500)", false),
            ("temperature", "number", "Randomness (default: 0.8; 0 takes the most likely)", false),
            ("top_k", "integer", "Draw from this many of the most likely tokens; 0 for all (default)", false),
            ("top_p", "number", "Draw from those that together reach this probability (default: 1)", false),
            ("seed", "integer", "Decides what is drawn (default: 42)", false),
            ("system", "string", "What a model with a chat template is to be like", false),
            ("no_chat", "boolean", "Continue the text as it is, though the model has a chat template", false),
            MODEL,
        ],
        example: r#"{"inputs": "Once upon a time", "stream": true}"#,
    },
];

/// Those that are asked with GET: path, and what is there.
pub(crate) const GET_ENDPOINTS: &[(&str, &str)] = &[
    ("/info", "The models, limits and version"),
    ("/health", "Whether the service is at work"),
    ("/metrics", "Counters and times for Prometheus"),
    ("/docs", "This list, to read"),
    ("/openapi.json", "This list as OpenAPI"),
];

/// The place of a path, with or without a model's name before it; and how it is counted.
pub(crate) fn endpoint_of_path(path: &str) -> Option<&'static Endpoint> {
    let path = match path.strip_prefix("/models/").and_then(|rest| rest.split_once('/')) {
        Some((name, _)) => &path["/models/".len() + name.len()..],
        None => path,
    };
    ENDPOINTS.iter().find(|place| place.path == path)
}

/// What a path is counted as: never more names than there are places.
pub(crate) fn metric_path(path: &str) -> &'static str {
    let page = || GET_ENDPOINTS.iter().map(|(page, _)| *page).chain(["/"]).find(|page| *page == path);
    endpoint_of_path(path).map(|place| place.path).or_else(page).unwrap_or("other")
}

fn schema(kind: &str) -> Value {
    match kind {
        "texts" => json!({ "oneOf": [
            { "type": "string" },
            { "type": "array", "items": { "oneOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 2 },
            ] } },
        ] }),
        "strings" => {
            json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
        }
        kind => json!({ "type": kind }),
    }
}

fn responses(answer: &str, error: &str) -> Value {
    let mut all = Map::from_iter([("200".to_owned(), json!({ "description": answer }))]);
    for (status, why) in [
        ("400", "No JSON, no text, or not exactly one Host header"),
        ("401", "The key is missing or wrong"),
        ("403", "The header Host names another machine"),
        ("404", "No such endpoint or model"),
        ("405", "Another method is needed"),
        ("408", "The request did not come in time"),
        (
            "413",
            "The body, a text or the answer is too large, there are too many texts, or an explanation costs too much",
        ),
        ("415", "The body is not called JSON"),
        ("422", "A field does not fit"),
        ("424", "The model failed, or is not for this"),
        ("429", "Too many requests wait; see Retry-After"),
        ("501", "The body comes in a transfer coding other than chunked"),
        ("503", "The service ends"),
        ("504", "The answer takes too long"),
    ] {
        let schema = format!("#/components/schemas/{error}");
        let content = json!({ "application/json": { "schema": { "$ref": schema } } });
        all.insert(status.to_owned(), json!({ "description": why, "content": content }));
    }
    Value::Object(all)
}

/// The OpenAPI document.
pub(crate) fn openapi() -> Value {
    let mut paths = Map::new();
    for place in ENDPOINTS {
        let fields = place.fields.iter().map(|(name, kind, what, _)| {
            let mut schema = schema(kind);
            schema["description"] = (*what).into();
            ((*name).to_owned(), schema)
        });
        let needed: Vec<&str> = place.fields.iter().filter(|field| field.3).map(|field| field.0).collect();
        let example: Value = serde_json::from_str(place.example).unwrap_or_default();
        let schema = json!({ "type": "object", "required": needed, "properties": fields.collect::<Map<_, _>>() });
        let body =
            json!({ "required": true, "content": { "application/json": { "schema": schema, "example": example } } });
        let error = if place.kind == EndpointKind::OpenAiEmbeddings { "OpenAiError" } else { "Error" };
        let about = |id: String, parameters: Value| {
            json!({ "post": {
                "operationId": id, "summary": place.summary, "parameters": parameters, "requestBody": body,
                "responses": responses("The answer", error),
            } })
        };
        let id = place.path.trim_start_matches('/').replace('/', "_");
        let name = json!([{ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } }]);
        paths.insert(place.path.into(), about(id.clone(), json!([])));
        paths.insert(format!("/models/{{name}}{}", place.path), about(format!("{id}_of_model"), name));
    }
    for (path, what) in GET_ENDPOINTS {
        let id = path.trim_start_matches('/').replace('.', "_");
        let found =
            json!({ "get": { "operationId": id, "summary": what, "responses": { "200": { "description": what } } } });
        paths.insert((*path).into(), found);
    }
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Chumoku", "version": env!("CARGO_PKG_VERSION"), "description": "Models of text as a service" },
        "paths": paths,
        "security": [{}, { "key": [] }],
        "components": {
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            "schemas": {
                "Error": { "type": "object", "required": ["error", "error_type"], "properties": {
                    "error": { "type": "string" }, "error_type": { "type": "string" },
                } },
                "OpenAiError": { "type": "object", "required": ["error", "error_type"], "properties": {
                    "error": { "type": "object", "required": ["message", "type", "code"], "properties": {
                        "message": { "type": "string" }, "type": { "type": "string" }, "code": { "type": "integer" },
                        "param": { "type": "string", "nullable": true },
                    } },
                    "message": { "type": "string" }, "type": { "type": "string" }, "code": { "type": "integer" },
                    "error_type": { "type": "string" },
                } },
            },
        },
    })
}

/// The page that lists all of it, which needs nothing from elsewhere; its examples ask this host, with a key where one is needed.
pub(crate) fn docs_page(host: &str, has_key: bool) -> String {
    let escaped =
        |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    // What stands between backquotes is a command.
    let described = |text: &str| {
        let parts = escaped(text);
        let parts = parts.split('`').enumerate();
        parts
            .map(|(at, part)| if at % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
            .collect::<String>()
    };
    let mut out = String::from(concat!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">",
        "<title>Chumoku</title><style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;",
        "margin:2rem auto;padding:0 1rem}code,pre{font:14px/1.5 ui-monospace,monospace}pre{overflow:auto;padding:.5rem;",
        "border:1px solid #8888;border-radius:4px}table{border-collapse:collapse;width:100%}td,th{text-align:left;",
        "vertical-align:top;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #8884}h2{margin-top:2rem}",
        "h2 code{font-size:inherit}</style>",
        "<h1>Chumoku</h1><p>The endpoints of this service. The same list as a document of OpenAPI: ",
        "<a href=\"openapi.json\">openapi.json</a>. Each POST endpoint is also at <code>/models/NAME/…</code>, for the model of that name.</p>",
    ));
    let key = if has_key { " -H 'Authorization: Bearer KEY'" } else { "" };
    for place in ENDPOINTS {
        out += &format!("<h2><code>POST {}</code></h2><p>{}</p><table>", place.path, described(place.summary));
        for (name, kind, what, needed) in place.fields {
            let needed = if *needed { ", needed" } else { "" };
            out += &format!("<tr><td><code>{name}</code><td>{kind}{needed}<td>{}", described(what));
        }
        let example = escaped(place.example);
        out += &format!(
            "</table><pre>curl http://{}{}{key} -H 'Content-Type: application/json' -d '{example}'</pre>",
            escaped(host),
            place.path
        );
    }
    out += "<h2>To look at</h2><table>";
    for (path, what) in GET_ENDPOINTS {
        out += &format!("<tr><td><a href=\"{}\"><code>GET {path}</code></a><td>{what}", path.trim_start_matches('/'));
    }
    out + "</table></html>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_with_and_without_a_model() {
        let question = |path: &str| endpoint_of_path(path).map(|place| place.kind);
        assert_eq!(question("/predict"), Some(EndpointKind::Predict));
        assert_eq!(question("/models/a%20b/predict"), Some(EndpointKind::Predict));
        assert_eq!(question("/models/x/v1/embeddings"), Some(EndpointKind::OpenAiEmbeddings));
        assert_eq!(question("/models/predict"), None);
        assert_eq!(question("/models//predict"), Some(EndpointKind::Predict));
        assert_eq!((metric_path("/models/x/predict"), metric_path("/x"), metric_path("/")), ("/predict", "other", "/"));
    }

    #[test]
    fn what_is_refused_is_described_in_the_form_that_it_has() {
        let openapi = openapi();
        let at =
            |path: &str, pointer: &str| openapi["paths"][path]["post"].pointer(pointer).cloned().unwrap_or_default();
        let error = "/responses/422/content/application~1json/schema/$ref";
        assert_eq!(at("/predict", error), "#/components/schemas/Error");
        assert_eq!(at("/v1/embeddings", error), "#/components/schemas/OpenAiError");
        for status in ["403", "405"] {
            assert!(at("/predict", &format!("/responses/{status}")).is_object(), "{status}");
        }
        // Lists of lists are for those that read pairs.
        let inputs = "/requestBody/content/application~1json/schema/properties/inputs/oneOf/1/items";
        assert_eq!(at("/embed", inputs), json!({ "type": "string" }));
        assert!(at("/predict", inputs)["oneOf"].is_array());
    }

    #[test]
    fn the_page_shows_the_host_that_was_asked() {
        assert!(docs_page("box.local:80", false).contains("<pre>curl http://box.local:80/predict -H 'Content-Type"));
        assert!(docs_page("box.local:80", true).contains("/predict -H 'Authorization: Bearer KEY' -H"));
    }

    #[test]
    fn examples_are_json_with_the_needed_fields() {
        for place in ENDPOINTS {
            let example: Value = serde_json::from_str(place.example).unwrap();
            for field in place.fields {
                assert!(!field.3 || !example[field.0].is_null(), "{}: {}", place.path, field.0);
            }
            assert!(example.as_object().unwrap().keys().all(|key| place.fields.iter().any(|field| field.0 == key)));
        }
    }
}
