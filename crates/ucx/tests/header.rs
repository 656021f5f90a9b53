//! The declarations of `src/raw.rs` against an installed header of UCX.

#[path = "../src/raw.rs"]
#[expect(dead_code, reason = "functions are not called here")]
mod raw;

use raw::*;
use std::mem::offset_of;
use std::process::Command;

/// What the header must say: an expression of C, and its value here.
fn facts() -> Vec<(&'static str, u64)> {
    let at = |name, offset: usize| (name, offset as u64);
    vec![
        ("sizeof(ucs_status_t)", size_of::<RawStatus>() as u64),
        ("UCS_INPROGRESS", IN_PROGRESS as u64),
        ("-(UCS_ERR_LAST)", ERR_LAST.unsigned_abs() as u64),
        ("UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP | UCP_FEATURE_AM", FEATURES),
        ("UCP_PARAM_FIELD_FEATURES", PARAM_FEATURES),
        ("UCP_WORKER_PARAM_FIELD_THREAD_MODE", WORKER_PARAM_THREAD_MODE),
        ("UCS_THREAD_MODE_SERIALIZED", THREAD_MODE_SERIALIZED as u64),
        (
            "UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER",
            EP_PARAMS,
        ),
        ("UCP_ERR_HANDLING_MODE_PEER", ERR_HANDLING_PEER as u64),
        ("UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS", u64::from(OP_ATTRS)),
        ("UCP_OP_ATTR_FIELD_MEMORY_TYPE", u64::from(OP_ATTR_MEMORY_TYPE)),
        ("UCS_MEMORY_TYPE_HOST", 0),
        ("UCP_EP_CLOSE_FLAG_FORCE", u64::from(CLOSE_FORCE)),
        (
            "UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB | \
             UCP_AM_HANDLER_PARAM_FIELD_ARG",
            AM_HANDLER_PARAMS,
        ),
        ("UCP_AM_FLAG_WHOLE_MSG", u64::from(AM_WHOLE_MESSAGE)),
        ("UCP_AM_RECV_ATTR_FLAG_DATA", AM_RECV_DATA),
        ("UCP_AM_RECV_ATTR_FLAG_RNDV", AM_RECV_RENDEZVOUS),
        ("UCP_AM_SEND_FLAG_EAGER", u64::from(AM_SEND_EAGER)),
        ("UCP_AM_SEND_FLAG_RNDV", u64::from(AM_SEND_RENDEZVOUS)),
        ("UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH", MEM_MAP_PARAMS),
        ("UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER", WORKER_ATTR_MAX_AM_HEADER),
        at("offsetof(ucp_params_t, features)", offset_of!(Params, features)),
        at("offsetof(ucp_worker_params_t, thread_mode)", offset_of!(WorkerParams, thread_mode)),
        at("offsetof(ucp_worker_attr_t, max_am_header)", offset_of!(WorkerAttr, max_am_header)),
        at("offsetof(ucp_ep_params_t, address)", offset_of!(EpParams, address)),
        at("offsetof(ucp_ep_params_t, err_mode)", offset_of!(EpParams, err_mode)),
        at("offsetof(ucp_ep_params_t, err_handler.cb)", offset_of!(EpParams, err_callback)),
        at("offsetof(ucp_ep_params_t, err_handler.arg)", offset_of!(EpParams, err_arg)),
        at("offsetof(ucp_request_param_t, flags)", offset_of!(RequestParam, flags)),
        at("offsetof(ucp_request_param_t, request)", offset_of!(RequestParam, request)),
        at("offsetof(ucp_request_param_t, cb)", offset_of!(RequestParam, callback)),
        at("offsetof(ucp_request_param_t, datatype)", offset_of!(RequestParam, datatype)),
        at("offsetof(ucp_request_param_t, user_data)", offset_of!(RequestParam, user_data)),
        at("offsetof(ucp_request_param_t, memory_type)", offset_of!(RequestParam, memory_type)),
        at("sizeof(ucp_am_handler_param_t)", size_of::<AmHandlerParam>()),
        at("offsetof(ucp_am_handler_param_t, id)", offset_of!(AmHandlerParam, id)),
        at("offsetof(ucp_am_handler_param_t, flags)", offset_of!(AmHandlerParam, flags)),
        at("offsetof(ucp_am_handler_param_t, cb)", offset_of!(AmHandlerParam, callback)),
        at("offsetof(ucp_am_handler_param_t, arg)", offset_of!(AmHandlerParam, arg)),
        at("offsetof(ucp_am_recv_param_t, recv_attr)", offset_of!(AmRecvParam, recv_attr)),
        at("offsetof(ucp_mem_map_params_t, address)", offset_of!(MemMapParams, address)),
        at("offsetof(ucp_mem_map_params_t, length)", offset_of!(MemMapParams, length)),
        at("sizeof(ucp_params_t) <= 96", usize::from(size_of::<Params>() == 96)),
        at("sizeof(ucp_worker_params_t)", size_of::<WorkerParams>()),
        at("sizeof(ucp_worker_attr_t)", size_of::<WorkerAttr>()),
        at("sizeof(ucp_ep_params_t)", size_of::<EpParams>()),
        at("sizeof(ucp_request_param_t) <= 96", usize::from(size_of::<RequestParam>() == 96)),
        at("sizeof(ucp_mem_map_params_t) <= 48", usize::from(size_of::<MemMapParams>() == 48)),
    ]
}

/// Asks a C compiler; `FERRULE_TEST_UCX_INCLUDE` names another folder of headers.
#[test]
fn the_header_says_the_same() {
    let folder = std::env::temp_dir().join(format!("ferrule-ucx-header-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("facts");
    let source = program.with_extension("c");
    let include = std::env::var("FERRULE_TEST_UCX_INCLUDE").unwrap_or_else(|_| "/usr/include".into());
    let lines = facts()
        .iter()
        .map(|(text, _)| format!("printf(\"%llu\\n\", (unsigned long long)({text}));\n"))
        .collect::<String>();
    let text = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <ucp/api/ucp.h>\nint main(void) {{\n{lines}return 0; }}\n"
    );
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc").arg(format!("-I{include}")).arg(&source).arg("-o").arg(&program).output();
    let found =
        built.as_ref().is_ok_and(|built| built.status.success()).then(|| Command::new(&program).output().unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
    let Some(found) = found else {
        assert!(!std::path::Path::new(&include).join("ucp/api/ucp.h").exists(), "{built:?}");
        return println!("skipped: no C compiler, or no headers of UCX in {include} (Debian: libucx-dev)");
    };
    let found = String::from_utf8(found.stdout).unwrap();
    let values: Vec<u64> = found.lines().map(|line| line.parse().unwrap()).collect();
    for ((text, ours), theirs) in facts().into_iter().zip(&values) {
        assert_eq!(ours, *theirs, "{text}");
    }
    assert_eq!(values.len(), facts().len());
}
