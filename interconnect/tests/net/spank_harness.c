/* The SPANK plugin without Slurm, for tests with hostile input: reads one case per line and prints what came of it.
 *   o HEX     --comm-pattern=...        prints "1" if it is taken
 *   a HEX     an argument in plugstack.conf        prints how many complaints there were, api and timeout_ms afterwards
 *   r HEX     the path of a socket at which somebody answers a request        prints the status */
#include "../../slurm/spank_ferrule.c"

static int complaints;

void slurm_error(const char *format, ...) { (void)format; complaints++; }
void slurm_verbose(const char *format, ...) { (void)format; }
spank_context_t spank_context(void) { return S_CTX_LOCAL; }
spank_err_t spank_option_register(spank_t spank, struct spank_option *given) { (void)spank, (void)given; return ESPANK_SUCCESS; }
spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...) { (void)spank, (void)item; return ESPANK_ERROR; }
slurm_step_layout_t *slurm_job_step_layout_get(slurm_step_id_t *id) { (void)id; return NULL; }
void slurm_job_step_layout_free(slurm_step_layout_t *layout) { (void)layout; }
hostlist_t slurm_hostlist_create(const char *list) { (void)list; return NULL; }
char *slurm_hostlist_shift(hostlist_t list) { (void)list; return NULL; }
void slurm_hostlist_destroy(hostlist_t list) { (void)list; }

int main(void)
{
	char *line = NULL;
	size_t room = 0;
	for (ssize_t length; (length = getline(&line, &room, stdin)) > 2;) {
		size_t count = (size_t)(length - 2) / 2;
		char *text = malloc(count + 1); /* of this very size, so that a sanitizer sees what reads beyond */
		for (size_t i = 0; i < count; i++) {
			unsigned byte = 0;
			sscanf(line + 2 + 2 * i, "%2x", &byte);
			text[i] = (char)byte;
		}
		text[count] = 0;
		if (line[0] == 'o') {
			pattern[0] = 0;
			printf("%d\n", take_option(0, text, 0) == 0 && !strcmp(pattern, text));
		} else if (line[0] == 'a') {
			complaints = 0;
			strcpy(api, "unset");
			timeout_ms = 2000;
			slurm_spank_init(NULL, 1, &text);
			printf("%d %s %ld\n", complaints, api, timeout_ms);
		} else {
			char answer[ANSWER_MAX];
			timeout_ms = 500;
			snprintf(api, sizeof api, "%s", text);
			int status = request("GET", "/", "", 0, answer, sizeof answer);
			printf("%d\n", strlen(answer) < sizeof answer ? status : -1);
		}
		fflush(stdout);
		free(text);
	}
	free(line);
	return 0;
}
