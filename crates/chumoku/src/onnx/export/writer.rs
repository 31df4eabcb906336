//! A graph under construction with the model's parameters.

use super::graph::{Attribute, Graph, OnnxElementType};
use crate::params::Params;
use crate::{Error, Result, tr};
use std::collections::HashMap;

/// A parameter's shape and numbers.
type Parameter<'a> = (&'a [usize], &'a [f32]);

/// A graph, and a model's parameters by name.
pub(super) struct GraphWriter<'a> {
    pub(super) graph: Graph,
    parameters: HashMap<&'a str, Parameter<'a>>,
}

impl<'a> GraphWriter<'a> {
    pub(super) fn new(params: &'a Params<f32>) -> Self {
        let layout = params.layout().iter();
        let parameters = layout.map(|param| (param.name, (param.shape, &params.values()[param.range]))).collect();
        GraphWriter { graph: Graph::default(), parameters }
    }

    /// Returns a parameter and its shape.
    pub(super) fn parameter(&self, name: &str) -> Result<Parameter<'a>> {
        self.parameters.get(name).copied().ok_or_else(|| {
            unsupported(&tr!(
                "weights {name} are frozen: save the model and export its folder",
                "重み {name} は固定されています。モデルを保存し、そのフォルダから書き出してください"
            ))
        })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.parameters.contains_key(name)
    }

    /// Adds a parameter as an initializer of the graph.
    pub(super) fn initializer(&mut self, name: &str) -> Result<String> {
        let (shape, values) = self.parameter(name)?;
        Ok(self.graph.floats(name, shape, values))
    }

    /// Adds an operator without attributes.
    pub(super) fn op(&mut self, operator: &str, inputs: &[&str]) -> String {
        self.graph.op(operator, inputs, &[])
    }

    /// Adds a scalar, which nodes may share.
    pub(super) fn scalar(&mut self, value: f32) -> String {
        self.graph.scalar(&format!("number.{value:e}"), value)
    }

    pub(super) fn cast(&mut self, x: &str, kind: OnnxElementType) -> String {
        self.graph.op("Cast", &[x], &[("to", Attribute::Int(kind as i64))])
    }
}

/// The error for a part that cannot be exported.
pub(super) fn unsupported(problem: &str) -> Error {
    Error::Setting(tr!(
        "writing ONNX: {problem}; use the model with chumoku itself",
        "ONNX を書き出せません。{problem}。chumoku でお使いください"
    ))
}
