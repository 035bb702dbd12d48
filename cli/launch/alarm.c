/* An alarm for MPI_Init, which cannot be called off: a signal that ends the process with a message.
 * The first rank is a second earlier than the others, so that most launchers end them before they
 * speak.
 */
#include "launch/alarm.h"

#include "launch/start.h"
#include "verb.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static char message[256];
static struct sigaction before;

static void on_alarm(int sig)
{
    (void)sig;
    (void)!write(STDERR_FILENO, message, strlen(message));
    _exit(LK_EXIT_FAILED);
}

bool launch_alarm_set(int rank)
{
    double seconds;
    if (!launch_start_seconds(&seconds))
        return false;
    if (seconds <= 0)
        return true;
    snprintf(
        message, sizeof message,
        "error: rank %d has waited %.15g s in MPI_Init for a rank that does not come; look for a "
        "process that is stopped, or give LK_START_DEADLINE more seconds\n",
        rank, seconds);
    seconds += rank > 0;
    struct itimerval when = {.it_value = {.tv_sec = (time_t)seconds}};
    when.it_value.tv_usec = (suseconds_t)(1e6 * (seconds - (double)when.it_value.tv_sec)) + 1;
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, &before);
    setitimer(ITIMER_REAL, &when, NULL);
    return true;
}

void launch_alarm_clear(void)
{
    if (!*message)
        return;
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_sec = 0}}, NULL);
    sigaction(SIGALRM, &before, NULL);
    *message = '\0';
}
