//! Why a request is not answered: a status, a kind and a sentence.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chumoku::{NnError, tr};
use serde_json::{Value, json};

/// What went wrong, as text-embeddings-inference names it (`error_type`), and the cases that it has no name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The service ends.
    Unhealthy,
    /// The model failed.
    Backend,
    /// Too much is asked for at a time.
    Overloaded,
    /// The request is not one that can be answered.
    Validation,
    /// A text cannot be cut into tokens.
    Tokenizer,
    /// There is no text.
    Empty,
    /// There is no such endpoint or model.
    NotFound,
    /// The key is missing or wrong.
    Unauthorized,
    /// Something took too long.
    Timeout,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Unhealthy => "Unhealthy",
            Kind::Backend => "Backend",
            Kind::Overloaded => "Overloaded",
            Kind::Validation => "Validation",
            Kind::Tokenizer => "Tokenizer",
            Kind::Empty => "Empty",
            Kind::NotFound => "NotFound",
            Kind::Unauthorized => "Unauthorized",
            Kind::Timeout => "Timeout",
        }
    }
}

/// A request's refusal.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    kind: Kind,
    message: String,
    /// Whether its body stays unread, so that no other request can follow it.
    is_unread: bool,
}

pub(crate) type Result<T, E = Refusal> = std::result::Result<T, E>;

impl Refusal {
    pub(crate) fn new(status: StatusCode, kind: Kind, message: impl Into<String>) -> Refusal {
        Refusal { status, kind, message: message.into(), is_unread: false }
    }

    /// A request that is read, and cannot be answered as it is.
    pub(crate) fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, Kind::Validation, message)
    }

    /// A request that is no JSON object.
    pub(crate) fn malformed(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, Kind::Validation, message)
    }

    /// A request that asks for too much at once.
    pub(crate) fn too_large(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, Kind::Validation, message)
    }

    /// A request without a text.
    pub(crate) fn empty(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, Kind::Empty, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, Kind::NotFound, message)
    }

    /// A model that is not for what it was asked.
    pub(crate) fn wrong_model(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::FAILED_DEPENDENCY, Kind::Backend, message)
    }

    /// The same, of a request whose body is not read, or not to its end.
    pub(crate) fn unread(self) -> Refusal {
        Refusal { is_unread: true, ..self }
    }

    /// A request that may be sent again a little later.
    pub(crate) fn overloaded(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, Kind::Overloaded, message)
    }

    /// That the model failed, without what it was working on.
    pub(crate) fn broken() -> Refusal {
        let message = tr!(
            "the model failed; the other requests go on",
            "モデルの処理が失敗しました。ほかのリクエストは続行します"
        );
        Refusal::new(StatusCode::FAILED_DEPENDENCY, Kind::Backend, message)
    }

    pub(crate) fn is_unread(&self) -> bool {
        self.is_unread
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.kind.name()
    }

    pub(crate) fn as_json(&self) -> Value {
        json!({ "error": self.message, "error_type": self.kind.name() })
    }

    /// As OpenAI's interface has it, for the endpoints that are of that.
    pub(crate) fn into_openai(self) -> Response {
        let (message, kind, code) = (&self.message, self.kind.name(), self.status.as_u16());
        let body = json!({
            "error": { "message": message, "type": kind, "code": code, "param": null },
            "message": message, "type": kind, "code": code, "error_type": kind,
        });
        self.respond(body.to_string())
    }

    fn respond(self, body: String) -> Response {
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

impl From<chumoku::Error> for Refusal {
    fn from(error: chumoku::Error) -> Self {
        match &error {
            chumoku::Error::Tokenizer(_) => {
                Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, Kind::Tokenizer, error.to_string())
            }
            chumoku::Error::Setting(_) => Refusal::invalid(error.to_string()),
            // A text or a setting of the request, which the model is not at fault for.
            chumoku::Error::Nn(NnError::TooLong { .. }) => Refusal::too_large(error.to_string()),
            chumoku::Error::Nn(
                NnError::Beam { .. } | NnError::LengthPenalty(_) | NnError::Temperature(_) | NnError::TopP(_),
            ) => Refusal::invalid(error.to_string()),
            _ => Refusal::new(StatusCode::FAILED_DEPENDENCY, Kind::Backend, error.to_string()),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = self.as_json();
        self.respond(body.to_string())
    }
}
