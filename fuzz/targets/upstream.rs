//! What a cell may send: heads and chunked bodies, whole and in two pieces. The first byte says where the cut is.

#![no_main]

use cofferdam_proxy::upstream::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else { return };
    fuzzing::head(bytes, usize::from(cut));
    fuzzing::chunked(bytes, usize::from(cut));
});
