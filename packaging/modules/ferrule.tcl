#%Module1.0
# Ferrule @VERSION@ for Environment Modules and Lmod. The tree is found from this file's own place, PREFIX/share/modulefiles/ferrule/@VERSION@; else set `prefix` here.
set prefix [file normalize [file join [file dirname $ModulesCurrentModulefile] .. .. ..]]

proc ModulesHelp { } {
    puts stderr "Ferrule @VERSION@: an MPI library with the MPI 5.0 standard ABI, mpiexec, and compiler wrappers"
}
module-whatis "Ferrule @VERSION@, an MPI library"

conflict openmpi mpich mvapich2 intel-mpi impi mpi
prepend-path PATH $prefix/bin
prepend-path PKG_CONFIG_PATH $prefix/lib/pkgconfig
prepend-path CMAKE_PREFIX_PATH $prefix
setenv MPI_HOME $prefix
