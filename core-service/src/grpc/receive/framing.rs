//! Where the messages of a stream end (gRPC over HTTP/2, "Length-Prefixed-Message").

/// Finds the ends of messages: each has a flag and its length, in 5 bytes, before it.
#[derive(Debug, Default)]
pub(super) struct Framing {
    /// How much of the 5 bytes has come.
    prefix: usize,
    /// The length that they say.
    len: usize,
    /// How much of the message has come.
    come: usize,
}

impl Framing {
    const PREFIX: usize = 5;

    /// How many bytes have come of a message that is not whole.
    pub(super) fn unfinished(&self) -> usize {
        self.prefix + self.come
    }

    /// Takes note of what has come next; whether a message ended in it.
    pub(super) fn ends_with(&mut self, mut data: &[u8]) -> bool {
        let mut has_ended = false;
        while let Some((byte, rest)) = data.split_first() {
            if self.prefix < Self::PREFIX {
                self.len = if self.prefix == 0 { 0 } else { self.len << 8 | usize::from(*byte) };
                self.prefix += 1;
                data = rest;
            } else {
                let more = data.len().min(self.len - self.come);
                self.come += more;
                data = data.get(more..).unwrap_or_default();
            }
            if self.prefix == Self::PREFIX && self.come == self.len {
                *self = Self::default();
                has_ended = true;
            }
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(len: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(u32::try_from(len).unwrap().to_be_bytes());
        bytes.extend(vec![b'x'; len]);
        bytes
    }

    #[test]
    fn the_ends_of_messages_are_found_wherever_the_data_is_cut() {
        let lens = [0, 1, 255, 256, 70_000, 0, 3];
        let bytes: Vec<u8> = lens.into_iter().flat_map(framed).collect();
        for size in [1, 2, 5, 7, 4_096, bytes.len()] {
            let (mut framing, mut ended) = (Framing::default(), 0);
            for data in bytes.chunks(size) {
                ended += usize::from(framing.ends_with(data));
            }
            assert_eq!(framing.unfinished(), 0, "{size}");
            assert!(ended > 0 && (size > 1 || ended == lens.len()), "{size}: {ended}");
        }
    }

    #[test]
    fn what_has_come_of_an_unfinished_message_is_known() {
        let mut framing = Framing::default();
        let bytes = framed(10);
        for come in 1..bytes.len() {
            assert!(!framing.ends_with(&bytes[come - 1..come]));
            assert_eq!(framing.unfinished(), come);
        }
        assert!(framing.ends_with(&bytes[bytes.len() - 1..]));
    }
}
