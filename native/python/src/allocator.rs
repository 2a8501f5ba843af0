//! Memory of the core: columns are pages of their own, which the system gets back as soon as they are let go.
//!
//! The C library keeps what it once served from its heap, up to 32 MB a piece: a fifth of the memory of a report.

use std::alloc::{GlobalAlloc, Layout, System};

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

struct Allocator;

/// From so many bytes on, an allocation is pages of its own.
const LARGE_BYTES: usize = 1 << 20;
/// Pages are aligned to at least this.
const PAGE_BYTES: usize = 4096;

/// Give back what the C library keeps of small pieces that were let go: after much work it may be a fifth of a process.
#[pyfunction]
pub fn give_back(py: Python<'_>) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called at any time, by any thread.
    py.detach(|| unsafe { libc::malloc_trim(0) });
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = py;
}

fn is_large(size: usize, layout: Layout) -> bool {
    cfg!(target_os = "linux") && size >= LARGE_BYTES && layout.align() <= PAGE_BYTES
}

// SAFETY: what is large is mapped, remapped and unmapped by the size that its layout tells, all else is the system's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout.size(), layout) { pages::map(layout.size()) } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // New pages are zero.
        if is_large(layout.size(), layout) { pages::map(layout.size()) } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if is_large(layout.size(), layout) {
            unsafe { pages::unmap(at, layout.size()) };
        } else {
            unsafe { System.dealloc(at, layout) };
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match (is_large(layout.size(), layout), is_large(size, layout)) {
            (true, true) => unsafe { pages::remap(at, layout.size(), size) },
            (false, false) => unsafe { System.realloc(at, layout, size) },
            _ => {
                let Ok(other) = Layout::from_size_align(size, layout.align()) else { return std::ptr::null_mut() };
                let new = unsafe { self.alloc(other) };
                if !new.is_null() {
                    unsafe {
                        std::ptr::copy_nonoverlapping(at, new, layout.size().min(size));
                        self.dealloc(at, layout);
                    }
                }
                new
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod pages {
    use std::ptr::null_mut;

    /// From so many bytes on the system may take huge pages: small ones, cleared one by one, take as long as what is
    /// written to them.
    const HUGE_BYTES: usize = 4 << 20;

    pub fn map(size: usize) -> *mut u8 {
        let (allowed, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new pages of nobody's.
        own(unsafe { libc::mmap(null_mut(), size, allowed, private, -1, 0) }, size)
    }

    pub unsafe fn unmap(at: *mut u8, size: usize) {
        unsafe { libc::munmap(at.cast(), size) };
    }

    pub unsafe fn remap(at: *mut u8, old: usize, size: usize) -> *mut u8 {
        own(unsafe { libc::mremap(at.cast(), old, size, libc::MREMAP_MAYMOVE) }, size)
    }

    fn own(pages: *mut libc::c_void, size: usize) -> *mut u8 {
        if pages == libc::MAP_FAILED {
            return null_mut();
        }
        if size >= HUGE_BYTES {
            // SAFETY: they are ours. It is a wish; whether the system can does not matter.
            unsafe { libc::madvise(pages, size, libc::MADV_HUGEPAGE) };
        }
        pages.cast()
    }
}

/// Elsewhere nothing is large.
#[cfg(not(target_os = "linux"))]
mod pages {
    pub fn map(_: usize) -> *mut u8 {
        std::ptr::null_mut()
    }

    pub unsafe fn unmap(_: *mut u8, _: usize) {}

    pub unsafe fn remap(_: *mut u8, _: usize, _: usize) -> *mut u8 {
        std::ptr::null_mut()
    }
}
