/* Surviving SIGBUS: a tenant can cut its cache file while we have it mapped.
 *
 * The handler acts only while the faulting thread is inside hc_guarded and the fault lies in that thread's
 * mapping; every other SIGBUS goes to whoever had the signal before us.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "reader.h"

typedef struct {
    sigjmp_buf env;
    const uint8_t *start, *end;
} guard;

/* Ours blocks no signal, so there is none to restore; the thread sanitizer's stand-in for it blocks them all. */
#ifdef __SANITIZE_THREAD__
enum { SAVE_MASK = 1 };
#else
enum { SAVE_MASK = 0 };
#endif

/* initial-exec: reading them in a signal handler never allocates. */
static __thread guard *current __attribute__((tls_model("initial-exec")));
static __thread volatile sig_atomic_t passing_on __attribute__((tls_model("initial-exec")));

static struct sigaction previous;
static pthread_mutex_t installing = PTHREAD_MUTEX_INITIALIZER;

/* Give a signal that is not ours its default effect: a fault happens again, one that was sent is sent again. */
static void die_of(int signal_number, const siginfo_t *info)
{
    sigaction(signal_number, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    if (info->si_code <= 0)
        raise(signal_number);
}

static void pass_on(int signal_number, siginfo_t *info, void *context)
{
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(signal_number, info, context);
    else if (previous.sa_handler == SIG_DFL)
        die_of(signal_number, info);
    else if (previous.sa_handler != SIG_IGN)
        previous.sa_handler(signal_number);
    else if (info->si_code > 0)
        die_of(signal_number, info);    /* a fault cannot be ignored: it would only happen again */
}

static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    guard *armed = current;
    const uint8_t *place = info->si_addr;
    /* si_code > 0: the kernel's; in a signal that somebody sent, si_addr is something else. */
    if (info->si_code > 0 && armed != NULL && place >= armed->start && place < armed->end)
        siglongjmp(armed->env, 1);
    /* Handlers that were installed above ours pass signals back to us (faulthandler does): once is enough. */
    if (passing_on) {
        die_of(signal_number, info);
        return;
    }
    passing_on = 1;
    pass_on(signal_number, info, context);
    passing_on = 0;
}

static int is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_sigbus;
}

static void install(void)
{
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    sigemptyset(&ours.sa_mask);
    /* NODEFER: we leave the handler by a jump, so the signal must not stay blocked. */
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    ours.sa_sigaction = on_sigbus;
    sigaction(SIGBUS, &ours, NULL);
}

void hc_install_guard(void)
{
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) != 0 || is_ours(&now))
        return;
    pthread_mutex_lock(&installing);
    if (sigaction(SIGBUS, NULL, &now) == 0 && !is_ours(&now)) {
        previous = now;
        install();
    }
    pthread_mutex_unlock(&installing);
}

int hc_guarded(hc_work work, void *argument, const void *start, size_t length)
{
    guard mine;
    mine.start = start;
    mine.end = mine.start + length;
    if (sigsetjmp(mine.env, SAVE_MASK) != 0) {
        current = NULL;
        return 0;
    }
    current = &mine;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);    /* the handler sees it armed before anything is touched */
    work(argument);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    current = NULL;
    return 1;
}
