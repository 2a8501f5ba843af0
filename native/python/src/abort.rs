//! What the process says when a library aborts it: where memory is missing, no error reaches Python.

use pyo3::prelude::*;

#[pyfunction]
pub fn say_on_abort(sentence: String, code: i32) {
    #[cfg(unix)]
    unix::say_on_abort(sentence, code);
    #[cfg(not(unix))]
    let _ = (sentence, code);
}

#[cfg(unix)]
mod unix {
    use std::sync::OnceLock;

    static SAID: OnceLock<(String, i32)> = OnceLock::new();

    pub fn say_on_abort(sentence: String, code: i32) {
        if SAID.set((sentence, code)).is_ok() {
            let handler = say as extern "C" fn(libc::c_int);
            // SAFETY: `say` does only what a signal handler may: it writes to a file descriptor and ends the process.
            unsafe { libc::signal(libc::SIGABRT, handler as libc::sighandler_t) };
        }
    }

    extern "C" fn say(_: libc::c_int) {
        let (sentence, code) = SAID.get().map_or(("", 1), |(sentence, code)| (sentence.as_str(), *code));
        // SAFETY: the bytes live as long as the process, which ends here.
        unsafe {
            libc::write(2, sentence.as_ptr().cast(), sentence.len());
            libc::_exit(code);
        }
    }
}
