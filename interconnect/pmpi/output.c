/* The profile as JSON: docs/reference/profile.schema.json. Rank 0 writes what the others send it. */
#define _GNU_SOURCE
#include "pmpi.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *file_name(void)
{
    const char *set = getenv("FERRULE_PROFILE");
    return set && *set ? set : "profile.json";
}

static uint64_t messages(const uint64_t *row)
{
    uint64_t sum = 0;
    for (int at = 1; row && at < ROW_WORDS; at++)
        sum += row[at];
    return sum;
}

/* A text as JSON. */
static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, out);
    fputc('"', out);
}

/* "name":[{peer…},…] of the rows that aren't empty. */
static void put_rows(FILE *out, const char *name, const uint64_t *const *rows)
{
    const char *between = "";
    fprintf(out, ",\"%s\":[", name);
    for (int peer = 0; peer < profile.size; peer++) {
        const uint64_t *row = rows[peer];
        if (!messages(row))
            continue;
        fprintf(out, "%s{\"peer\":%d,\"bytes\":%llu,\"messages\":%llu,\"sizes\":{", between, peer, (unsigned long long)row[0],
                (unsigned long long)messages(row));
        const char *comma = "";
        for (int at = 1; at < ROW_WORDS; at++)
            if (row[at]) {
                fprintf(out, "%s\"%d\":%llu", comma, at - 1, (unsigned long long)row[at]);
                comma = ",";
            }
        fputs("}}", out);
        between = ",";
    }
    fputc(']', out);
}

/* PFProf's arrays. */
static void put_arrays(FILE *out, const char *direction, const uint64_t *const *rows)
{
    uint64_t sizes[ROW_WORDS] = { 0 };
    int classes = 0;
    fprintf(out, ",\"%s_bytes\":[", direction);
    for (int peer = 0; peer < profile.size; peer++)
        fprintf(out, "%s%llu", peer ? "," : "", rows[peer] ? (unsigned long long)rows[peer][0] : 0);
    fprintf(out, "],\"%s_messages\":[", direction);
    for (int peer = 0; peer < profile.size; peer++) {
        fprintf(out, "%s%llu", peer ? "," : "", (unsigned long long)messages(rows[peer]));
        for (int at = 1; rows[peer] && at < ROW_WORDS; at++)
            sizes[at] += rows[peer][at];
    }
    fprintf(out, "],\"%s_message_sizes\":[", direction);
    for (int at = 1; at < ROW_WORDS; at++)
        if (sizes[at])
            classes = at;
    for (int at = 1; at <= classes; at++)
        fprintf(out, "%s%llu", at > 1 ? "," : "", (unsigned long long)sizes[at]);
    fputc(']', out);
}

static void put_phases(FILE *out)
{
    const char *between = "";
    if (!profile.first || !profile.first->next)
        return;
    fputs(",\"phases\":[", out);
    for (const Phase *phase = profile.first; phase; phase = phase->next) {
        fprintf(out, "%s{\"level\":%d,\"began\":%.9f,\"duration\":%.9f", between, phase->level, phase->began - profile.began,
                phase->ended - phase->began);
        put_rows(out, "tx", (const uint64_t *const *)phase->rows);
        fputc('}', out);
        between = ",";
    }
    fputc(']', out);
}

static void put_collectives(FILE *out)
{
    int number;
    const Collective *all = profile_collectives(&number);
    for (int i = 0; i < number; i++)
        fprintf(out, "%s{\"name\":\"%s\",\"calls\":%llu,\"bytes\":%llu}", i ? "," : ",\"collectives\":[", all[i].name,
                (unsigned long long)all[i].calls, (unsigned long long)all[i].bytes);
    if (number)
        fputc(']', out);
}

/* What others have got from this rank is what it has sent, in the phase of the same number. */
static void take_fetched(MPI_Comm comm)
{
    int own[2] = { 0, 0 }, most[2];
    for (const Phase *phase = profile.first; phase; phase = phase->next, own[0]++)
        for (int peer = 0; peer < profile.size; peer++)
            own[1] |= phase->fetched[peer] != NULL;
    PMPI_Allreduce(own, most, 2, MPI_INT, MPI_MAX, comm);
    size_t words = (size_t)profile.size * ROW_WORDS;
    uint64_t *got = malloc(words * sizeof *got), *given = malloc(words * sizeof *given);
    Phase *phase = profile.first;
    for (int number = 0; most[1] && number < most[0]; number++) {
        memset(got, 0, words * sizeof *got);
        for (int peer = 0; number < own[0] && peer < profile.size; peer++)
            if (phase->fetched[peer])
                memcpy(got + (size_t)peer * ROW_WORDS, phase->fetched[peer], sizeof(Row));
        PMPI_Alltoall(got, ROW_WORDS, MPI_UINT64_T, given, ROW_WORDS, MPI_UINT64_T, comm);
        for (int peer = 0; peer < profile.size; peer++) {
            const uint64_t *row = given + (size_t)peer * ROW_WORDS;
            if (!messages(row))
                continue;
            if (!phase->rows[peer])
                phase->rows[peer] = calloc(1, sizeof(Row));
            for (int at = 0; at < ROW_WORDS; at++)
                (*phase->rows[peer])[at] += row[at];
        }
        /* A rank with fewer phases has it in the last one. */
        if (phase->next)
            phase = phase->next;
    }
    free(got);
    free(given);
}

/* Sums of all phases: a row for each peer. */
static uint64_t *totals(void)
{
    uint64_t *all = calloc((size_t)profile.size * ROW_WORDS, sizeof *all);
    for (const Phase *phase = profile.first; phase; phase = phase->next)
        for (int peer = 0; peer < profile.size; peer++)
            for (int at = 0; phase->rows[peer] && at < ROW_WORDS; at++)
                all[(size_t)peer * ROW_WORDS + (size_t)at] += (*phase->rows[peer])[at];
    return all;
}

static const uint64_t **rows_of(const uint64_t *all)
{
    const uint64_t **rows = malloc((size_t)profile.size * sizeof *rows);
    for (int peer = 0; peer < profile.size; peer++)
        rows[peer] = all + (size_t)peer * ROW_WORDS;
    return rows;
}

/* This rank's object. `received` is NULL if nobody could be asked. */
static char *own_text(const uint64_t *sent, const uint64_t *received, double began, const char *end, size_t *length)
{
    char *text = NULL, host[MPI_MAX_PROCESSOR_NAME + 1] = "";
    int host_length;
    FILE *out = open_memstream(&text, length);
    PMPI_Get_processor_name(host, &host_length);
    fputs("{\"processor_name\":", out);
    put_text(out, host);
    fprintf(out, ",\"rank\":%d,\"n_procs\":%d,\"began\":%.9f,\"duration\":%.9f,\"complete\":%s,\"end\":\"%s\"", profile.rank, profile.size,
            profile.began_unix - began, PMPI_Wtime() - profile.began, received ? "true" : "false", end);
    const uint64_t **tx = rows_of(sent), **rx = received ? rows_of(received) : NULL;
    put_arrays(out, "tx", tx);
    put_rows(out, "tx", tx);
    if (rx) {
        put_arrays(out, "rx", rx);
        put_rows(out, "rx", rx);
    }
    put_phases(out);
    put_collectives(out);
    fputc('}', out);
    fclose(out);
    free(tx);
    free(rx);
    return text;
}

static FILE *open_file(const char *path)
{
    FILE *out = fopen(path, "w");
    if (!out)
        fprintf(stderr, "libferrule-pmpi: cannot write the profile %s: %s\n", path, strerror(errno));
    return out;
}

static void put_head(FILE *out, double began, double duration)
{
    fprintf(out,
            "{\"format\":\"ferrule-profile\",\"version\":1,\"level\":\"calls\",\"generator\":\"libferrule-pmpi\",\"command\":[],"
            "\"n_procs\":%d,\"began\":%.9f,\"duration\":%.9f,\"complete\":true,\n\"ranks\": [\n",
            profile.size, began, duration);
}

/* At MPI_Finalize: rank 0 writes the file. */
void profile_write(void)
{
    MPI_Comm comm;
    double began, own = PMPI_Wtime() - profile.began, duration;
    PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
    PMPI_Allreduce(&profile.began_unix, &began, 1, MPI_DOUBLE, MPI_MIN, comm);
    PMPI_Reduce(&own, &duration, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
    take_fetched(comm);
    uint64_t *sent = totals(), *received = calloc((size_t)profile.size * ROW_WORDS, sizeof *received);
    PMPI_Alltoall(sent, ROW_WORDS, MPI_UINT64_T, received, ROW_WORDS, MPI_UINT64_T, comm);
    size_t length;
    char *text = own_text(sent, received, began, "finalized", &length);
    if (profile.rank > 0) {
        /* A text of 2 GiB or more would be one of some hundred thousand ranks. */
        PMPI_Send(text, (int)length, MPI_CHAR, 0, 0, comm);
    } else {
        FILE *out = open_file(file_name());
        if (out) {
            put_head(out, began, duration);
            fwrite(text, 1, length, out);
        }
        for (int rank = 1; rank < profile.size; rank++) {
            MPI_Status status;
            int bytes;
            PMPI_Probe(rank, 0, comm, &status);
            PMPI_Get_count(&status, MPI_CHAR, &bytes);
            char *other = malloc((size_t)bytes + 1);
            PMPI_Recv(other, bytes, MPI_CHAR, rank, 0, comm, MPI_STATUS_IGNORE);
            if (out) {
                fputs(",\n", out);
                fwrite(other, 1, (size_t)bytes, out);
            }
            free(other);
        }
        if (out && (fputs("\n]}\n", out) < 0 || fclose(out) != 0))
            fprintf(stderr, "libferrule-pmpi: cannot write the profile %s: %s\n", file_name(), strerror(errno));
    }
    free(text);
    free(sent);
    free(received);
    PMPI_Comm_free(&comm);
}

/* At MPI_Abort: nobody else can be asked, so this rank writes a file of its own beside. */
void profile_write_alone(int code)
{
    char path[4096], end[64];
    size_t length;
    snprintf(path, sizeof path, "%s.rank%d", file_name(), profile.rank);
    snprintf(end, sizeof end, "called MPI_Abort with code %d", code);
    uint64_t *sent = totals();
    char *text = own_text(sent, NULL, profile.began_unix, end, &length);
    FILE *out = open_file(path);
    if (out) {
        fprintf(out, "%s\n", text);
        fclose(out);
    }
    free(text);
    free(sent);
}
