//! Builds an ONNX graph: nodes in the order of computation, initializers, inputs and outputs.
//!
//! Source: <https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>, which defines the field numbers used here.

use super::protobuf::ProtobufMessage;
use std::collections::HashSet;

/// The IR version that belongs to the opset.
const IR_VERSION: i64 = 8;

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnnxElementType {
    Float = 1,
    Int32 = 6,
    Int64 = 7,
    Bool = 9,
}

/// The length of an axis.
#[derive(Clone, Copy, Debug)]
pub(super) enum GraphAxis {
    Symbolic(&'static str),
    Fixed(usize),
}

/// An attribute of an operator.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attribute<'a> {
    Int(i64),
    Float(f32),
    Ints(&'a [i64]),
    Text(&'a str),
}

/// Nodes, initializers, inputs and outputs. The output of a node is known by its name.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: ProtobufMessage,
    initializers: ProtobufMessage,
    inputs: ProtobufMessage,
    outputs: ProtobufMessage,
    names: HashSet<String>,
    num_nodes: usize,
    /// Prefix of node names.
    pub(super) scope: String,
}

impl Graph {
    /// Adds a node with one output of a unique name, and returns that name.
    pub(super) fn op(&mut self, operator: &str, inputs: &[&str], attributes: &[(&str, Attribute<'_>)]) -> String {
        self.num_nodes += 1;
        let output = format!("{}{operator}_{}", self.scope, self.num_nodes);
        self.node(operator, inputs, attributes, &output);
        output
    }

    /// Adds a node whose output has this name. An omitted input is an empty string.
    pub(super) fn node(&mut self, operator: &str, inputs: &[&str], attributes: &[(&str, Attribute<'_>)], output: &str) {
        let mut node = ProtobufMessage::default();
        inputs.iter().for_each(|input| {
            node.text(1, input);
        });
        node.text(2, output).text(3, output).text(4, operator);
        for (name, value) in attributes {
            let mut attribute = ProtobufMessage::default();
            attribute.text(1, name);
            match value {
                Attribute::Float(value) => attribute.float(2, *value).int(20, 1),
                Attribute::Int(value) => attribute.int(3, *value).int(20, 2),
                Attribute::Text(value) => attribute.text(4, value).int(20, 3),
                Attribute::Ints(values) => {
                    values.iter().for_each(|value| {
                        attribute.int(8, *value);
                    });
                    attribute.int(20, 7)
                }
            };
            node.message(5, &attribute);
        }
        self.nodes.message(1, &node);
    }

    /// Adds an initializer of floats. An existing name refers to the same numbers.
    pub(super) fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> String {
        self.initializer(name, OnnxElementType::Float, shape, || {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        })
    }

    /// Adds an initializer of integers.
    pub(super) fn ints(&mut self, values: &[i64]) -> String {
        let words: Vec<String> = values.iter().map(i64::to_string).collect();
        let name = format!("ints.{}", words.join("_"));
        let shape = [values.len()];
        self.initializer(&name, OnnxElementType::Int64, &shape, || {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        })
    }

    /// Adds a scalar integer.
    pub(super) fn int_scalar(&mut self, value: i64) -> String {
        self.initializer(&format!("int.{value}"), OnnxElementType::Int64, &[], || value.to_le_bytes().to_vec())
    }

    /// Adds a scalar float.
    pub(super) fn scalar(&mut self, name: &str, value: f32) -> String {
        self.floats(name, &[], &[value])
    }

    fn initializer(
        &mut self,
        name: &str,
        kind: OnnxElementType,
        shape: &[usize],
        bytes: impl FnOnce() -> Vec<u8>,
    ) -> String {
        if self.names.insert(name.to_owned()) {
            let mut tensor = ProtobufMessage::default();
            shape.iter().for_each(|&length| {
                tensor.int(1, length as i64);
            });
            tensor.int(2, kind as i64).text(8, name).bytes(9, &bytes());
            self.initializers.message(5, &tensor);
        }
        name.to_owned()
    }

    pub(super) fn input(&mut self, name: &str, kind: OnnxElementType, axes: &[GraphAxis]) {
        self.inputs.message(11, &value_info(name, kind, axes));
    }

    pub(super) fn output(&mut self, name: &str, kind: OnnxElementType, axes: &[GraphAxis]) {
        self.outputs.message(12, &value_info(name, kind, axes));
    }

    /// Returns the graph as the bytes of a file.
    pub(super) fn into_model(self, opset: i64, metadata: &[(String, String)]) -> Vec<u8> {
        let mut graph = self.nodes;
        graph.text(2, "classifier").append(self.initializers).append(self.inputs).append(self.outputs);
        let mut version = ProtobufMessage::default();
        version.text(1, "").int(2, opset);
        let mut model = ProtobufMessage::default();
        model.int(1, IR_VERSION).text(2, "chumoku").text(3, env!("CARGO_PKG_VERSION")).message(7, &graph);
        model.message(8, &version);
        for (key, value) in metadata {
            let mut entry = ProtobufMessage::default();
            entry.text(1, key).text(2, value);
            model.message(14, &entry);
        }
        model.into_bytes()
    }
}

fn value_info(name: &str, kind: OnnxElementType, axes: &[GraphAxis]) -> ProtobufMessage {
    let mut shape = ProtobufMessage::default();
    for axis in axes {
        let mut dimension = ProtobufMessage::default();
        match axis {
            GraphAxis::Fixed(length) => dimension.int(1, *length as i64),
            GraphAxis::Symbolic(name) => dimension.text(2, name),
        };
        shape.message(1, &dimension);
    }
    let (mut tensor, mut of_type, mut info) =
        (ProtobufMessage::default(), ProtobufMessage::default(), ProtobufMessage::default());
    tensor.int(1, kind as i64).message(2, &shape);
    of_type.message(1, &tensor);
    info.text(1, name).message(2, &of_type);
    info
}
