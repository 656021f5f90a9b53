! The tests of old.h with the module mpi
#define HEADER_USE use mpi
#define HEADER_INCLUDE
#include "checks.h"
#include "old.h"
