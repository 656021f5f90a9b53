/* Versions, names, clocks, memory, Pcontrol, hardware info, thread queries. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int len, v, s, flag, level;
    OK(MPI_Get_version(&v, &s)); EQ(v, 5); EQ(s, 0); EQ(MPI_VERSION, 5);
    OK(MPI_Get_library_version(text, &len)); EQ(len, (int)strlen(text));
    CHECK(on_mpich() || strstr(text, "Ferrule"), "library version: %s", text);
    OK(MPI_Get_processor_name(text, &len)); CHECK(len > 0 && len == (int)strlen(text));
#ifdef MPI_ABI_VERSION
    OK(MPI_Abi_get_version(&v, &s)); EQ(v, 1); EQ(s, 0); EQ(MPI_ABI_VERSION, 1);
#else /* MPICH's ABI */
    OK(MPI_Abi_get_version(&v, &s)); EQ(v, -1); EQ(s, -1);
#endif
    double t = MPI_Wtime(), tick = MPI_Wtick();
    CHECK(tick > 0 && tick < 1e-3, "tick %g", tick);
    usleep(20000);
    CHECK(MPI_Wtime() - t >= 0.019 && MPI_Wtime() - t < 30, "clock: %g", MPI_Wtime() - t);
    MPI_Pcontrol(0); MPI_Pcontrol(1, "x", 3.0, 7);
    void *mem;
    MPI_Info info;
    OK(MPI_Alloc_mem(100000, MPI_INFO_NULL, &mem)); memset(mem, 1, 100000); OK(MPI_Free_mem(mem));
    OK(MPI_Info_create(&info)); OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096"));
    OK(MPI_Alloc_mem(5000, info, &mem)); CHECK(((uintptr_t)mem & 4095) == 0, "alignment"); OK(MPI_Free_mem(mem)); OK(MPI_Info_free(&info));
    OK(MPI_Initialized(&flag)); EQ(flag, 1); OK(MPI_Finalized(&flag)); EQ(flag, 0);
    OK(MPI_Query_thread(&level)); OK(MPI_Is_thread_main(&flag)); EQ(flag, 1);
    MPI_Comm parent;
    OK(MPI_Comm_get_parent(&parent)); EQ(parent == MPI_COMM_NULL, 1);
    OK(MPI_Abi_get_info(&info)); OK(MPI_Info_free(&info));
    return check_done();
}
