//! ferrule(1).

use super::roff::Page;
use super::words;
use crate::commands::COMMANDS;

/// The page.
pub fn page() -> String {
    let mut page = Page::new("ferrule", 1, "ferrule", "look at MPI jobs and hosts, and move running jobs");
    page.section("Synopsis").paragraph("ferrule command [options]").section("Description").paragraph(
        "What is not starting a job: says what works on a host, what running jobs do and which settings there are; suspends and moves running jobs; \
         compares ways to start them.",
    );
    page.section("Commands");
    for command in COMMANDS {
        page.subsection(&format!("ferrule {}", command.name));
        for (form, meaning) in command.forms {
            let meaning = if meaning.is_empty() { command.summary } else { meaning };
            page.item(&format!("ferrule {} {form}", command.name), meaning);
        }
        if !command.about.is_empty() {
            page.paragraph(command.about.trim_end());
        }
        let options = words::options(command);
        page.paragraph(if options.len() == 1 { "Option:" } else { "Options:" });
        for option in options {
            page.item(format!("{} {}", option.names.join(", "), option.metavar).trim_end(), &option.meaning);
        }
    }
    page.subsection("ferrule help").paragraph("The commands, a line each.");
    page.section("Exit status")
        .paragraph("0 if it was done, 1 if not, 2 for a wrong command line.")
        .section("Examples")
        .paragraph("Which channel each pair of ranks uses:")
        .example(&["ferrule why -n 2 ./a.out"])
        .paragraph("What works on this host:")
        .example(&["ferrule doctor"])
        .paragraph("What the ranks of a job that hangs wait for:")
        .example(&["ferrule top --waits"])
        .section("See also")
        .paragraph("mpiexec(1), mpicc(1), ferrule-settings(7)")
        .end()
}
