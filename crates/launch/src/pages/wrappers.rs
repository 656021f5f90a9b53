//! mpicc(1), of the comment at the head of the compiler wrapper.

use super::roff::Page;

const WRAPPER: &str = include_str!("../../../abi/wrappers/mpicc");

/// The sentences, and the options with their meaning.
fn head() -> (String, Vec<(String, String)>) {
    let lines = WRAPPER.lines().skip(1).map_while(|line| line.strip_prefix('#'));
    let (mut about, mut options) = (String::new(), Vec::new());
    for line in lines.map(|line| line.strip_prefix(' ').unwrap_or(line)) {
        // Two blanks end the option.
        match line.split_once("  ").filter(|_| line.starts_with('-')) {
            Some((option, meaning)) => options.push((option.into(), meaning.trim().into())),
            None if line.starts_with('-') => options.push((line.into(), "what its name says".into())),
            None => about.push_str(&format!("{line} ")),
        }
    }
    (about.trim().into(), options)
}

/// The page.
pub fn page() -> String {
    let (about, options) = head();
    let names = "mpicc, mpicxx, mpic++, mpifort, mpif77, mpif90";
    let mut page = Page::new("mpicc", 1, names, "compile and link MPI programs");
    page.section("Synopsis").paragraph("mpicc [options] [words for the compiler]").section("Description");
    page.paragraph(&about).section("Options");
    for (option, meaning) in &options {
        page.item(option, meaning);
    }
    page.paragraph("All other words go to the compiler.")
        .section("Examples")
        .example(&["mpicc hello.c -o hello", "mpicc -show hello.c", "mpifort -fc=gfortran-13 -c solver.f90"])
        .section("See also")
        .paragraph("mpiexec(1), ferrule(1)")
        .end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_the_wrapper_is_read() {
        let (about, options) = head();
        assert!(about.starts_with("Compiles and links MPI programs"), "{about}");
        let names: Vec<&str> = options.iter().map(|(option, _)| option.as_str()).collect();
        assert!(names.contains(&"-show, --showme") && names.contains(&"--compat=mpi1"), "{names:?}");
        assert!(names.contains(&"-cc=CC, -cxx=CXX, -fc=FC") && options.len() >= 5, "{names:?}");
    }
}
