//! What the process says when a library aborts it: where memory is missing, no error reaches Python.

use pyo3::prelude::*;

#[pyfunction]
pub fn say_on_abort(sentence: String, code: i32, to: i32) {
    #[cfg(unix)]
    unix::say_on_abort(unix::Said { sentence, code, to });
    #[cfg(not(unix))]
    let _ = (sentence, code, to);
}

#[cfg(unix)]
mod unix {
    use std::sync::OnceLock;

    pub struct Said {
        pub sentence: String,
        pub code: i32,
        /// A file descriptor.
        pub to: i32,
    }

    static SAID: OnceLock<Said> = OnceLock::new();

    pub fn say_on_abort(said: Said) {
        if SAID.set(said).is_ok() {
            let handler = say as extern "C" fn(libc::c_int);
            // SAFETY: `say` does only what a signal handler may: it writes to a file descriptor and ends the process.
            unsafe { libc::signal(libc::SIGABRT, handler as libc::sighandler_t) };
        }
    }

    extern "C" fn say(_: libc::c_int) {
        let Some(Said { sentence, code, to }) = SAID.get() else { return };
        // SAFETY: the bytes live as long as the process, which ends here.
        unsafe {
            libc::write(*to, sentence.as_ptr().cast(), sentence.len());
            libc::_exit(*code);
        }
    }
}
