//! A process whose time of day is wrong.

use std::path::Path;
use std::process::Command;

/// By how many seconds the clock is ahead, as the library reads it.
pub(crate) const LATER_S: &str = "LATER_S";

/// A library for `LD_PRELOAD`, made in `folder`, that has a process's time of day be [`LATER_S`] seconds later, or earlier where
/// they are negative.
pub(crate) fn later(folder: &Path) -> String {
    let source = folder.join("later.c");
    let text = "#define _GNU_SOURCE\n#include <time.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n\
                int clock_gettime(clockid_t clock, struct timespec *at) {\n\
                long done = syscall(SYS_clock_gettime, clock, at);\n\
                const char *by = getenv(\"LATER_S\");\n\
                if (done == 0 && clock == CLOCK_REALTIME && by) at->tv_sec += atol(by);\n\
                return done;\n}\n";
    std::fs::write(&source, text).unwrap();
    let library = folder.join("later.so");
    let done =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(done.success());
    library.to_str().unwrap().to_owned()
}
