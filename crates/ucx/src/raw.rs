//! What this crate uses of `ucp/api/ucp.h` (UCX 1.13 to 1.22): constants, structures, functions.
//!
//! Every structure begins with a mask of the fields that are set, so later versions, which add fields at the end, read only those of 1.13.

use std::ffi::{c_char, c_int, c_uint, c_void};
use sys::library::Library;

/// A value of `ucs_status_t`, which is an enumeration in one byte.
pub type RawStatus = i8;

/// `UCS_OK`.
pub const OK: RawStatus = 0;
/// `UCS_INPROGRESS`.
pub const IN_PROGRESS: RawStatus = 1;
/// `UCS_ERR_LAST`: pointers from here to 0, taken as numbers, are statuses.
pub const ERR_LAST: isize = -100;

/// `UCP_FEATURE_RMA`, `UCP_FEATURE_WAKEUP`, `UCP_FEATURE_AM`.
pub const FEATURES: u64 = 1 << 1 | 1 << 4 | 1 << 6;
/// `UCP_PARAM_FIELD_FEATURES`.
pub const PARAM_FEATURES: u64 = 1;
/// `UCP_WORKER_PARAM_FIELD_THREAD_MODE`.
pub const WORKER_PARAM_THREAD_MODE: u64 = 1;
/// `UCS_THREAD_MODE_SERIALIZED`.
pub const THREAD_MODE_SERIALIZED: c_int = 1;
/// `UCP_EP_PARAM_FIELD_REMOTE_ADDRESS`, `_ERR_HANDLING_MODE`, `_ERR_HANDLER`.
pub const EP_PARAMS: u64 = 1 | 2 | 4;
/// `UCP_ERR_HANDLING_MODE_PEER`.
pub const ERR_HANDLING_PEER: c_int = 1;
/// `UCP_OP_ATTR_FIELD_CALLBACK`, `_USER_DATA`, `_FLAGS`.
pub const OP_ATTRS: u32 = 1 << 1 | 1 << 2 | 1 << 4;
/// `UCP_OP_ATTR_FIELD_MEMORY_TYPE`; the type of host memory is 0.
pub const OP_ATTR_MEMORY_TYPE: u32 = 1 << 6;
/// `UCP_EP_CLOSE_FLAG_FORCE`.
pub const CLOSE_FORCE: u32 = 1;
/// `UCP_AM_HANDLER_PARAM_FIELD_ID`, `_FLAGS`, `_CB`, `_ARG`.
pub const AM_HANDLER_PARAMS: u64 = 1 | 2 | 4 | 8;
/// `UCP_AM_FLAG_WHOLE_MSG`.
pub const AM_WHOLE_MESSAGE: u32 = 1;
/// `UCP_AM_RECV_ATTR_FLAG_DATA`.
pub const AM_RECV_DATA: u64 = 1 << 16;
/// `UCP_AM_RECV_ATTR_FLAG_RNDV`.
pub const AM_RECV_RENDEZVOUS: u64 = 1 << 17;
/// `UCP_AM_SEND_FLAG_EAGER`.
pub const AM_SEND_EAGER: u32 = 2;
/// `UCP_AM_SEND_FLAG_RNDV`.
pub const AM_SEND_RENDEZVOUS: u32 = 4;
/// `UCP_MEM_MAP_PARAM_FIELD_ADDRESS`, `_LENGTH`.
pub const MEM_MAP_PARAMS: u64 = 1 | 2;
/// `UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER`.
pub const WORKER_ATTR_MAX_AM_HEADER: u64 = 1 << 3;

/// `ucp_params_t`.
#[repr(C)]
#[derive(Default)]
pub struct Params {
    pub field_mask: u64,
    pub features: u64,
    pub rest: [u64; 10],
}

/// `ucp_worker_params_t`.
#[repr(C)]
pub struct WorkerParams {
    pub field_mask: u64,
    pub thread_mode: c_int,
    pub rest: [u64; 23],
}

/// `ucp_worker_attr_t`.
#[repr(C)]
#[derive(Default)]
pub struct WorkerAttr {
    pub field_mask: u64,
    pub unused: [u64; 3],
    pub max_am_header: usize,
    pub rest: [u64; 5],
}

/// `ucp_ep_params_t`.
#[repr(C)]
pub struct EpParams {
    pub field_mask: u64,
    pub address: *const c_void,
    pub err_mode: c_int,
    pub err_callback: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, c_int)>,
    pub err_arg: *mut c_void,
    pub rest: [u64; 8],
}

/// The callbacks of an operation; all of them get the value that the caller has given.
#[repr(C)]
#[derive(Clone, Copy)]
pub union OperationCallback {
    /// `ucp_send_nbx_callback_t`.
    pub send: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void),
    /// `ucp_am_recv_data_nbx_callback_t`.
    pub receive: unsafe extern "C" fn(*mut c_void, c_int, usize, *mut c_void),
}

/// `ucp_request_param_t`.
#[repr(C)]
pub struct RequestParam {
    pub op_attr_mask: u32,
    pub flags: u32,
    pub request: *mut c_void,
    pub callback: OperationCallback,
    pub datatype: u64,
    pub user_data: *mut c_void,
    pub reply_buffer: *mut c_void,
    pub memory_type: c_int,
    pub rest: [u64; 5],
}

/// `ucp_am_handler_param_t`.
#[repr(C)]
pub struct AmHandlerParam {
    pub field_mask: u64,
    pub id: c_uint,
    pub flags: u32,
    pub callback: AmCallback,
    pub arg: *mut c_void,
}

/// `ucp_am_recv_callback_t`: argument, header and its length, data and its length, how they came.
pub type AmCallback =
    unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void, usize, *const AmRecvParam) -> RawStatus;

/// `ucp_am_recv_param_t`.
#[repr(C)]
pub struct AmRecvParam {
    pub recv_attr: u64,
    pub reply_ep: *mut c_void,
}

/// `ucp_mem_map_params_t`.
#[repr(C)]
#[derive(Default)]
pub struct MemMapParams {
    pub field_mask: u64,
    pub address: usize,
    pub length: usize,
    pub rest: [u64; 3],
}

/// Declares [`Functions`] and how they are found.
macro_rules! functions {
    ($($field:ident = $name:literal: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// The functions of libucp and, for texts of errors, of the libucs that it brings.
        pub struct Functions {
            $(#[doc = concat!("`", $name, "`.")] pub $field: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Functions {
            /// Finds all of them.
            pub fn of(library: &Library) -> Result<Functions, String> {
                // SAFETY: the types are those of UCX's public header.
                unsafe {
                    Ok(Functions {
                        $($field: library.function(match std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                            Ok(name) => name,
                            Err(_) => return Err(concat!($name, " is no name").into()),
                        })?,)*
                    })
                }
            }
        }
    };
}

type P = *mut c_void;

functions! {
    version = "ucp_get_version": fn(*mut c_uint, *mut c_uint, *mut c_uint);
    status_string = "ucs_status_string": fn(c_int) -> *const c_char;
    config_read = "ucp_config_read": fn(*const c_char, *const c_char, *mut P) -> RawStatus;
    config_modify = "ucp_config_modify": fn(P, *const c_char, *const c_char) -> RawStatus;
    config_release = "ucp_config_release": fn(P);
    init = "ucp_init_version": fn(c_uint, c_uint, *const Params, P, *mut P) -> RawStatus;
    cleanup = "ucp_cleanup": fn(P);
    worker_create = "ucp_worker_create": fn(P, *const WorkerParams, *mut P) -> RawStatus;
    worker_destroy = "ucp_worker_destroy": fn(P);
    worker_query = "ucp_worker_query": fn(P, *mut WorkerAttr) -> RawStatus;
    worker_address = "ucp_worker_get_address": fn(P, *mut P, *mut usize) -> RawStatus;
    worker_release_address = "ucp_worker_release_address": fn(P, P);
    worker_progress = "ucp_worker_progress": fn(P) -> c_uint;
    worker_efd = "ucp_worker_get_efd": fn(P, *mut c_int) -> RawStatus;
    worker_arm = "ucp_worker_arm": fn(P) -> RawStatus;
    worker_set_handler = "ucp_worker_set_am_recv_handler": fn(P, *const AmHandlerParam) -> RawStatus;
    ep_create = "ucp_ep_create": fn(P, *const EpParams, *mut P) -> RawStatus;
    ep_close = "ucp_ep_close_nbx": fn(P, *const RequestParam) -> P;
    ep_flush = "ucp_ep_flush_nbx": fn(P, *const RequestParam) -> P;
    am_send = "ucp_am_send_nbx": fn(P, c_uint, *const c_void, usize, *const c_void, usize, *const RequestParam) -> P;
    am_receive = "ucp_am_recv_data_nbx": fn(P, P, P, usize, *const RequestParam) -> P;
    am_release = "ucp_am_data_release": fn(P, P);
    request_free = "ucp_request_free": fn(P);
    mem_map = "ucp_mem_map": fn(P, *const MemMapParams, *mut P) -> RawStatus;
    mem_unmap = "ucp_mem_unmap": fn(P, P) -> RawStatus;
    key_pack = "ucp_rkey_pack": fn(P, P, *mut P, *mut usize) -> RawStatus;
    key_release = "ucp_rkey_buffer_release": fn(P);
    key_unpack = "ucp_ep_rkey_unpack": fn(P, *const c_void, *mut P) -> RawStatus;
    key_destroy = "ucp_rkey_destroy": fn(P);
    put = "ucp_put_nbx": fn(P, *const c_void, usize, u64, P, *const RequestParam) -> P;
    get = "ucp_get_nbx": fn(P, P, usize, u64, P, *const RequestParam) -> P;
}
