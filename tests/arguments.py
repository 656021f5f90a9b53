#!/usr/bin/env python3
"""Wrong arguments, one at a time, of every function that is implemented: the right error class, through the right handler.

The calls are made from the table in docs/reference/api.md: a valid value of each argument by its type and name, and then, for one argument after
the other, each wrong one. A call must give one of the classes that the standard names for the mistake (MPI-5.0, 9.4), by the handler of the
communicator, session or file in the call (MPI_FILE_NULL for files that are not open), or that of MPI_COMM_SELF if there is none or the mistake is just that (9.3). All run in one process;
a call that crashes or waits is caught.

Usage: tests/arguments.py [--lib ferrule|mpich] [--verbose]     mpich: the same program under the oracle, for comparison; never fails
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run as runner

API = runner.ROOT / "docs/reference/api.md"
OUT = runner.ROOT / "build/tests/arguments"

# Not called: they end the process or MPI, talk to the outside, or have no arguments that can be wrong. Functions of the tool interface raise no
# errors, they return codes of their own (MPI-5.0, 15.3.9): tests/c/tools calls them.
LEFT_OUT = re.compile(r"MPI_(Init|Init_thread|Finalize|Abort|Pcontrol|Free_mem|Alloc_mem|Get_address|Session_init|Session_finalize|.*_(to|from)int|"
                      r".*_(create|free)_keyval|Keyval_(create|free)|.*_create_errhandler|Grequest_.*|.*_flush_buffer|Buffer_.*|"
                      r".*_(at|de)tach_buffer|.*_iflush_buffer|Info_create_env|Comm_create_from_group|Intercomm_create.*|Comm_call_errhandler|"
                      r"Session_call_errhandler|File_call_errhandler|Comm_get_parent|Comm_disconnect|Comm_free|Abi_.*|F_sync_reg|Register_datarep|Comm_spawn.*|T_.*)(_c)?$")

# Arguments by C type and name (a regular expression): a valid value, then wrong ones with the classes that may come.
Wrong = tuple[str, str]
GARBAGE = "(void *)(intptr_t)0x5afe5afe"
ARGUMENTS: list[tuple[str, str, str, list[Wrong]]] = [
    ("MPI_Comm", r"intercomm", "inter", [("MPI_COMM_NULL", "COMM"), (f"(MPI_Comm){GARBAGE}", "COMM"), ("comm", "COMM")]),
    ("MPI_Comm", r".*", "comm", [("MPI_COMM_NULL", "COMM"), (f"(MPI_Comm){GARBAGE}", "COMM")]),
    ("MPI_Datatype", r".*", "MPI_INT", [("MPI_DATATYPE_NULL", "TYPE"), (f"(MPI_Datatype){GARBAGE}", "TYPE")]),
    ("MPI_Datatype *", r"datatype", "&type", [("&no_type", "TYPE"), ("NULL", "ARG TYPE")]),
    ("MPI_Op", r".*", "MPI_SUM", [("MPI_OP_NULL", "OP"), (f"(MPI_Op){GARBAGE}", "OP")]),
    ("MPI_Op *", r"op", "&op", [("&no_op", "OP ARG"), ("NULL", "ARG OP")]),
    ("MPI_Group", r".*", "group", [("MPI_GROUP_NULL", "GROUP"), (f"(MPI_Group){GARBAGE}", "GROUP")]),
    ("MPI_Session", r".*", "session", [("MPI_SESSION_NULL", "SESSION"), (f"(MPI_Session){GARBAGE}", "SESSION")]),
    ("MPI_Win", r".*", "win", [("MPI_WIN_NULL", "WIN"), (f"(MPI_Win){GARBAGE}", "WIN")]),
    ("MPI_Win *", r".*", "&new_win", [("NULL", "ARG WIN")]),
    ("MPI_File", r".*", "file", [("MPI_FILE_NULL", "FILE"), (f"(MPI_File){GARBAGE}", "FILE")]),
    ("MPI_File *", r".*", "&new_file", [("NULL", "ARG")]),
    ("MPI_Offset", r".*", "0", []),
    ("MPI_Offset *", r".*", "&offset", [("NULL", "ARG")]),
    ("MPI_Info", r".*", "info", [(f"(MPI_Info){GARBAGE}", "INFO")]),
    ("MPI_Errhandler", r".*", "MPI_ERRORS_RETURN", [("MPI_ERRHANDLER_NULL", "ERRHANDLER ARG"), (f"(MPI_Errhandler){GARBAGE}", "ERRHANDLER ARG")]),
    ("MPI_Request", r".*", "MPI_REQUEST_NULL", [(f"(MPI_Request){GARBAGE}", "REQUEST")]),
    ("int", r"count|sendcount|recvcount|incount|outcount|(origin|target|result)_count", "1", [("-1", "COUNT ARG")]),
    ("int", r"n|maxdims|valuelen", "1", [("-1", "ARG RANK INFO_VALUE TOPOLOGY DIMS")]),
    ("int", r"ndims|nnodes|indegree|outdegree", "1", [("-1", "ARG DIMS TOPOLOGY")]),
    ("int", r"dest|source|target_rank", "0", [("size", "RANK"), ("-10", "RANK")]),
    ("int", r"rank", "0", [("size", "RANK ARG"), ("-10", "RANK ARG")]),
    ("int", r"root", "0", [("size", "ROOT"), ("-10", "ROOT")]),
    ("int", r"tag|sendtag|recvtag", "1", [("-10", "TAG")]),
    ("int", r"color", "0", [("-10", "ARG")]),
    ("int", r"split_type", "MPI_COMM_TYPE_SHARED", [("-1", "ARG")]),
    ("int", r"comm_keyval|type_keyval|keyval", "keyval", [("MPI_KEYVAL_INVALID", "KEYVAL ARG"), ("-77", "KEYVAL ARG")]),
    ("int", r"errorclass", "MPI_ERR_LASTCODE", [("-3", "ARG")]),
    ("int", r"errorcode", "MPI_ERR_COMM", [("-3", "ARG")]),
    ("int", r"amode", "MPI_MODE_RDONLY", [("0", "AMODE"), ("-1", "AMODE")]),
    ("int", r"lock_type", "MPI_LOCK_SHARED", [("7777", "LOCKTYPE"), ("-1", "LOCKTYPE")]),
    ("int", r"assert", "0", []),
    ("int", r"whence", "MPI_SEEK_SET", [("7777", "ARG")]),
    ("int", r"order", "MPI_ORDER_C", [("77", "ARG")]),
    ("int", r"direction", "0", [("-1", "ARG DIMS"), ("9", "ARG DIMS")]),
    ("int", r"blocklength", "1", [("-1", "ARG COUNT")]),
    ("int", r"max.*|insize|outsize|size", "64", []),
    ("int", r".*", "1", []),
    ("MPI_Count", r".*", "64", []),
    ("MPI_Aint", r".*", "64", []),
    ("const char *", r"datarep", '"external32"', [('"nonsense"', "ARG UNSUPPORTED_DATAREP")]),
    ("const char[]", r"datarep", '"external32"', [('"nonsense"', "ARG UNSUPPORTED_DATAREP")]),
    ("const char *", r"key", '"key"', [("NULL", "ARG INFO_KEY"), ('""', "ARG INFO_KEY"), ("long_text", "INFO_KEY")]),
    ("const char *", r"value", '"value"', [("NULL", "ARG INFO_VALUE"), ("long_text", "INFO_VALUE")]),
    ("const char *", r"pset_name", '"mpi://WORLD"', [('"mpi://nonsense"', "ARG")]),
    ("const char *", r"port_name", '"text"', [("NULL", "PORT ARG")]),
    ("const char *", r".*", '"text"', [("NULL", "ARG")]),
    ("const int[]", r"array_of_blocklengths|sendcounts|recvcounts|degrees", "ones", [("minus", "COUNT ARG")]),
    ("const int[]", r"ranks.*", "zeros", [("minus_ten", "RANK")]),
    ("const int[]", r"dims", "ones", [("minus", "DIMS ARG")]),
    ("const int[]", r"array_of_.*|.*displs|periods|remain_dims|coords|sources|destinations|indx|edges", "zeros", []),
    ("const MPI_Aint[]", r".*", "aints", []),
    ("const MPI_Count[]", r".*", "counts", []),
    ("const MPI_Datatype[]", r".*", "types", [("no_types", "TYPE")]),
    ("const MPI_Request[]", r".*", "requests", [("bad_requests", "REQUEST IN_STATUS")]),
    ("MPI_Request[]", r".*", "requests", [("bad_requests", "REQUEST IN_STATUS")]),
    ("MPI_Request *", r"request", "&request", [("NULL", "ARG REQUEST")]),
    ("MPI_Message *", r"message", "&message", [("NULL", "ARG REQUEST")]),
    ("MPI_Status *", r".*", "statuses", []),
    ("const MPI_Status *", r".*", "statuses", []),
    ("void *", r"recvbuf|outbuf|inoutbuf", "b", []),
    ("const void *", r".*", "a", []),
    ("void *", r".*", "a", []),
    ("char *", r".*", "text", []),
    ("int[][3]", r".*", "ranges", []),
    ("int[]", r".*", "ints", []),
    ("const int *", r".*weights", "ints", []),
    ("MPI_Comm *", r".*", "&new_comm", [("NULL", "ARG")]),
    ("MPI_Group *", r".*", "&new_group", [("NULL", "ARG")]),
    ("MPI_Datatype *", r".*", "&new_type", [("NULL", "ARG")]),
    ("MPI_Info *", r"info_used|newinfo", "&new_info", [("NULL", "ARG")]),
    ("MPI_Errhandler *", r".*", "&new_errhandler", [("NULL", "ARG")]),
    ("int *", r"position", "&place", [("NULL", "ARG")]),
    ("int *", r"(dest|source)?weights", "ints", []),
    ("int *", r".*", "&number", [("NULL", "ARG")]),
    ("MPI_Count *", r".*", "&big", [("NULL", "ARG")]),
    ("MPI_Aint *", r".*", "&aint", [("NULL", "ARG")]),
]

# Where a function takes what the list calls wrong, by the standard: function (without MPI_, any form), argument, value.
ALLOWED = [
    (r"(Type|Comm|Session)_(get|set)_(info|name)|Comm_set_info", r"info", r".*"),
    (r"Comm_(accept|connect)", r"info", r".*"),  # the port's name is wrong before it
    (r"Get_hw_resource_info|Info_create", r".*", r".*"),
    (r"Request_get_status|Start|Cancel|Request_free|Wait|Test|Mrecv|Imrecv|Get_.*status", r"request|message", r"&.*"),
    (r"Status_.*|Test_cancelled|Get_(count|elements).*", r"status|count|source|tag|error|flag", r".*"),
    (r"Error_(class|string)|Add_error_.*|Remove_error_.*", r".*", r".*"),
    (r"Type_create_(darray|subarray|struct|hindexed|indexed_block|hindexed_block|f90_.*)|Type_indexed", r"rank|size|ndims", r".*"),
    (r"Type_(get_)?(value_index|contents|envelope).*", r".*", r".*"),
    (r"Type_match_size", r".*", r".*"),
    (r"Group_range_.*", r"n|ranges", r".*"),
    (r"Dims_create", r".*", r".*"),
    (r"(Comm|Type|Win)_get_name", r".*", r".*"),
    (r"File_(get|set)_errhandler", r"file", r"MPI_FILE_NULL"),
    (r"File_close", r"fh", r".*"),
    (r"File_.*_end", r"buf|status", r".*"),
    (r"File_get_type_extent", r"datatype", r"&.*"),
    (r"Attr_(get|put|delete)", r"attribute_val", r".*"),
]


def prototypes() -> list[tuple[str, list[tuple[str, str]]]]:
    """Name and arguments (type, name) of each function that is implemented."""
    found = []
    for line in API.read_text().splitlines():
        match = re.match(r"\| `int (MPI_\w+)\((.*)\)` \|[^|]*\| done", line)
        if not match or LEFT_OUT.match(match[1]) or match[2] == "void":
            continue
        arguments = [re.match(r"(.*?)(\w+)((?:\[.*\])*)$", text) for text in match[2].split(", ")]
        if all(arguments):
            found.append((match[1], [(a[1].strip() + a[3], a[2]) for a in arguments if a]))
    return found


def lookup(kind: str, name: str) -> tuple[str, list[Wrong]] | None:
    for a_kind, pattern, valid, wrong in ARGUMENTS:
        if a_kind == kind and re.fullmatch(pattern, name):
            return valid, wrong
    return None


# Kinds of arguments whose error handler is called, and how the program names it.
OWNERS = {"MPI_Comm": "COMM", "MPI_Session": "SESSION", "MPI_Win": "WIN"}


def allowed(function: str, name: str, value: str) -> bool:
    return any(re.fullmatch(f, function.removeprefix("MPI_")) and re.fullmatch(n, name) and re.fullmatch(v, value) for f, n, v in ALLOWED)


def cases() -> tuple[list[str], list[str]]:
    """C statements, one per call, and functions whose arguments are not in the list."""
    out, unknown = [], []
    for function, arguments in prototypes():
        known = [lookup(kind, name) for kind, name in arguments]
        if not all(known):
            unknown.append(function)
            continue
        valid = [k[0] for k in known if k]
        cartesian = re.match(r"MPI_(P?)(Cart_(coords|get|rank|shift|sub)|Cartdim_get|I?[Nn]eighbor_)", function)
        graph = re.match(r"MPI_(Graph_(get|neighbors)|Graphdims_get)", function)
        distributed = re.match(r"MPI_Dist_graph_neighbors", function)
        for i, entry in enumerate(known):
            for value, classes in entry[1] if entry else []:
                if allowed(function, arguments[i][1], value):
                    continue
                words = [value if j == i else v for j, v in enumerate(valid)]
                special = "cart" if cartesian else "graph" if graph else "dist" if distributed else ""
                words = [special if special and w == "comm" and j != i else w for j, w in enumerate(words)]
                scopes = [(kind, w) for j, ((kind, _), w) in enumerate(zip(arguments, words)) if kind in OWNERS]
                scope = "SELF"
                if value == "comm":
                    scope = "COMM"
                elif scopes and not (arguments[i][0] in OWNERS and arguments[i] == next(a for a in arguments if a[0] in OWNERS)):
                    scope = OWNERS[scopes[0][0]]
                if function.startswith("MPI_File_"):
                    scope = "FILE_"
                accepted = " | ".join(f"BIT(MPI_ERR_{c})" for c in classes.split())
                call = f"{function}({', '.join(words)})"
                out.append(f"    CASE({call}, {scope}, {accepted});")
    return out, unknown


PROGRAM = r"""
/* Made by tests/arguments.py. */
#include <mpi.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/time.h>
#define BIT(class) (1ull << (class))
enum { NOBODY, SELF, WORLD, COMM, SESSION, FILE_, WIN };
static const char *const WHO[] = {"no handler", "MPI_COMM_SELF's", "MPI_COMM_WORLD's", "the communicator's", "the session's", "the file's", "the window's"};
static int caller, told, passed, failed, is_oracle;
static sigjmp_buf back;
static void on_self(MPI_Comm *c, int *e, ...) { (void)c, told = *e, caller = SELF; }
static void on_world(MPI_Comm *c, int *e, ...) { (void)c, told = *e, caller = WORLD; }
static void on_comm(MPI_Comm *c, int *e, ...) { (void)c, told = *e, caller = COMM; }
static void on_session(MPI_Session *s, int *e, ...) { (void)s, told = *e, caller = SESSION; }
static void on_file(MPI_File *f, int *e, ...) { (void)f, told = *e, caller = FILE_; }
static void on_win(MPI_Win *w, int *e, ...) { (void)w, told = *e, caller = WIN; }
static void on_signal(int signal) { siglongjmp(back, signal); }
static MPI_Comm comm, inter, cart, graph, dist, new_comm, self;
static MPI_Group group, new_group;
static MPI_Session session;
static MPI_File file, new_file;
static MPI_Win win, new_win;
static MPI_Offset offset;
static MPI_Info info, new_info;
static MPI_Datatype type, no_type = MPI_DATATYPE_NULL, new_type, types[64], no_types[64];
static MPI_Op op, no_op = MPI_OP_NULL;
static MPI_Errhandler new_errhandler;
static MPI_Request request, requests[64], bad_requests[64];
static MPI_Message message;
static MPI_Status statuses[64];
static int size, keyval, number, place, a[512], b[512], ints[64], ones[64], zeros[64], minus[64], minus_ten[64], ranges[4][3], window[512];
static MPI_Aint aint, aints[64];
static MPI_Count big, counts[64];
static char text[8192], long_text[20000];

static void reset(void)
{
    request = MPI_REQUEST_NULL, message = MPI_MESSAGE_NULL, place = 0, caller = NOBODY;
    for (int i = 0; i < 64; i++)
        requests[i] = MPI_REQUEST_NULL, bad_requests[i] = (MPI_Request)(intptr_t)0x5afe5afe, zeros[i] = 0, ones[i] = 1, minus[i] = -1, minus_ten[i] = -10,
        types[i] = MPI_INT, no_types[i] = MPI_DATATYPE_NULL, aints[i] = 0, counts[i] = 1;
}
static void look(const char *call, int code, int who, unsigned long long accepted)
{
    char name[MPI_MAX_ERROR_STRING] = "";
    int class = MPI_SUCCESS, len;
    alarm(0);
    if (is_oracle && code == MPI_SUCCESS && caller != NOBODY) code = told; /* it takes the error as handled */
    if (code > 0) MPI_Error_class(code, &class);
    if (caller != NOBODY && code >= 0 && told != code) printf("%s: the handler was told %d, the program %d\n", call, told, code), failed++;
    if (class < 64 && (BIT(class) & accepted) && caller == who) { passed++; return; }
    failed++;
    if (code > 0) MPI_Error_string(class, name, &len);
    printf("%s: %s%s through %s handler, expected %s\n", call, code < 0 ? "caught " : "", code < 0 ? strsignal(-code) : code ? name : "no error", WHO[caller], WHO[who]);
}
#define CASE(call, who, accepted) do { int code; reset(); if (!(code = -sigsetjmp(back, 1))) { alarm(3); code = call; } look(#call, code, who, accepted); } while (0)

static void handlers(void)
{
    MPI_Errhandler h;
    MPI_Comm_create_errhandler(on_self, &h), MPI_Comm_set_errhandler(MPI_COMM_SELF, h);
    MPI_Comm_create_errhandler(on_world, &h), MPI_Comm_set_errhandler(MPI_COMM_WORLD, h);
    MPI_Comm_create_errhandler(on_comm, &h), MPI_Comm_set_errhandler(comm, h), MPI_Comm_set_errhandler(inter, h);
    MPI_Comm_set_errhandler(cart, h), MPI_Comm_set_errhandler(graph, h), MPI_Comm_set_errhandler(dist, h);
    MPI_File_create_errhandler(on_file, &h), MPI_File_set_errhandler(MPI_FILE_NULL, h), MPI_File_set_errhandler(file, h);
    MPI_Session_create_errhandler(on_session, &h), MPI_Session_set_errhandler(session, h);
    MPI_Win_create_errhandler(on_win, &h), MPI_Win_set_errhandler(win, h);
}
@FUNCTIONS@
int main(int argc, char **argv)
{
    int one = 1, two[2] = {1, 2}, edges[2] = {1, 0}, rank;
    static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM};
    is_oracle = argc > 1;
    MPI_Init(&argc, &argv);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &self);
    if (rank == 0) MPI_Intercomm_create(self, 0, MPI_COMM_WORLD, 1, 1, &inter);
    else MPI_Intercomm_create(self, 0, MPI_COMM_WORLD, 0, 1, &inter);
    if (rank) { MPI_Barrier(MPI_COMM_WORLD); MPI_Finalize(); return 0; }
    MPI_Comm_dup(self, &comm);
    MPI_Comm_size(comm, &size);
    MPI_Cart_create(self, 1, &one, &one, 0, &cart);
    MPI_Graph_create(self, 1, &one, edges + 1, 0, &graph);
    MPI_Dist_graph_create_adjacent(self, 1, edges + 1, MPI_UNWEIGHTED, 1, edges + 1, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &dist);
    (void)two;
    MPI_Comm_group(comm, &group);
    MPI_Info_create(&info);
    MPI_File_open(self, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_Win_create(window, sizeof window, 1, MPI_INFO_NULL, self, &win);
    MPI_Win_lock_all(0, win);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    memset(long_text, 'x', sizeof long_text - 1);
    handlers();
    for (int i = 0; i < (int)(sizeof SIGNALS / sizeof *SIGNALS); i++) signal(SIGNALS[i], on_signal);
@CALLS@
    printf("calls: %d as expected, %d not\n", passed, failed);
    fflush(stdout);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return failed != 0;
}
"""


def program(calls: list[str]) -> str:
    """The calls in functions of moderate length."""
    parts = [calls[i:i + 40] for i in range(0, len(calls), 40)]
    functions = "\n".join(f"static void part_{i}(void)\n{{\n" + "\n".join(part) + "\n}" for i, part in enumerate(parts))
    return PROGRAM.replace("@FUNCTIONS@", functions).replace("@CALLS@", "\n".join(f"    part_{i}();" for i in range(len(parts))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lib", choices=("ferrule", "mpich"), default="ferrule")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    calls, unknown = cases()
    if options.lib == "mpich":  # it follows any handle, and asserts in reductions
        calls = [call for call in calls if GARBAGE not in call and "bad_requests" not in call and not re.search("[Rr]educe|[Ss]can", call)]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.with_suffix(".c").write_text(program(calls))
    dist = runner.ROOT / "dist"
    subprocess.run([str(dist / "bin/mpicc"), "-w", "-O0", "-o", str(OUT), str(OUT.with_suffix(".c"))], check=True)
    home = dist if options.lib == "ferrule" else runner.ROOT / "build/peers/mpich"
    env = dict(os.environ, LD_LIBRARY_PATH=str(home / "lib"))
    command = [str(home / "bin/mpiexec"), "-n", "2", str(OUT), *(["oracle"] if options.lib == "mpich" else [])]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    count = re.search(r"calls: (\d+) as expected, (\d+) not", done.stdout)
    print("\n".join(line for line in lines if not line.startswith("calls:")))
    if options.verbose:
        print(done.stderr)
    if not count:
        print(f"arguments: the program ended early, exit code {done.returncode}\n{done.stderr[-2000:]}")
        return options.lib == "ferrule"
    for function in unknown:
        print(f"skip  {function}: an argument that is not in the list")
    print(f"arguments: {count[1]} passed, {count[2]} failed, {len(unknown)} skipped")
    return int(count[2] != "0" and options.lib == "ferrule")


if __name__ == "__main__":
    sys.exit(main())
