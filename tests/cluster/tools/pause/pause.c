/* The first process of a pod: holds its namespaces, reaps what others leave, ends when asked. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int number)
{
    (void)number;
    _exit(0);
}

static void reap(int number)
{
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void)
{
    const struct sigaction end = {.sa_handler = leave};
    const struct sigaction child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
    if (sigaction(SIGINT, &end, NULL) || sigaction(SIGTERM, &end, NULL) || sigaction(SIGCHLD, &child, NULL))
        return EXIT_FAILURE;
    for (;;)
        pause();
}
