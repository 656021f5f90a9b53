/* SPANK plugin: srun --comm-pattern=NAME asks the interconnect manager for routes before the job's processes start.
 *
 * When a step has its nodes and before it is launched, srun tells the manager which host each rank is on and waits for the answer, which comes when the
 * routes are in the switches; but no longer than timeout_ms. Whatever goes wrong, the job runs on default routes, and one line in its output says so. At
 * the end of the step its routes go; EpilogSlurmctld (epilog.sh) removes those of steps whose srun was killed.
 *
 * plugstack.conf:  optional /path/spank_ferrule.so [api=/run/ferrule-fabric.sock] [timeout_ms=2000]
 * sbatch and salloc hand the option on to the job's sruns in FERRULE_COMM_PATTERN.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

SPANK_PLUGIN(ferrule_fabric, 1);

#define VARIABLE "FERRULE_COMM_PATTERN"
#define PATTERN_MAX 256
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.+:@-/"
#define RANKS_MAX 1000000u
#define ANSWER_MAX 4096

static char pattern[PATTERN_MAX];
static char api[sizeof(((struct sockaddr_un *)0)->sun_path)] = "/run/ferrule-fabric.sock";
static long timeout_ms = 2000;
static char started[64]; /* the name of the job that has routes, or "" */

/* Text that grows; `failed` once memory is out. */
struct text {
	char *at;
	size_t used, size;
	bool failed;
};

static void put(struct text *text, const char *format, ...)
{
	for (;;) {
		va_list arguments;
		size_t room = text->size - text->used;
		va_start(arguments, format);
		int length = vsnprintf(text->at ? text->at + text->used : NULL, text->at ? room : 0, format, arguments);
		va_end(arguments);
		if (text->failed || length < 0)
			return;
		if (text->at && (size_t)length < room) {
			text->used += (size_t)length;
			return;
		}
		size_t size = 2 * text->size + (size_t)length + 256;
		char *grown = realloc(text->at, size);
		if (!grown) {
			text->failed = true;
			return;
		}
		text->at = grown;
		text->size = size;
	}
}

static long now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A pattern's name is put into JSON: only characters that mean nothing there, the same as in job_submit.lua. Not isalnum, which depends on the locale. */
static bool is_name(const char *name)
{
	size_t length = strlen(name);
	if (!length || length >= PATTERN_MAX)
		return false;
	return strspn(name, NAME_CHARACTERS) == length;
}

static int take_option(int value, const char *argument, int remote)
{
	(void)value;
	if (!argument || !is_name(argument)) {
		if (!remote)
			slurm_error("--comm-pattern: a name of 1 to %d letters, digits and _.+:@-/, not '%s'", PATTERN_MAX - 1, argument ? argument : "");
		return -1;
	}
	strcpy(pattern, argument);
	return 0;
}

static struct spank_option option = {"comm-pattern", "NAME", "communication pattern of this job, for which the interconnect is to route", 1, 0, take_option};

static bool is_client(void)
{
	return spank_context() == S_CTX_LOCAL || spank_context() == S_CTX_ALLOCATOR;
}

/* A number from 1 to 60000, or 0 where the text isn't one. */
static long milliseconds(const char *text)
{
	char *end;
	long value = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : 0;
	return value > 0 && value <= 60000 && !*end ? value : 0;
}

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
	for (int i = 0; i < count; i++) {
		const char *value = strchr(arguments[i], '=');
		if (value && !strncmp(arguments[i], "api=", 4) && strlen(value + 1) < sizeof api) {
			value++;
			strcpy(api, !strncmp(value, "unix:", 5) ? value + 5 : value);
		} else if (value && !strncmp(arguments[i], "timeout_ms=", 11) && milliseconds(value + 1)) {
			timeout_ms = milliseconds(value + 1);
		} else if (is_client()) {
			slurm_error("ferrule: plugstack.conf: '%s' is not api=PATH or timeout_ms=1..60000", arguments[i]);
		}
	}
	return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments)
{
	(void)spank, (void)count, (void)arguments;
	if (!is_client())
		return 0;
	const char *inherited = getenv(VARIABLE);
	if (!pattern[0] && inherited && is_name(inherited))
		strcpy(pattern, inherited);
	if (pattern[0])
		setenv(VARIABLE, pattern, 1);
	return 0;
}

/* Waits until a socket is ready; false when the time is over. */
static bool ready(int fd, short events, long deadline_ms)
{
	for (;;) {
		long left = deadline_ms - now_ms();
		struct pollfd waiting = {.fd = fd, .events = events};
		if (left <= 0)
			return false;
		int found = poll(&waiting, 1, (int)left);
		if (found > 0)
			return true;
		if (found == 0 || errno != EINTR)
			return false;
	}
}

static bool send_all(int fd, const char *data, size_t length, long deadline_ms)
{
	while (length) {
		ssize_t sent = send(fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent > 0) {
			data += sent;
			length -= (size_t)sent;
		} else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
			return false;
		} else if (!ready(fd, POLLOUT, deadline_ms)) {
			return false;
		}
	}
	return true;
}

/* One HTTP request. The status, or 0 with the reason in `answer` (`size` bytes); without `answer` it is only sent, and 0. */
static int request(const char *method, const char *path, const char *body, size_t length, char *answer, size_t size)
{
	long deadline_ms = now_ms() + timeout_ms;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char head[512];
	size_t used = 0;
	int status = 0;
	char nothing[1];
	bool asks = answer != NULL;
	if (!asks)
		answer = nothing, size = sizeof nothing;
	strcpy(address.sun_path, api);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval patience = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
	if (fd >= 0) /* connect waits while the manager's queue is full */
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) {
		snprintf(answer, size, "no manager at %s: %s", api, strerror(errno));
		goto out;
	}
	int head_length = snprintf(head, sizeof head,
				   "%s %s HTTP/1.1\r\nHost: manager\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", method, path, length);
	if (!send_all(fd, head, (size_t)head_length, deadline_ms) || !send_all(fd, body, length, deadline_ms)) {
		snprintf(answer, size, "the manager doesn't listen");
		goto out;
	}
	if (!asks)
		goto out;
	while (used < size - 1) {
		ssize_t got = recv(fd, answer + used, size - 1 - used, MSG_DONTWAIT);
		if (got > 0)
			used += (size_t)got;
		else if (got == 0)
			break;
		else if ((errno != EAGAIN && errno != EINTR) || !ready(fd, POLLIN, deadline_ms)) {
			snprintf(answer, size, "no answer within %ld ms", timeout_ms);
			goto out;
		}
	}
	answer[used] = 0;
	if (sscanf(answer, "HTTP/1.%*d %d", &status) != 1) {
		status = 0;
		snprintf(answer, size, "the manager's answer is not HTTP");
		goto out;
	}
	char *text = strstr(answer, "\r\n\r\n");
	if (text)
		memmove(answer, text + 4, strlen(text + 4) + 1);
out:
	if (fd >= 0)
		close(fd);
	return status;
}

/* The host of each rank, as JSON strings; false when Slurm doesn't say. */
static bool put_hosts(struct text *text, uint32_t job, uint32_t step)
{
	slurm_step_id_t id = {.job_id = job, .step_het_comp = NO_VAL, .step_id = step};
	slurm_step_layout_t *layout = slurm_job_step_layout_get(&id);
	if (!layout)
		return false;
	bool good = layout->task_cnt > 0 && layout->task_cnt <= RANKS_MAX;
	char **host_of = good ? calloc(layout->task_cnt, sizeof *host_of) : NULL;
	hostlist_t hosts = slurm_hostlist_create(layout->node_list);
	good = host_of && hosts;
	for (uint32_t node = 0; good && node < layout->node_cnt; node++) {
		char *name = slurm_hostlist_shift(hosts);
		good = name != NULL;
		for (uint32_t task = 0; good && task < layout->tasks[node]; task++) {
			uint32_t rank = layout->tids[node][task];
			good = rank < layout->task_cnt && !host_of[rank] && (host_of[rank] = strdup(name));
		}
		free(name);
	}
	for (uint32_t rank = 0; good && rank < layout->task_cnt; rank++) {
		good = host_of[rank] != NULL;
		if (good)
			put(text, "%s\"%s\"", rank ? "," : "", host_of[rank]);
	}
	for (uint32_t rank = 0; host_of && rank < layout->task_cnt; rank++)
		free(host_of[rank]);
	free(host_of);
	if (hosts)
		slurm_hostlist_destroy(hosts);
	slurm_job_step_layout_free(layout);
	return good && !text->failed;
}

int slurm_spank_local_user_init(spank_t spank, int count, char **arguments)
{
	(void)count, (void)arguments;
	uint32_t job = 0, step = 0;
	struct text body = {0};
	char answer[ANSWER_MAX];
	if (!pattern[0] || spank_context() != S_CTX_LOCAL)
		return 0;
	if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS || spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
		return 0;
	char name[sizeof started];
	snprintf(name, sizeof name, "%u.%u", job, step);
	put(&body, "{\"job\":\"%s\",\"pattern\":\"%s\",\"hosts\":[", name, pattern);
	if (!put_hosts(&body, job, step)) {
		slurm_error("ferrule: job %s runs on default routes: Slurm doesn't say where its ranks are", name);
		free(body.at);
		return 0;
	}
	put(&body, "]}");
	long before_ms = now_ms();
	int status = body.failed ? 0 : request("POST", "/v1/jobs", body.at, body.used, answer, sizeof answer);
	if (status == 201) {
		strcpy(started, name);
		slurm_verbose("ferrule: routes for job %s in %ld ms", name, now_ms() - before_ms);
	} else {
		/* One line, whatever the answer holds. */
		for (char *at = answer; *at; at++)
			if (!isprint((unsigned char)*at))
				*at = ' ';
		char *why = strstr(answer, "\"problem\":\""), *end = NULL;
		if (why) {
			why += strlen("\"problem\":\"");
			end = strstr(why, "\"}");
		}
		slurm_error("ferrule: job %s runs on default routes: %.*s", name, end && end - why < 300 ? (int)(end - why) : 300, why ? why : answer);
		strcpy(started, status ? "" : name); /* without an answer it may have been done nevertheless */
	}
	free(body.at);
	return 0;
}

int slurm_spank_exit(spank_t spank, int count, char **arguments)
{
	(void)spank, (void)count, (void)arguments;
	char path[128];
	if (started[0] && spank_context() == S_CTX_LOCAL) {
		snprintf(path, sizeof path, "/v1/jobs/%s", started);
		/* srun needn't wait until the routes are gone. What gets lost, the epilog repeats. */
		request("DELETE", path, "", 0, NULL, 0);
		started[0] = 0;
	}
	return 0;
}
