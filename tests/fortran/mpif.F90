! The tests of old.h with mpif.h
#define HEADER_USE
#define HEADER_INCLUDE include 'mpif.h'
#include "checks.h"
#include "old.h"
