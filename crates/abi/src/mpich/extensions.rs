//! Those of MPICH's extensions (`MPIX_`) that programs ask before they pass memory of a device: Ferrule takes none.

use crate::api::{api, plain};
use crate::kinds::*;
use core::ffi::c_int;

api! {
    with cs;

    /// Whether buffers may be in the memory of a kind of device
    MPIX_GPU_query_support => (gpu_type: Int, is_supported: OutFlag) on anytime {
        is_supported.set_flag(false);
        Ok(())
    }
}

plain! {
    /// Whether buffers may be in the memory of CUDA devices
    MPIX_Query_cuda_support => () -> "int" c_int { 0 }

    /// Whether buffers may be in the memory of HIP devices
    MPIX_Query_hip_support => () -> "int" c_int { 0 }

    /// Whether buffers may be in the memory of Level Zero devices
    MPIX_Query_ze_support => () -> "int" c_int { 0 }
}
