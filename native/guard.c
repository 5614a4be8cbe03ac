/* Surviving SIGBUS: a tenant can cut its cache file while we have it mapped.
 *
 * The handler is installed when a file is mapped. It acts only while the faulting thread is inside hc_guarded
 * and the fault lies in that thread's mapping; every other SIGBUS goes to whoever had the signal before us.
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

/* initial-exec: reading it in a signal handler never allocates. */
static __thread guard *current __attribute__((tls_model("initial-exec")));

static struct sigaction previous;
static pthread_mutex_t installing = PTHREAD_MUTEX_INITIALIZER;

static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    guard *armed = current;
    const uint8_t *place = info->si_addr;
    if (armed != NULL && place >= armed->start && place < armed->end)
        siglongjmp(armed->env, 1);
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(signal_number, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal_number);
    } else {
        /* Nobody wanted it: let the fault happen again, with its default effect. */
        sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    }
}

/* Install the handler, again if somebody replaced it since (faulthandler does when enabled late). */
void hc_install_guard(void)
{
    struct sigaction now;
    pthread_mutex_lock(&installing);
    if (sigaction(SIGBUS, NULL, &now) == 0
        && !((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_sigbus)) {
        struct sigaction ours;
        memset(&ours, 0, sizeof ours);
        sigemptyset(&ours.sa_mask);
        /* NODEFER: we leave the handler by a jump, so the signal must not stay blocked. */
        ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        ours.sa_sigaction = on_sigbus;
        previous = now;
        sigaction(SIGBUS, &ours, NULL);
    }
    pthread_mutex_unlock(&installing);
}

int hc_guarded(hc_work work, void *argument, const void *start, size_t length)
{
    guard mine;
    mine.start = start;
    mine.end = mine.start + length;
    if (sigsetjmp(mine.env, 0) != 0) {
        current = NULL;
        return 0;
    }
    current = &mine;
    work(argument);
    current = NULL;
    return 1;
}
