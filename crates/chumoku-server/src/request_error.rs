//! Error responses: status, type and message.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chumoku::lang::FlagNames;
use chumoku::{NnError, tr};
use serde_json::{Value, json};

/// Error types, named as in text-embeddings-inference (`error_type`), and some that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorType {
    /// The service is shutting down.
    Unhealthy,
    /// The model failed.
    Backend,
    /// Too many requests at a time.
    Overloaded,
    /// The request is invalid.
    Validation,
    /// A text cannot be tokenized.
    Tokenizer,
    /// The request has no text.
    Empty,
    /// The endpoint or model does not exist.
    NotFound,
    /// The key is missing or wrong.
    Unauthorized,
    /// A timeout.
    Timeout,
}

impl ErrorType {
    fn name(self) -> &'static str {
        match self {
            ErrorType::Unhealthy => "Unhealthy",
            ErrorType::Backend => "Backend",
            ErrorType::Overloaded => "Overloaded",
            ErrorType::Validation => "Validation",
            ErrorType::Tokenizer => "Tokenizer",
            ErrorType::Empty => "Empty",
            ErrorType::NotFound => "NotFound",
            ErrorType::Unauthorized => "Unauthorized",
            ErrorType::Timeout => "Timeout",
        }
    }
}

/// An error response.
#[derive(Clone, Debug)]
pub(crate) struct RequestError {
    pub(crate) status: StatusCode,
    kind: ErrorType,
    message: String,
    /// True if the body is not read to its end, so that no other request can follow on the connection.
    has_unread_body: bool,
}

pub(crate) type Result<T, E = RequestError> = std::result::Result<T, E>;

impl RequestError {
    pub(crate) fn new(status: StatusCode, kind: ErrorType, message: impl Into<String>) -> RequestError {
        RequestError { status, kind, message: message.into(), has_unread_body: false }
    }

    /// A readable request with invalid content.
    pub(crate) fn invalid(message: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorType::Validation, message)
    }

    /// A request that is not a JSON object.
    pub(crate) fn malformed(message: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::BAD_REQUEST, ErrorType::Validation, message)
    }

    /// A request above a size limit.
    pub(crate) fn too_large(message: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorType::Validation, message)
    }

    /// A request without a text.
    pub(crate) fn empty(message: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::BAD_REQUEST, ErrorType::Empty, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::NOT_FOUND, ErrorType::NotFound, message)
    }

    /// A model that does not support the request.
    pub(crate) fn wrong_model(message: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::FAILED_DEPENDENCY, ErrorType::Backend, message)
    }

    /// Marks the body of the request as unread.
    pub(crate) fn with_unread_body(self) -> RequestError {
        RequestError { has_unread_body: true, ..self }
    }

    /// A request that may be sent again later.
    pub(crate) fn overloaded(message: impl Into<String>) -> RequestError {
        RequestError::new(StatusCode::TOO_MANY_REQUESTS, ErrorType::Overloaded, message)
    }

    /// A failure of the model, without the texts of the request.
    pub(crate) fn model_failed() -> RequestError {
        let message = tr!(
            "the model failed; other requests are not affected",
            "モデルの処理が失敗しました。ほかのリクエストには影響しません"
        );
        RequestError::new(StatusCode::FAILED_DEPENDENCY, ErrorType::Backend, message)
    }

    pub(crate) fn has_unread_body(&self) -> bool {
        self.has_unread_body
    }

    pub(crate) fn error_type(&self) -> &'static str {
        self.kind.name()
    }

    pub(crate) fn as_json(&self) -> Value {
        json!({ "error": self.message, "error_type": self.kind.name() })
    }

    /// Returns the response in the format of OpenAI's API.
    pub(crate) fn into_openai(self) -> Response {
        let (message, kind, code) = (&self.message, self.kind.name(), self.status.as_u16());
        let body = json!({
            "error": { "message": message, "type": kind, "code": code, "param": null },
            "message": message, "type": kind, "code": code, "error_type": kind,
        });
        self.into_response_with(body.to_string())
    }

    fn into_response_with(self, body: String) -> Response {
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// The fields of a request that correspond to flags of the command in messages of the library.
const FIELDS: FlagNames = FlagNames {
    phrases: &[],
    names: &[("align", "\"align\": \"{}\""), ("method", "\"method\": \"{}\""), ("no-chat", "no_chat")],
};

impl From<chumoku::Error> for RequestError {
    fn from(error: chumoku::Error) -> Self {
        let message = FIELDS.rename(&error.to_string());
        match &error {
            chumoku::Error::Tokenizer(_) => {
                RequestError::new(StatusCode::UNPROCESSABLE_ENTITY, ErrorType::Tokenizer, message)
            }
            chumoku::Error::Setting(_) => RequestError::invalid(message),
            // Errors of the request's texts or settings, not of the model.
            chumoku::Error::Nn(NnError::TooLong { .. }) => RequestError::too_large(message),
            chumoku::Error::Nn(
                NnError::BeamWidth { .. } | NnError::LengthPenalty(_) | NnError::Temperature(_) | NnError::TopP(_),
            ) => RequestError::invalid(message),
            _ => RequestError::new(StatusCode::FAILED_DEPENDENCY, ErrorType::Backend, message),
        }
    }
}

impl IntoResponse for RequestError {
    fn into_response(self) -> Response {
        let body = self.as_json();
        self.into_response_with(body.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn library_errors_name_fields_of_the_request() {
        for (message, renamed) in [
            ("align the tokens, for example with --align 1:1,3-4:4-5. Tokens", "\"align\": \"1:1,3-4:4-5\". Tokens"),
            ("not a number; --method leave-one-out needs no gradients", "\"method\": \"leave-one-out\" needs"),
            ("cannot be used: x; --no-chat continues", "x; no_chat continues"),
        ] {
            let error = RequestError::from(chumoku::Error::Setting(message.into()));
            assert!(error.message.contains(renamed) && !error.message.contains("--"), "{}", error.message);
        }
    }

    /// Modules of the library that the service does not call, or whose messages describe a file and not a request.
    const OF_THE_COMMAND: [&str; 6] = [
        // Rows of files, for the command and the Python package.
        "answers/row_predictor.rs",
        "answers/label_thresholds.rs",
        "answers/feature_values.rs",
        // Training.
        "hierarchy/source.rs",
        "scoring/advice.rs",
        // Folders that training writes.
        "model_folder/replace.rs",
    ];

    /// Returns the flags that strings in the source files of a folder name outside whole commands.
    fn flags_in_messages(root: &Path, folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            if entry.is_dir() {
                flags_in_messages(root, &entry, found);
                continue;
            }
            if OF_THE_COMMAND.contains(&name.as_str()) {
                continue;
            }
            let source = fs::read_to_string(&entry).unwrap();
            let source = source.split("#[cfg(test)]").next().unwrap();
            for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
                // Whole commands stand between backticks.
                let outside = line.split('`').step_by(2);
                for part in outside.flat_map(|text| text.split("--").skip(1)) {
                    let flag = part.split(|c: char| !(c.is_ascii_lowercase() || c == '-')).next().unwrap();
                    if !flag.is_empty() {
                        found.push((name.clone(), flag.to_owned()));
                    }
                }
            }
        }
    }

    #[test]
    fn every_flag_in_an_answer_is_a_field() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../chumoku-inference/src");
        let mut found = Vec::new();
        flags_in_messages(&root, &root, &mut found);
        assert!(found.iter().any(|(_, flag)| flag == "align"), "{found:?}");
        for (file, flag) in found {
            let renamed = FIELDS.rename(&format!("--{flag} x"));
            assert!(!renamed.contains("--"), "{file}: --{flag} has no field in the messages of the service");
        }
    }
}
