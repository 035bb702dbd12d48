/* The signal handlers set a flag; a launched rank also reads its mailbox.  See stop.h. */
#include "launch/stop.h"

#include "launch/mailbox.h"

#include <signal.h>

static volatile sig_atomic_t asked;

static const int stopping[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
enum { N_STOPPING = sizeof stopping / sizeof stopping[0] };

static void on_signal(int sig)
{
    (void)sig;
    asked = 1;
}

void stop_listen(bool opening)
{
    for (int i = 0; i < N_STOPPING; i++) {
        if (opening && stopping[i] == SIGTERM)
            continue;
        struct sigaction action = {.sa_handler = on_signal,
                                   .sa_flags = stopping[i] == SIGINT ? (int)SA_RESETHAND : 0};
        sigaction(stopping[i], &action, NULL);
    }
    launch_mailbox_read();
}

bool stop_asked(void)
{
    return asked != 0 || launch_mailbox_stop_requested();
}
