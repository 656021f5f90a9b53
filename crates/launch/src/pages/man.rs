//! mpiexec(1).

use super::roff::Page;
use crate::cli::{table, values};

/// The page.
pub fn mpiexec() -> String {
    let mut page = Page::new("mpiexec", 1, "mpiexec, mpirun", "start an MPI job");
    page.section("Synopsis")
        .paragraph("mpiexec [options] program [arguments] [: [options] program [arguments]]...")
        .section("Description")
        .paragraph(
            "Starts an MPI job: ranks on this host, or on several hosts over ssh, a batch system, a command of your own, or in containers. Options may be \
             written with one dash or two, and --option=value is --option value. A colon begins another program of the same job.",
        )
        .paragraph("In an allocation of a batch system the hosts are those of the allocation, unless others are named.")
        .section("Options");
    for topic in values::TOPICS {
        page.subsection(topic);
        for spelling in table::own().filter(|s| values::topic(s.kind) == *topic) {
            page.item(&spelling.head(), spelling.meaning());
        }
    }
    page.section("Options of other launchers").paragraph(
        "The options of MPICH's mpiexec.hydra and of Open MPI's mpirun are read, too. Each does what it says there, or is refused with what to do instead. \
         Those that change only what is shown are ignored with a warning. The table is docs/user/options.md.",
    );
    page.section("Exit status")
        .paragraph(table::EXIT_CODE)
        .section("Environment")
        .paragraph(
            "Each variable FERRULE_NAME is a setting, see ferrule-settings(7). --set NAME=VALUE sets it for all ranks, and goes before the environment. \
             Unknown names get a warning.",
        )
        .section("Signals")
        .paragraph(
            "SIGINT, SIGUSR1, SIGUSR2 and SIGTSTP go to the ranks; a second SIGINT kills them. SIGTERM and SIGHUP end the job. SIGQUIT prints what each rank \
             waits for. Nothing of a job outlives mpiexec, also after SIGKILL.",
        )
        .section("Examples")
        .paragraph("Four ranks on this host, each bound to a core:")
        .example(&["mpiexec -n 4 --bind-to core ./a.out"])
        .paragraph("Two ranks on each of two hosts:")
        .example(&["mpiexec -hosts a,b -ppn 2 ./a.out"])
        .paragraph("Two programs in one job:")
        .example(&["mpiexec -n 1 ./reader : -n 7 ./solver"])
        .section("See also")
        .paragraph("ferrule(1), mpicc(1), ferrule-settings(7)")
        .end()
}
