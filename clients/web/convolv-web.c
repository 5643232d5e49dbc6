/*
 * convolv-web: the live page of convolvd, a process of its own, so that no browser can disturb the
 * measurement. It speaks to the daemon through the control sockets, and to browsers over HTTP and
 * WebSocket.
 *
 * One thread, one loop. Exit status 0: stopped by a signal; 1: it could not start; 2: usage.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/log.h"
#include "clients/tools/options.h"
#include "hits.h"
#include "live.h"
#include "manual.h"
#include "server.h"
#include "views.h"
#include "web.h"

enum { EXIT_USAGE = 2, PATH_TEXT = 4096 };

#ifndef CONVOLV_WEB_DYGRAPHS
#define CONVOLV_WEB_DYGRAPHS "/usr/share/javascript/dygraphs"
#endif

static struct arguments {
    const char *listen, *directory, *tokens, *certificate, *key, *page, *dygraphs;
    const char *new_token, *role;
    struct tool_list hosts;
    bool allow_control, require_token, verbose, manual;
    uint64_t clients, metrics_channels;
} arguments = {
    .listen = "127.0.0.1:8470",
    .dygraphs = CONVOLV_WEB_DYGRAPHS,
    .role = "observe",
    .clients = 64,
    .metrics_channels = 64,
};

/* clang-format off */
#define ROW(name, kind, metavar, field, min, max, fallback, sentence)                              \
    {name, TOOL_##kind, DIMENSION_NUMBER, metavar, &arguments.field, min, max, fallback, sentence}
#define GROUP(sentence) {NULL, TOOL_GROUP, 0, NULL, NULL, 0, 0, NULL, sentence}

static const struct tool_option rows[] = {
    GROUP("Where"),
    ROW("listen", TEXT, "ADDRESS:PORT", listen, 0, 0, "127.0.0.1:8470", "where browsers connect; port 0: any free one; sockets of systemd come first"),
    ROW("host", LIST, "NAME[:PORT]", hosts, 0, 0, NULL, "a name under which the page may be asked for, besides localhost and addresses"),
    ROW("directory", TEXT, "PATH", directory, 0, 0, "as convolvctl finds it", "runtime directory of the daemon, with its sockets"),
    ROW("page", TEXT, "PATH", page, 0, 0, "as installed", "folder of the page's files"),
    ROW("dygraphs", TEXT, "PATH", dygraphs, 0, 0, CONVOLV_WEB_DYGRAPHS, "folder of libjs-dygraphs"),
    GROUP("Who may"),
    ROW("tokens", TEXT, "PATH", tokens, 0, 0, NULL, "file of the tokens' hashes, a line of --new-token each; SIGHUP reads it again"),
    ROW("certificate", TEXT, "PATH", certificate, 0, 0, NULL, "certificate chain (PEM): TLS, which every address but loopback needs"),
    ROW("key", TEXT, "PATH", key, 0, 0, NULL, "private key of the certificate (PEM)"),
    ROW("allow-control", FLAG, NULL, allow_control, 0, 0, NULL, "holders of a token with the role control may change the daemon; else all only observe"),
    ROW("require-token", FLAG, NULL, require_token, 0, 0, NULL, "nobody observes without a token, from this machine either"),
    ROW("clients", COUNT, "N", clients, 1, 4096, "64", "connections open at once"),
    ROW("metrics-channels", COUNT, "N", metrics_channels, 0, 1024, "64", "channels of a stream with series of their own in /metrics"),
    GROUP("Tokens"),
    ROW("new-token", TEXT, "NAME", new_token, 0, 0, NULL, "print a new token for this holder, and the line for the file; then exit"),
    ROW("role", TEXT, "ROLE", role, 0, 0, "observe", "of the new token: observe or control"),
    GROUP("Others"),
    ROW("man", FLAG, NULL, manual, 0, 0, NULL, "print the manual page"),
    ROW("verbose", FLAG, NULL, verbose, 0, 0, NULL, "log what the libraries say as well"),
};
/* clang-format on */

static const char usage[] =
    "Usage: convolv-web [OPTION…]\n"
    "\n"
    "Serves the live page of convolvd: http://127.0.0.1:8470/ shows streams, waveforms, spectra,\n"
    "latencies and events. Without a token, and only from this machine, one may look; docs/web.md\n"
    "says how to let others look and how to let somebody change things.\n";

/* ---- the daemon's news ----------------------------------------------------------------------- */

static void on_status(void *context)
{
    struct web *web = context;
    views_status(web->views);
    live_status(web);
}

static void on_event(void *context, const json_t *event)
{
    struct web *web = context;
    live_event(web, event);
}

static void on_changed(void *context)
{
    struct web *web = context;
    if (daemon_up(web->daemon))
        log_info("the daemon answers");
    else
        log_warning("%s", daemon_reason(web->daemon));
    live_daemon(web);
}

static void on_watched(void *context, json_t *answer, int fd)
{
    struct web *web = context;
    views_watched(web->views, answer, fd);
}

/* ---- life ------------------------------------------------------------------------------------ */

static uv_signal_t signals[3];
static uv_timer_t watchdog;

static void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    sd_notify(0, "WATCHDOG=1");
}

/* Pings while the loop turns: a loop that hangs is ended and restarted by systemd. */
static void start_watchdog(struct web *web)
{
    uint64_t watchdog_us;
    uv_timer_init(&web->loop, &watchdog);
    if (sd_watchdog_enabled(0, &watchdog_us) > 0) {
        const uint64_t period_ms = watchdog_us / 4 / 1000 + 1;
        uv_timer_start(&watchdog, on_watchdog, 0, period_ms);
    }
}

static void stop(struct web *web)
{
    sd_notify(0, "STOPPING=1");
    uv_close((uv_handle_t *)&watchdog, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        uv_close((uv_handle_t *)&signals[i], NULL);
    server_close(web->server);
    daemon_close(web->daemon);
    hits_close(web->hits);
    web->hits = NULL;
    views_close(web->views);
}

static void read_again(struct web *web)
{
    struct problem problem;
    struct page_files *fresh;
    if (tokens_reload(web->tokens, &problem) < 0)
        log_error("the tokens stay as they were: %s", problem.text);
    if (page_files_open(web->page, web->dygraphs, &fresh, &problem) < 0) {
        log_error("the page stays as it was: %s", problem.text);
        return;
    }
    page_files_close(web->files);
    web->files = fresh;
    log_info("%u tokens and %u files of the page read again", tokens_count(web->tokens),
             page_files_count(web->files));
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct web *web = handle->data;
    if (number == SIGHUP)
        read_again(web);
    else if (!uv_is_closing((uv_handle_t *)handle))
        stop(web);
}

/* The page's folder: beside the program as installed, or in a source tree (build/KIND/convolv-web).
 */
static const char *find_page(char path[PATH_TEXT])
{
    static const char *const places[] = {"../share/convolvd/web", "../../clients/web/page"};
    char program[PATH_TEXT / 2];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash != NULL)
        *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, PATH_TEXT, "%s/%s", program, places[i]);
        if (access(path, X_OK) == 0)
            break;
    }
    return path;
}

static int open_parts(struct web *web, struct problem *problem)
{
    const struct daemon_options options = {
        .loop = &web->loop,
        .directory = arguments.directory,
        .control = arguments.allow_control,
        .context = web,
        .status = on_status,
        .event = on_event,
        .changed = on_changed,
        .watched = on_watched,
    };
    int error = tokens_open(arguments.tokens, &web->tokens, problem);
    if (error == 0)
        error = page_files_open(web->page, web->dygraphs, &web->files, problem);
    if (error == 0)
        error = server_open(web, arguments.listen, &web->server, problem);
    if (error == 0 &&
        (views_open(web, &web->views) < 0 || daemon_open(&options, &web->daemon) < 0 ||
         hits_open(web, arguments.directory, &web->hits) < 0))
        error = problem_set(problem, ERROR_MEMORY, "out of memory");
    return error;
}

/* Where it hears every address, the name that a certificate is for comes before this machine's. */
static void print_url(const struct web *web)
{
    const char *address = server_address(web->server);
    if (address == NULL)
        address = web->guard.host_count > 0 ? web->guard.hosts[0] : "127.0.0.1";
    const bool has_port = strchr(address, ':') != NULL && address[0] != '[';
    printf("convolv-web: %s://%s", web->guard.tls ? "https" : "http", address);
    if (!has_port)
        printf(":%u", (unsigned)web->guard.port);
    printf("/\n");
    fflush(stdout);
}

/* Browsers wait for the measurement: the scheduler gives this process what nobody else wants, and
 * takes it away at once for whoever wakes up, which it does not for one that is merely nice. Who
 * has chosen a priority, such as the service, keeps it. */
static void give_way(void)
{
    errno = 0;
    if (getpriority(PRIO_PROCESS, 0) == 0 && errno == 0 && sched_getscheduler(0) == SCHED_OTHER &&
        sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0}) != 0)
        log_warning("pictures may delay the measurement: cannot run at idle priority: %s",
                    strerror(errno));
}

static void run(struct web *web)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        uv_signal_init(&web->loop, &signals[i]);
        signals[i].data = web;
        uv_signal_start(&signals[i], on_signal, numbers[i]);
    }
    start_watchdog(web);
    print_url(web);
    if (page_files_count(web->files) == 0)
        log_warning("%s holds no page: only the API is served", web->page);
    sd_notify(0, "READY=1");
    uv_run(&web->loop, UV_RUN_DEFAULT);
}

static int serve(struct problem *problem)
{
    char page[PATH_TEXT];
    struct web web = {
        .guard = {.hosts = arguments.hosts.items,
                  .host_count = arguments.hosts.count,
                  .tls = arguments.certificate != NULL},
        .allow_control = arguments.allow_control,
        .require_token = arguments.require_token,
        .page = arguments.page != NULL ? arguments.page : find_page(page),
        .dygraphs = arguments.dygraphs,
        .clients_max = (uint32_t)arguments.clients,
        .metrics_channels = (uint32_t)arguments.metrics_channels,
        .certificate = arguments.certificate,
        .key = arguments.key,
    };
    signal(SIGPIPE, SIG_IGN);
    give_way();
    uv_loop_init(&web.loop);
    const int error = open_parts(&web, problem);
    if (error == 0)
        run(&web);
    /* What could not be opened whole is left to the end of the process. */
    if (error == 0) {
        uv_run(&web.loop, UV_RUN_DEFAULT);
        views_free(web.views);
        server_free(web.server);
        uv_loop_close(&web.loop);
    }
    page_files_close(web.files);
    tokens_close(web.tokens);
    return error;
}

static int print_token(struct problem *problem)
{
    char token[TOKEN_TEXT], line[256];
    const bool control = strcmp(arguments.role, "control") == 0;
    if (!control && strcmp(arguments.role, "observe") != 0)
        return problem_set(problem, ERROR_ARGUMENT, "--role %s: write observe or control",
                           arguments.role);
    const int error = tokens_make(arguments.new_token, control ? ROLE_CONTROL : ROLE_OBSERVE, token,
                                  line, problem);
    if (error == 0)
        printf("token, for %s alone, shown only now:\n%s\n\nline for the file of --tokens:\n%s\n",
               arguments.new_token, token, line);
    return error;
}

int main(int argc, char **argv)
{
    struct problem problem = {0};
    bool help, version;
    const size_t row_count = sizeof rows / sizeof *rows;
    descriptor_open_standard();
    if (tool_options_parse(rows, row_count, argc, argv, &help, &version, &problem) != 0) {
        fprintf(stderr, "convolv-web: %s\n", problem.text);
        return EXIT_USAGE;
    }
    if (help) {
        tool_options_print_help(rows, row_count, usage);
        return 0;
    }
    if (version) {
        printf("convolv-web %s\n", CONVOLVD_VERSION);
        return 0;
    }
    if (arguments.manual) {
        manual_print(rows, row_count, stdout);
        return 0;
    }
    if ((arguments.certificate == NULL) != (arguments.key == NULL)) {
        fprintf(stderr, "convolv-web: --certificate and --key go together\n");
        return EXIT_USAGE;
    }
    log_set_name("convolv-web");
    if (arguments.verbose)
        log_set_level(LOG_LEVEL_DEBUG);
    const int error = arguments.new_token != NULL ? print_token(&problem) : serve(&problem);
    if (error < 0) {
        fprintf(stderr, "convolv-web: %s\n", problem.text);
        return EXIT_FAILURE;
    }
    return 0;
}
