//! The single list of endpoints: routes, OpenAPI document and pages are made from it.

use serde_json::{Map, Value, json};

/// Kind of a POST endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointKind {
    Predict,
    Embed,
    OpenAiEmbeddings,
    Tokenize,
    Explain,
    Translate,
    Reconstruct,
    Generate,
}

/// A POST endpoint.
pub(crate) struct Endpoint {
    pub(crate) kind: EndpointKind,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// Fields of the request: name, type, description, and whether the field is required.
    fields: &'static [EndpointField],
    /// An example request.
    pub(crate) example: &'static str,
}

impl Endpoint {
    /// Returns true if the endpoint has this field; unknown fields are ignored.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.0 == name)
    }
}

type EndpointField = (&'static str, &'static str, &'static str, bool);

const MODEL: EndpointField = ("model", "string", "Name of a model (default: the first of a suitable kind)", false);
const COLUMNS: EndpointField = ("columns", "object", "Values of feature columns, for models that read them", false);

/// The POST endpoints. Each also exists at `/models/NAME/…`.
pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        kind: EndpointKind::Predict,
        path: "/predict",
        summary: "Predict classes, labels, a number or spans of texts, highest score first",
        fields: &[
            ("inputs", "texts", "A text, or a list of texts or of pairs", true),
            ("raw_scores", "boolean", "Logarithms of the probabilities (for multi-label models, of the odds)", false),
            ("truncate", "boolean", "Accepted without effect: long texts are read completely", false),
            ("full", "boolean", "Answer with the objects of `chumoku predict --json`", false),
            ("abstain", "number", "With full: abstain when unsure; 0.95 keeps 95 % of the given answers right", false),
            ("top", "integer", "With full: number of classes to return", false),
            COLUMNS,
            MODEL,
        ],
        example: r#"{"inputs": "Slow, cold and not worth the money."}"#,
    },
    Endpoint {
        kind: EndpointKind::Explain,
        path: "/explain",
        summary: "Explain an answer: effect of each word, attention, alignment (`chumoku explain --json`)",
        fields: &[
            ("inputs", "texts", "One text, or one pair", true),
            ("target", "string", "For an encoder, a text to compare with; for a translator, a translation", false),
            (
                "span",
                "object",
                "For a tagger, a span, marked or not: start and end in characters, and an optional label",
                false,
            ),
            ("label", "string", "For a multi-label model, the label to explain (default: the most probable)", false),
            (
                "patch",
                "texts",
                "Another text: how far its values inside the network move the answer (`--patch`)",
                false,
            ),
            ("align", "string", "With patch: the aligned tokens of both texts, from 1, such as 1-4:1-4,6:7", false),
            ("lens", "boolean", "The answer after every layer; false leaves it out (default: if there is one)", false),
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
        summary: "Compute text embeddings with a pretrained encoder, or the codes of an autoencoder",
        fields: &[
            ("inputs", "strings", "A text, or a list of texts", true),
            ("normalize", "boolean", "Normalize vectors to length 1 (default: as the model specifies)", false),
            (
                "truncate",
                "boolean",
                "Truncate texts that are longer than the model reads, instead of refusing them",
                false,
            ),
            ("prompt_name", "string", "Name of one of the model's prompts", false),
            MODEL,
        ],
        example: r#"{"inputs": ["A man sleeps.", "Nobody sleeps."]}"#,
    },
    Endpoint {
        kind: EndpointKind::OpenAiEmbeddings,
        path: "/v1/embeddings",
        summary: "Compute text embeddings, compatible with OpenAI's API",
        fields: &[
            ("input", "strings", "A text, or a list of texts", true),
            ("encoding_format", "string", "float or base64", false),
            ("model", "string", "Name of a model; any name if there is only one encoder", false),
            ("dimensions", "integer", "Only the dimension of the model's vectors", false),
            ("user", "string", "Accepted without effect", false),
        ],
        example: r#"{"input": ["A man sleeps.", "Nobody sleeps."]}"#,
    },
    Endpoint {
        kind: EndpointKind::Tokenize,
        path: "/tokenize",
        summary: "Tokenize texts, with positions in characters",
        fields: &[
            ("inputs", "strings", "A text, or a list of texts", true),
            ("add_special_tokens", "boolean", "Include special tokens (default: true)", false),
            MODEL,
        ],
        example: r#"{"inputs": "Slow and cold."}"#,
    },
    Endpoint {
        kind: EndpointKind::Translate,
        path: "/translate",
        summary: "Translate texts (`chumoku translate --json`)",
        fields: &[
            ("inputs", "strings", "A text, or a list of texts", true),
            ("beam", "integer", "Beam width of the search (default: 5)", false),
            ("length_penalty", "number", "Exponent of the length normalization (default: 0.6)", false),
            ("n_best", "integer", "Number of translations to return for each text (default: 1)", false),
            ("alignment", "boolean", "Include the attention of each translated token to the source", false),
            (
                "stream",
                "boolean",
                "For a single text: stream each word with its alignment as soon as the search has it",
                false,
            ),
            MODEL,
        ],
        example: r#"{"inputs": "2026-11-20"}"#,
    },
    Endpoint {
        kind: EndpointKind::Reconstruct,
        path: "/reconstruct",
        summary: "Write texts again from their codes with an autoencoder (`chumoku predict --json`)",
        fields: &[
            ("inputs", "strings", "A text, or a list of texts", true),
            ("beam", "integer", "Beam width of the search (default: 5)", false),
            MODEL,
        ],
        example: r#"{"inputs": "2026-11-20"}"#,
    },
    Endpoint {
        kind: EndpointKind::Generate,
        path: "/generate",
        summary: "Generate text (`chumoku generate --json`), with \"stream\" as server-sent events",
        fields: &[
            ("inputs", "string", "Start of the text, or the user's message for a model with a chat template", true),
            ("stream", "boolean", "Stream each piece with its probability as soon as it is generated", false),
            ("max_tokens", "integer", "Maximum number of tokens to generate (default: 500)", false),
            ("temperature", "number", "Sampling temperature (default: 0.8; 0 takes the most likely token)", false),
            ("top_k", "integer", "Sample from this many of the most likely tokens; 0 for all (default)", false),
            (
                "top_p",
                "number",
                "Sample from the most likely tokens that together reach this probability (default: 1)",
                false,
            ),
            ("seed", "integer", "Random seed (default: 42)", false),
            ("system", "string", "System message for a model with a chat template", false),
            ("no_chat", "boolean", "Continue the text as plain text, even if the model has a chat template", false),
            MODEL,
        ],
        example: r#"{"inputs": "Once upon a time", "stream": true}"#,
    },
];

/// The GET endpoints: path and description.
pub(crate) const GET_ENDPOINTS: &[(&str, &str)] = &[
    ("/info", "The models, limits and version"),
    ("/health", "Health check"),
    ("/metrics", "Counters and times for Prometheus"),
    ("/docs", "This list as a page"),
    ("/openapi.json", "This list as OpenAPI"),
];

/// Returns the POST endpoint of a path, with or without a model's name.
pub(crate) fn endpoint_of_path(path: &str) -> Option<&'static Endpoint> {
    let path = match path.strip_prefix("/models/").and_then(|rest| rest.split_once('/')) {
        Some((name, _)) => &path["/models/".len() + name.len()..],
        None => path,
    };
    ENDPOINTS.iter().find(|place| place.path == path)
}

/// Returns the endpoint that a path is counted as, so that clients cannot create new metric names.
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
        ("400", "The body is not JSON, has no text, or there is not exactly one Host header"),
        ("401", "The key is missing or wrong"),
        ("403", "The Host header names another machine"),
        ("404", "No such endpoint or model"),
        ("405", "The endpoint needs another method"),
        ("408", "The request did not arrive in time"),
        (
            "413",
            "The body, a text or the answer is too large, there are too many texts, or an explanation costs too much",
        ),
        ("415", "The content type is not JSON"),
        ("422", "A field is invalid"),
        ("424", "The model failed, or does not support the request"),
        ("429", "Too many requests wait; see Retry-After"),
        ("501", "The body has a transfer coding other than chunked"),
        ("503", "The service is shutting down"),
        ("504", "The answer takes too long"),
    ] {
        let schema = format!("#/components/schemas/{error}");
        let content = json!({ "application/json": { "schema": { "$ref": schema } } });
        all.insert(status.to_owned(), json!({ "description": why, "content": content }));
    }
    Value::Object(all)
}

/// Returns the OpenAPI document.
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

/// Returns the self-contained page that lists all endpoints. Its examples use this host, with a key if one is needed.
pub(crate) fn docs_page(host: &str, has_key: bool) -> String {
    let escaped =
        |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    // Text between backquotes is code.
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
        "<h1>Chumoku</h1><p>The endpoints of this service. The same list as an OpenAPI document: ",
        "<a href=\"openapi.json\">openapi.json</a>. Each POST endpoint is also at <code>/models/NAME/…</code>, for the model of that name.</p>",
    ));
    let key = if has_key { " -H 'Authorization: Bearer KEY'" } else { "" };
    for place in ENDPOINTS {
        out += &format!("<h2><code>POST {}</code></h2><p>{}</p><table>", place.path, described(place.summary));
        for (name, kind, what, needed) in place.fields {
            let needed = if *needed { ", required" } else { "" };
            out += &format!("<tr><td><code>{name}</code><td>{kind}{needed}<td>{}", described(what));
        }
        let example = escaped(place.example);
        out += &format!(
            "</table><pre>curl http://{}{}{key} -H 'Content-Type: application/json' -d '{example}'</pre>",
            escaped(host),
            place.path
        );
    }
    out += "<h2>GET endpoints</h2><table>";
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
    fn error_responses_are_described_with_the_right_schema() {
        let openapi = openapi();
        let at =
            |path: &str, pointer: &str| openapi["paths"][path]["post"].pointer(pointer).cloned().unwrap_or_default();
        let error = "/responses/422/content/application~1json/schema/$ref";
        assert_eq!(at("/predict", error), "#/components/schemas/Error");
        assert_eq!(at("/v1/embeddings", error), "#/components/schemas/OpenAiError");
        for status in ["403", "405"] {
            assert!(at("/predict", &format!("/responses/{status}")).is_object(), "{status}");
        }
        // Only endpoints that read pairs accept lists of lists.
        let inputs = "/requestBody/content/application~1json/schema/properties/inputs/oneOf/1/items";
        assert_eq!(at("/embed", inputs), json!({ "type": "string" }));
        assert!(at("/predict", inputs)["oneOf"].is_array());
    }

    #[test]
    fn the_page_shows_the_requested_host() {
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
