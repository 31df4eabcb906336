//! A minimal Protocol Buffers encoder for writing ONNX.
//!
//! Source: <https://protobuf.dev/programming-guides/encoding/>.

/// A message under construction: its encoded fields.
#[derive(Clone, Debug, Default)]
pub(super) struct ProtobufMessage(Vec<u8>);

/// Wire types.
const VARINT: u64 = 0;
const BYTES: u64 = 2;
const FIXED_32: u64 = 5;

impl ProtobufMessage {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    /// Appends an integer field. Negative numbers take ten bytes.
    pub(super) fn int(&mut self, field: u64, value: i64) -> &mut Self {
        self.key(field, VARINT);
        self.varint(value as u64);
        self
    }

    pub(super) fn float(&mut self, field: u64, value: f32) -> &mut Self {
        self.key(field, FIXED_32);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Self {
        self.key(field, BYTES);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn text(&mut self, field: u64, value: &str) -> &mut Self {
        self.bytes(field, value.as_bytes())
    }

    pub(super) fn message(&mut self, field: u64, value: &ProtobufMessage) -> &mut Self {
        self.bytes(field, &value.0)
    }

    /// Appends the fields of another message.
    pub(super) fn append(&mut self, mut other: ProtobufMessage) -> &mut Self {
        self.0.append(&mut other.0);
        self
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_match_the_documentation() {
        let mut message = ProtobufMessage::default();
        message.int(1, 150).text(2, "testing");
        assert_eq!(message.clone().into_bytes(), b"\x08\x96\x01\x12\x07testing");
        let mut outer = ProtobufMessage::default();
        outer.message(3, &message).int(1, -1).float(15, 1.5);
        let expected = [&b"\x1a\x0c\x08\x96\x01\x12\x07testing\x08"[..], &[0xff; 9], b"\x01\x7d\0\0\xc0\x3f"].concat();
        assert_eq!(outer.into_bytes(), expected);
    }
}
