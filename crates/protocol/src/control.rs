//! Messages between ranks, node agents and mpiexec.
